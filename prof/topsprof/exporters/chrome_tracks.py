"""Processes and threads of a Chrome trace: which pid and tid the rows get, and the events that name them.

As in PyTorch's traces the queues of a device are threads of a process whose number is the device's, where no
real process has that number; else the device gets a number that nobody has.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tops_kit.session.arrays import end_of
from topsprof.exporters.codes import combine, encode
from topsprof.exporters.timeline import DEVICE_TABLES, NONE, OVERFLOW_BITS, Part, overflows

if TYPE_CHECKING:
    from tops_kit.session import Session

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SPARE_THREAD = 2_000_000_000  # beyond the numbers of Linux's threads, within 32 bits
_UNKNOWN_DEVICE = 1 << 20  # pids of devices without a number begin here: what is lower would read as one
_MANY = 1 << 16


@dataclass(frozen=True, slots=True)
class Place:
    """pid and tid of rows, and the thread that each really belongs to."""

    pid: Int64s
    tid: Int64s
    thread: Int64s

    @property
    def moved(self) -> Mask:
        """Rows whose tid is not their thread's."""
        odd: Mask = self.tid != self.thread
        return odd


class Tracks:
    """Gives rows their pid and tid."""

    def __init__(self, session: Session, parts: list[Part]) -> None:
        self._processes = session.table("process").to_pylist()
        self._threads = session.table("thread").to_pylist()
        self._streams = session.table("stream").to_pylist()
        self._devices = session.table("device").to_pylist()
        self._hosts: set[int] = set()  # processes with rows of their own
        queues: set[tuple[int, int]] = set()
        for part in parts:
            process, device = part.integers("process_id"), part.integers("device_id")
            if part.table.name in DEVICE_TABLES:
                queues |= _distinct(process, device)
            else:
                self._hosts |= {pid for pid, _ in _distinct(process, process)}
        self._pids: dict[tuple[int, int], int] = {}
        owners = {owner for owner, _ in queues}
        self.several_owners = len(owners) > 1
        for owner, number in sorted(queues):
            self._pids[owner, number] = self._device_pid(number, alone=len(owners) == 1)

    def _device_pid(self, device: int, alone: bool) -> int:
        taken = self._hosts | set(self._pids.values())
        if device != NONE and alone and 0 <= device < _MANY and device not in taken:
            return device
        number = _UNKNOWN_DEVICE + len(self._pids)
        while number in taken:
            number += 1
        return number

    def spread(self, parts: list[Part], complete: list[Mask]) -> list[Place]:
        """(pid, tid) of the rows of all parts. Slices (`complete` says which rows become some) that would
        cross others of their thread get a thread number that nobody has: readers of this format drop what
        does not nest."""
        places = [self.of(part) for part in parts]
        pid, tid = (
            np.concatenate([place[i][mask] for place, mask in zip(places, complete, strict=True)])
            for i in (0, 1)
        )
        start = np.concatenate([part.start_ns[mask] for part, mask in zip(parts, complete, strict=True)])
        length = np.concatenate([part.duration_ns[mask] for part, mask in zip(parts, complete, strict=True)])
        code, _ = combine(pid, tid)
        further = overflows(code, start, end_of(start, length))
        odd = np.flatnonzero(further)
        keys, number = np.unique(code[odd] << OVERFLOW_BITS | further[odd], return_inverse=True)
        taken = set(encode(tid)[1].tolist()) | {row["thread_id"] for row in self._threads}
        free = (candidate for candidate in itertools.count(_SPARE_THREAD) if candidate not in taken)
        spare = np.array([next(free) for _ in keys] or [0], np.int64)
        moved_tid = tid.copy()
        moved_tid[odd] = spare[number]
        out, at = [], 0
        for place, mask in zip(places, complete, strict=True):
            count = int(mask.sum())
            own, new = place[1], place[1].copy()
            new[mask] = moved_tid[at : at + count]
            at += count
            out.append(Place(place[0], new, own))
        return out

    def of(self, part: Part) -> tuple[Int64s, Int64s]:
        """(pid, tid) of each row."""
        process = part.integers("process_id")
        if part.table.name not in DEVICE_TABLES:
            thread = part.integers("thread_id")
            return np.where(process == NONE, 0, process), np.where(thread == NONE, 0, thread)
        device, stream = part.integers("device_id"), part.integers("stream_id")
        pid = np.zeros(len(process), np.int64)
        for key, number in self._pids.items():
            pid[(process == key[0]) & (device == key[1])] = number
        return pid, np.where(stream == NONE, 0, stream)

    def top(self) -> dict[str, Any]:
        """Members of the whole trace: devices, and the rank when there is one process."""
        out: dict[str, Any] = {}
        devices: dict[int | None, dict[str, Any]] = {}
        for row in self._devices:
            if row["properties"] or row["name"]:
                devices.setdefault(row["device_id"], _properties(row))
        out["deviceProperties"] = [
            devices[number] for number in sorted(devices, key=lambda number: (number is None, number))
        ]
        ranks = [row["rank"] for row in self._processes if row["rank"] is not None]
        if len(ranks) == 1:
            out["distributedInfo"] = {"rank": ranks[0]}
        return out

    def metadata(self) -> Iterator[dict[str, Any]]:
        """The events that name processes, threads and queues."""
        device_pids = set(self._pids.values())
        for row in self._processes:
            pid = row["process_id"]
            if pid in device_pids:
                continue
            if row["name"]:
                yield _event("process_name", pid, 0, name=row["name"])
            if row["labels"]:
                yield _event("process_labels", pid, 0, labels=row["labels"])
            if row["sort_index"] is not None:
                yield _event("process_sort_index", pid, 0, sort_index=row["sort_index"])
        for row in self._threads:
            if row["process_id"] is None or row["thread_id"] is None or row["process_id"] in device_pids:
                continue
            if row["name"]:
                yield _event("thread_name", row["process_id"], row["thread_id"], name=row["name"])
            if row["sort_index"] is not None:
                yield _event(
                    "thread_sort_index", row["process_id"], row["thread_id"], sort_index=row["sort_index"]
                )
        for (process, device), pid in self._pids.items():
            number = "?" if device == NONE else device
            yield _event(
                "process_name",
                pid,
                0,
                name=next(
                    (row["name"] for row in self._processes if row["process_id"] == process and row["name"]),
                    "device",
                ),
            )
            yield _event("process_labels", pid, 0, labels=f"GPU {number}")
            yield _event(
                "process_sort_index", pid, 0, sort_index=5_000_000 + (0 if device == NONE else device)
            )
            for row in self._streams:
                same = row["process_id"] in (None, process) and row["device_id"] == (
                    None if device == NONE else device
                )
                if same and row["stream_id"] is not None:
                    yield _event(
                        "thread_name", pid, row["stream_id"], name=row["name"] or f"stream {row['stream_id']}"
                    )


def _distinct(first_column: Int64s, second: Int64s) -> set[tuple[int, int]]:
    _, first = combine(first_column, second)
    return set(zip(first_column[first].tolist(), second[first].tolist(), strict=True))


def _event(kind: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _properties(row: dict[str, Any]) -> dict[str, Any]:
    try:
        known = json.loads(row["properties"]) if row["properties"] else {}
    except ValueError:
        known = {}
    own = {"id": row["device_id"], "name": row["name"]}
    return {**own, **known} if isinstance(known, dict) else own
