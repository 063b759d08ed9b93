"""Tracks of a Perfetto trace: which process, thread, queue or counter an event's track stands for.

Descriptors are few (one a track), so they are read one by one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from topsprof.importers.wire import LENGTH, Bytes, fields

UNITS = {1: "ns", 2: "count", 3: "bytes"}


@dataclass
class Message:
    """The fields of one message, by number, in order. A bytes value is a span of the buffer."""

    buffer: Bytes
    values: dict[int, list[int | tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def read(cls, buffer: Bytes, start: int, end: int) -> Message:
        found = fields(buffer, np.array([start]), np.array([end]))
        message = cls(buffer)
        for number, wire, value, a, b in zip(
            found.field.tolist(),
            found.wire.tolist(),
            found.value.tolist(),
            found.start.tolist(),
            found.end.tolist(),
            strict=True,
        ):
            message.values.setdefault(number, []).append((a, b) if wire == LENGTH else value)
        return message

    def integer(self, number: int, default: int = 0) -> int:
        """A scalar field, as a signed 64 bit number."""
        for value in reversed(self.values.get(number, [])):
            if isinstance(value, int):
                return value - (1 << 64) if value >> 63 else value
        return default

    def texts(self, number: int) -> list[str]:
        return [
            self.buffer[value[0] : value[1]].tobytes().decode("utf-8", "replace")
            for value in self.values.get(number, [])
            if isinstance(value, tuple)
        ]

    def text(self, number: int) -> str:
        return (self.texts(number) or [""])[-1]

    def messages(self, number: int) -> list[Message]:
        return [
            Message.read(self.buffer, *value)
            for value in self.values.get(number, [])
            if isinstance(value, tuple)
        ]


@dataclass
class Track:
    """What is known of a track: its own descriptor, before its parents are asked."""

    uuid: int
    parent: int | None = None
    name: str = ""
    pid: int | None = None
    tid: int | None = None
    counter: bool = False
    unit: str = ""
    multiplier: int = 1
    incremental: bool = False


@dataclass
class Process:
    pid: int
    name: str = ""
    command: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parent: int | None = None
    sort_index: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the events of a track belong. `thread` tells a thread's own track from others; `owner` is the
    thread that the track or one above it is, None where none is; `known` whether any of them is of a
    process."""

    pid: int
    tid: int
    thread: bool
    name: str
    owner: int | None = None
    known: bool = True


class Tracks:
    """All tracks, processes and threads that the trace has described so far."""

    def __init__(self) -> None:
        self.tracks: dict[int, Track] = {}
        self.processes: dict[int, Process] = {}
        self.threads: dict[tuple[int, int], str] = {}
        self.sort_indexes: dict[tuple[int, int], int] = {}
        self._places: dict[int, Place] = {}

    def describe(self, buffer: Bytes, start: int, end: int) -> None:
        """Take in a TrackDescriptor."""
        message = Message.read(buffer, start, end)
        uuid = message.integer(1)
        track = self.tracks.setdefault(uuid, Track(uuid))
        if 5 in message.values:
            track.parent = message.integer(5)
        track.name = message.text(2) or message.text(10) or message.text(13) or track.name
        for process in message.messages(3):
            track.pid = process.integer(1)
            self._process(track.pid, process.text(6) or track.name, process.texts(2), process.texts(8))
            if 3 in process.values:
                self.processes[track.pid].sort_index = process.integer(3)
        for thread in message.messages(4):
            track.pid, track.tid = thread.integer(1), thread.integer(2)
            self.threads[track.pid, track.tid] = (
                thread.text(5) or track.name or self.threads.get((track.pid, track.tid), "")
            )
            if 3 in thread.values:
                self.sort_indexes[track.pid, track.tid] = thread.integer(3)
        for counter in message.messages(8):
            track.counter = True
            track.unit = counter.text(6) or UNITS.get(counter.integer(3), "")
            track.multiplier = counter.integer(4, 1) or 1
            track.incremental = bool(counter.integer(5))
        self._places.clear()

    def process_tree(self, buffer: Bytes, start: int, end: int) -> None:
        """Take in a ProcessTree: names that the system gave."""
        message = Message.read(buffer, start, end)
        for process in message.messages(1):
            pid = process.integer(1)
            command = process.texts(3)
            self._process(pid, command[0].rpartition("/")[2] if command else "", command, [])
            if 2 in process.values:
                self.processes[pid].parent = process.integer(2)
        for thread in message.messages(2):
            key = thread.integer(3), thread.integer(1)
            self.threads[key] = thread.text(2) or self.threads.get(key, "")

    def _process(self, pid: int, name: str, command: list[str], labels: list[str]) -> None:
        process = self.processes.setdefault(pid, Process(pid))
        process.name = name or process.name
        process.command = command or process.command
        process.labels = labels or process.labels

    def place(self, uuid: int) -> Place:
        """Where the events of that track go: its own thread or process, else that of the nearest parent that
        has one.

        A track that is no thread's is one of its own: its number, as the trace gives it, takes the place of a
        thread's.
        """
        known = self._places.get(uuid)
        if known is None:
            known = self._places[uuid] = self._find(uuid)
        return known

    def _find(self, uuid: int) -> Place:
        track = self.tracks.get(uuid, Track(uuid))
        if track.tid is not None and track.pid is not None:
            return Place(track.pid, track.tid, True, track.name, track.tid)
        above: Track | None = track
        seen = {uuid}
        while above is not None and above.pid is None:
            parent = above.parent
            above = None if parent is None or parent in seen else self.tracks.get(parent)
            if parent is not None:
                seen.add(parent)
        pid = above.pid if above is not None and above.pid is not None else 0
        owner = above.tid if above is not None else None
        return Place(
            pid, (owner or 0) if track.counter else signed(uuid), False, track.name, owner, above is not None
        )

    def rows(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows of the tables process (key `pid` still to be mapped) and thread."""
        used = {place.pid for place in self._places.values()} | self.processes.keys()
        processes = [
            {
                "pid": pid,
                "name": one.name or None,
                "labels": ",".join(one.labels) or None,
                "command": json.dumps(one.command) if one.command else None,
                "parent_id": one.parent,
                "sort_index": one.sort_index,
            }
            for pid in sorted(used)
            for one in (self.processes.get(pid, Process(pid)),)
        ]
        threads = {key: name for key, name in self.threads.items() if key[1]}
        return processes, [
            {
                "pid": pid,
                "thread_id": tid,
                "name": name or None,
                "sort_index": self.sort_indexes.get((pid, tid)),
            }
            for (pid, tid), name in sorted(threads.items())
        ]


def signed(number: int) -> int:
    """A 64 bit number as int64 bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number
