"""A producer in plain Python that writes names and ring files as topstx_layout.h says, one step at a time,
for tests of the collector.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout

_serials = itertools.count(0x1000000000000001)


def _proc_start(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


class FakeRing:
    """One ring file. `publish=False` writes slots without telling."""

    def __init__(
        self,
        process: FakeProcess,
        serial: int,
        capacity: int = 64,
        tid: int = 100,
        predecessor: int = 0,
        state: int = layout.RING_LIVE,
        opens: int = 8,
    ) -> None:
        self.serial, self.capacity = serial, capacity
        self.open_offset = layout.PAGE
        self.record_offset = layout.PAGE + opens * layout.OPEN_BYTES
        size = self.record_offset + capacity * 32
        self.path = process.folder / "rings" / layout.ring_file_name(process.serial, serial)
        self.path.write_bytes(b"\0" * size)
        with self.path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), size)
        values: dict[str, Any] = dict.fromkeys(layout.RING_FIELDS, 0) | {
            "magic": layout.RING_MAGIC,
            "layout_version": layout.LAYOUT_VERSION,
            "process_serial": process.serial,
            "ring_serial": serial,
            "predecessor": predecessor,
            "pid": process.pid,
            "open_offset": self.open_offset,
            "open_capacity": opens,
            "record_offset": self.record_offset,
            "record_capacity": capacity,
            "file_bytes": size,
            "tid": tid,
            "state": state,
        }
        struct.pack_into(layout.RING_FORMAT, self.memory, 0, *(values[name] for name in layout.RING_FIELDS))
        self.head = 0

    def set(self, field: str, value: int) -> None:
        format_ = "<I" if field in {"state", "tid", "layout_version", "clock"} else "<Q"
        struct.pack_into(format_, self.memory, layout.RING_OFFSET[field], value)

    def get(self, field: str) -> int:
        format_ = "<I" if field in {"state", "tid"} else "<Q"
        return int(struct.unpack_from(format_, self.memory, layout.RING_OFFSET[field])[0])

    def slot(self, data: bytes) -> None:
        at = self.record_offset + (self.head % self.capacity) * 32
        self.memory[at : at + 32] = data
        self.head += 1

    def record(
        self,
        begin: int,
        end: int,
        name: int,
        *,
        kind: int = layout.KIND_RANGE,
        task: int = 0,
        attr: int = 0,
        depth: int = 0,
        flags: int = 0,
        more: bytes = b"",
        publish: bool = True,
    ) -> None:
        """One record, with MORE slots for `more`."""
        if more:
            flags |= layout.FLAG_MORE
        self.slot(struct.pack(layout.RECORD_FORMAT, begin, end, name, task, attr, depth, kind, flags))
        pieces = [more[at : at + 30] for at in range(0, len(more), 30)]
        for index, piece in enumerate(pieces):
            used = len(piece) | (layout.MORE_CONTINUES if index + 1 < len(pieces) else 0)
            self.slot(struct.pack(layout.MORE_FORMAT, piece, layout.KIND_MORE, used))
        if publish:
            self.publish()

    def thread(self, tid: int, tick: int = 0) -> None:
        self.record(tick, tick, 0, kind=layout.KIND_THREAD, task=tid)

    def publish(self) -> None:
        self.set("head", self.head)

    @property
    def room(self) -> int:
        return self.capacity - (self.head - self.get("tail"))

    def open(
        self, index: int, begin: int, name: int, *, tid: int = 100, payload: bytes = b"", depth: int = 0
    ) -> None:
        struct.pack_into(
            layout.OPEN_FORMAT,
            self.memory,
            self.open_offset + index * layout.OPEN_BYTES,
            *(begin, 0, name, 0, tid, 0, depth, layout.KIND_RANGE, 0, 0, 0, 0, payload.ljust(16, b"\0")),
        )

    def close_open(self, index: int) -> None:
        struct.pack_into("<Q", self.memory, self.open_offset + index * layout.OPEN_BYTES, 0)


class FakeProcess:
    """One incarnation: its names file, and rings on demand."""

    def __init__(
        self,
        folder: Path,
        *,
        pid: int | None = None,
        parent: FakeProcess | None = None,
        serial: int | None = None,
        backend: int = layout.BACKEND_TWIN,
    ) -> None:
        self.folder = folder
        self.pid = os.getpid() if pid is None else pid
        self.serial = next(_serials) if serial is None else serial
        self.path = folder / "names" / layout.names_file_name(self.serial)
        self.next_id = parent.next_id if parent else 1
        self.header: dict[str, Any] = dict.fromkeys(layout.NAMES_FIELDS, 0) | {
            "magic": layout.NAMES_MAGIC,
            "layout_version": layout.LAYOUT_VERSION,
            "backend": backend,
            "process_serial": self.serial,
            "parent_serial": parent.serial if parent else 0,
            "parent_count": parent.next_id if parent else 0,
            "pid": self.pid,
            "parent_pid": os.getppid(),
            "start_monotonic_ns": time.monotonic_ns(),
            "start_realtime_ns": time.time_ns(),
            "proc_start": _proc_start(self.pid),
        }
        self.path.write_bytes(self._packed().ljust(layout.PAGE, b"\0"))
        self.rings = 0
        if not parent:
            self.name("(too many names)")

    def _packed(self) -> bytes:
        return struct.pack(layout.NAMES_FORMAT, *(self.header[name] for name in layout.NAMES_FIELDS))

    def set(self, **fields: int) -> None:
        self.header |= fields
        with self.path.open("r+b") as file:
            file.write(self._packed())

    def entry(self, kind: int, body: bytes) -> int:
        size = (16 + len(body) + 7) // 8 * 8
        with self.path.open("r+b") as file:
            file.seek(layout.PAGE + self.header["committed_bytes"])
            file.write(
                (struct.pack(layout.ENTRY_FORMAT, size, kind, 0, self.next_id, len(body)) + body).ljust(
                    size, b"\0"
                )
            )
        self.next_id += 1
        self.set(committed_bytes=self.header["committed_bytes"] + size, next_id=self.next_id)
        return self.next_id - 1

    def name(self, text: str) -> int:
        return self.entry(layout.ENTRY_NAME, text.encode())

    def attr(self, domain: str = "", category: str = "", color: int = 0) -> int:
        domain_id = self.entry(layout.ENTRY_DOMAIN, domain.encode()) if domain else 0
        category_id = (
            self.entry(layout.ENTRY_CATEGORY, struct.pack("<II", domain_id, 1) + category.encode())
            if category
            else 0
        )
        return self.entry(layout.ENTRY_ATTR, struct.pack("<III", domain_id, category_id, color))

    def counter(self, name: str, unit: str, domain: int = 0) -> int:
        return self.entry(
            layout.ENTRY_COUNTER,
            struct.pack("<II", domain, len(name.encode())) + name.encode() + unit.encode(),
        )

    def ring(self, **options: Any) -> FakeRing:
        self.rings += 1
        return FakeRing(self, self.rings, **options)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A session folder with `rings/` and `names/`, and nothing else."""
    folder = tmp_path / "case.topsprof"
    (folder / "rings").mkdir(parents=True)
    (folder / "names").mkdir()
    return folder


@pytest.fixture
def fake_process(recording: Path) -> Callable[..., FakeProcess]:
    """Makes processes of the `recording`."""

    def make(**options: Any) -> FakeProcess:
        return FakeProcess(recording, **options)

    return make


@pytest.fixture(params=["C", "twin"])
def loops(request: pytest.FixtureRequest) -> Any:
    """The collector's loops, in C and in Python."""
    from tops_kit.collect.backend import load

    found, name = load(pure=request.param == "twin")
    if name != request.param:
        pytest.skip("the C extension is not built here, or TOPSKIT_PURE is set")
    return found


def wait_for(condition: Callable[[], Any], what: str = "condition", seconds: float = 20.0) -> Any:
    """Poll until `condition()` is true and return it; fails after a deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., Any]:
    return wait_for


@pytest.fixture(scope="session")
def fake_ring_class() -> type[FakeRing]:
    return FakeRing


@pytest.fixture
def fake_process_in() -> Callable[..., FakeProcess]:
    """Makes a process of any folder."""
    return FakeProcess


@pytest.fixture(scope="session")
def fake_process_class() -> type[FakeProcess]:
    return FakeProcess
