"""A small reader of a session being recorded, straight from its files: what the recorder's tests look at.

It knows nothing of the collector; it reads what a program published and what a kill left behind.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topstx.recorder import layout as L


@dataclass
class Record:
    """One range, mark, counter sample or overhead, with its names resolved."""

    kind: int
    name: str
    begin: int
    end: int
    tid: int
    task: int
    depth: int
    flags: int
    domain: str = ""
    category: tuple[int, str] | None = None
    color: int = 0
    payload: Any = None
    error: str | None = None
    end_tid: int | None = None
    value: float | None = None
    unit: str = ""
    process: int = 0
    shared: bool = False
    context: int = 0
    inside: str = ""  # of rows: the innermost open range
    place: tuple[str, str, int] = ("", "", 0)  # of calls: module, file, line


@dataclass
class Process:
    """The names file of a process, and its rings."""

    header: dict[str, Any]
    entries: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    open: list[Record] = field(default_factory=list)
    rings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return int(self.header["pid"])

    @property
    def info(self) -> dict[str, str]:
        found = {}
        for kind, body in self.entries.values():
            if kind == L.ENTRY_PROCESS:
                key, _, value = body.partition(b"\0")
                found[key.decode()] = value.decode()
        return found

    @property
    def thread_names(self) -> dict[int, str]:
        return {
            struct.unpack_from("<I", body)[0]: body[4:].decode()
            for kind, body in self.entries.values()
            if kind == L.ENTRY_THREAD
        }

    def of(self, kind: int = L.KIND_RANGE) -> list[Record]:
        return [record for record in self.records if record.kind == kind]

    def names(self, kind: int = L.KIND_RANGE) -> list[str]:
        return [record.name for record in self.of(kind)]

    @property
    def dropped(self) -> int:
        return sum(int(ring["dropped"]) for ring in self.rings)

    @property
    def unbalanced(self) -> int:
        return sum(int(ring["unbalanced"]) for ring in self.rings)


@dataclass
class Recording:
    """All processes of a session folder."""

    processes: list[Process]

    @property
    def only(self) -> Process:
        assert len(self.processes) == 1, [p.info for p in self.processes]
        return self.processes[0]

    @property
    def records(self) -> list[Record]:
        return [record for process in self.processes for record in process.records]

    def by_pid(self, pid: int) -> Process:
        (found,) = [process for process in self.processes if process.pid == pid]
        return found


def _header(layout: str, fields: list[str], data: bytes) -> dict[str, Any]:
    return dict(zip(fields, struct.unpack_from(layout, data), strict=True))


def _entries(data: bytes, header: dict[str, Any]) -> Iterator[tuple[int, int, bytes]]:
    at, end = L.NAMES_ENTRIES_OFFSET, L.NAMES_ENTRIES_OFFSET + header["committed_bytes"]
    assert end <= len(data)
    while at < end:
        size, kind, _, number, body = struct.unpack_from(L.ENTRY_FORMAT, data, at)
        assert size % 8 == 0 and size >= L.ENTRY_BYTES + body
        yield number, kind, data[at + L.ENTRY_BYTES : at + L.ENTRY_BYTES + body]
        at += size
    assert at == end


def more_items(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        tag, size = struct.unpack_from("<BH", data, at)
        yield tag, data[at + 3 : at + 3 + size]
        at += 3 + size


def decode(tag: int, body: bytes) -> Any:
    if tag == L.MORE_INT:
        return struct.unpack("<q", body)[0]
    if tag == L.MORE_FLOAT:
        return struct.unpack("<d", body)[0]
    if tag == L.MORE_STR:
        return body.decode()
    if tag == L.MORE_JSON:
        try:
            return json.loads(body)
        except ValueError:
            return body
    return body


class _Names:
    def __init__(self, entries: dict[int, tuple[int, bytes]]) -> None:
        self.entries = entries

    def text(self, number: int) -> str:
        return self.entries[number][1].decode()

    def fill(self, record: Record, name: int, attr: int) -> Record:
        kind, body = self.entries[name]
        if kind == L.ENTRY_COUNTER:
            domain, length = struct.unpack_from("<II", body)
            record.name, record.unit = body[8 : 8 + length].decode(), body[8 + length :].decode()
            record.domain = self.text(domain) if domain else ""
        else:
            assert kind == L.ENTRY_NAME, kind
            record.name = body.decode()
        if attr and record.kind >= L.KIND_TABLE_FIRST:
            record.inside = self.text(attr)
        elif attr and record.kind in (L.KIND_CALL, L.KIND_CALLS_SKIPPED):
            kind, body = self.entries[attr]
            assert kind == L.ENTRY_CODE
            line, length = struct.unpack_from("<II", body)
            record.place = (body[8 + length :].decode(), body[8 : 8 + length].decode(), line)
        elif attr:
            kind, body = self.entries[attr]
            assert kind == L.ENTRY_ATTR
            domain, category, record.color = struct.unpack("<III", body)
            record.domain = self.text(domain) if domain else ""
            if category:
                kind, body = self.entries[category]
                assert kind == L.ENTRY_CATEGORY
                record.category = (struct.unpack_from("<I", body, 4)[0], body[8:].decode())
        return record


def _read_ring(path: Path, names: _Names, process: Process) -> None:
    if path.stat().st_size < L.RING_HEADER_BYTES:
        return  # its process ended between creating the file and allocating it
    if path.stat().st_size < L.RING_HEADER_BYTES:  # its process died before it was allocated
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        ring = _header(L.RING_FORMAT, L.RING_FIELDS, data[: L.RING_HEADER_BYTES])
        if ring["state"] == L.RING_BUILDING:
            return
        assert ring["magic"] == L.RING_MAGIC and ring["file_bytes"] == len(data)
        process.rings.append(ring)
        capacity, base = ring["record_capacity"], ring["record_offset"]
        at, head = ring["tail"], ring["head"]
        tid = ring["tid"] if at else 0  # what was consumed may have said whose it is
        assert head - at <= capacity
        seen = set()
        while at < head:
            slot = bytes(data[base + (at % capacity) * 32 : base + (at % capacity) * 32 + 32])
            begin, end, name, task, attr, depth, kind, flags = struct.unpack(L.RECORD_FORMAT, slot)
            at += 1
            more = b""
            while flags & L.FLAG_MORE:
                assert at < head, "a record was published without its MORE slots"
                slot = bytes(data[base + (at % capacity) * 32 : base + (at % capacity) * 32 + 32])
                part, more_kind, used = struct.unpack(L.MORE_FORMAT, slot)
                assert more_kind == L.KIND_MORE
                more += part[: used & 0x7F]
                at += 1
                if not used & L.MORE_CONTINUES:
                    break
            if kind in (L.KIND_THREAD, L.KIND_THREAD_END):
                tid = task
                continue
            assert tid, "a record before the ring said whose it is"
            seen.add((begin, name))
            record = Record(kind, "", begin, end, tid, task, depth, flags & ~L.FLAG_MORE, process=process.pid)
            record.shared = bool(ring["shared"])
            names.fill(record, name, attr)
            if kind == L.KIND_COUNTER:
                record.value = struct.unpack("<d", struct.pack("<Q", end))[0]
            for tag, body in more_items(more):
                if tag == L.MORE_END_TID:
                    record.end_tid = struct.unpack("<I", body)[0]
                elif tag == L.MORE_ERROR:
                    record.error = body.decode()
                else:
                    record.payload = decode(tag, body)
            process.records.append(record)
        if ring["state"] == L.RING_SUPERSEDED:
            return
        for index in range(ring["open_capacity"]):
            where = ring["open_offset"] + index * L.OPEN_BYTES
            slot = _header(L.OPEN_FORMAT, L.OPEN_FIELDS, bytes(data[where : where + L.OPEN_BYTES]))
            if slot["begin_tick"] and (slot["begin_tick"], slot["name"]) not in seen:
                record = Record(
                    slot["kind"], "", slot["begin_tick"], 0, slot["tid"], slot["task"], slot["depth"],
                    slot["flags"],
                    process=process.pid, context=slot["context"], shared=bool(ring["shared"]),
                )  # fmt: skip
                names.fill(record, slot["name"], slot["attr"])
                if slot["payload"][0]:
                    body = slot["payload"][2 : 2 + slot["payload"][1]]
                    record.payload = decode(slot["payload"][0], body)
                process.open.append(record)


def read_recording(folder: Path) -> Recording:
    """Everything in `folder`, processes in order of their begin, their records in order of the ends."""
    processes: dict[int, Process] = {}
    for path in folder.glob("names/*.names"):
        data = path.read_bytes()
        header = _header(L.NAMES_FORMAT, L.NAMES_FIELDS, data)
        assert header["magic"] == L.NAMES_MAGIC and header["layout_version"] == L.LAYOUT_VERSION
        assert path.name == L.names_file_name(header["process_serial"])
        process = Process(header)
        process.entries = {number: (kind, body) for number, kind, body in _entries(data, header)}
        processes[header["process_serial"]] = process
    rings: dict[int, list[Path]] = defaultdict(list)
    for path in folder.glob("rings/*.ring"):
        rings[int(path.name.partition("-")[0], 16)].append(path)
    assert set(rings) <= set(processes)
    for serial, process in processes.items():
        known = dict(process.entries)
        ancestor = process
        while ancestor.header["parent_serial"]:
            limit, ancestor = ancestor.header["parent_count"], processes[ancestor.header["parent_serial"]]
            known.update({n: e for n, e in ancestor.entries.items() if n < limit and n not in known})
        for path in sorted(rings[serial], key=lambda p: int(p.stem.partition("-")[2])):
            _read_ring(path, _Names(known), process)
        process.records.sort(key=lambda record: record.end if record.kind != L.KIND_COUNTER else record.begin)
    return Recording(sorted(processes.values(), key=lambda p: int(p.header["start_monotonic_ns"])))


def create_session(folder: Path, **options: Any) -> Path:
    """A session folder as the collector makes one before it starts a program."""
    (folder / "rings").mkdir(parents=True)
    (folder / "names").mkdir()
    (folder / "control").write_bytes(L.control_bytes(**options))
    return folder


def set_control(folder: Path, **fields: int) -> None:
    """Write 32-bit fields of `control`, as a tool does while programs run."""
    with (folder / "control").open("r+b") as file:
        for name, value in fields.items():
            file.seek(L.CONTROL_OFFSET[name])
            file.write(struct.pack("<I", value))


def get_control(folder: Path) -> dict[str, Any]:
    return _header(L.CONTROL_FORMAT, L.CONTROL_FIELDS, (folder / "control").read_bytes())
