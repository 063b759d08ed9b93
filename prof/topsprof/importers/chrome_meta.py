"""Metadata of a trace: names of processes and threads (M events), and what stands beside the events."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from topsprof.importers.base import ImportOptions, Tally
from topsprof.importers.chrome_rows import Numbers

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

_GPU_LABEL = re.compile(r"[A-Za-z]+ ?\d+")
KEPT_BYTES = 4096
"""Longer values beside the events are not kept, except those of READ_KEYS, which go to tables."""
READ_KEYS = frozenset(
    ("samples", "stackFrames", "deviceProperties", "distributedInfo", "host_name", "baseTimeNanoseconds")
)


def parse(text: bytes) -> Any:
    """A JSON value, or one in Python's spelling inside a JSON string; what is neither, or holds numbers
    that are too large, stays text.
    """
    try:
        value = json.loads(text)
    except ValueError:  # an integer of thousands of digits: the scanner lets only JSON through
        return text.decode()
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except ValueError:
            pass  # not JSON: Kineto also writes str() of a dict
        try:
            found = ast.literal_eval(value)
            json.dumps(found, allow_nan=False)  # a session's attributes are JSON
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return value
        return found
    return value


def integer(value: Any) -> int | None:
    """An int out of what JSON may hold for one; None when it is none."""
    if isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


@dataclass
class Track:
    """What M events say of a process or thread."""

    name: str | None = None
    sort_index: int | None = None
    labels: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)


class Metadata:
    """Collects M events of a file, in any order and place, and writes the tables process, thread, stream
    and device.
    """

    def __init__(self, writer: SessionWriter, options: ImportOptions, tally: Tally, numbers: Numbers) -> None:
        self._writer = writer
        self._options = options
        self._tally = tally
        self._numbers = numbers
        self.processes: dict[int, Track] = {}
        self.threads: dict[tuple[int, int], Track] = {}

    def event(self, name: str, pid: int, tid: int, args: str | None) -> None:
        """One M event; `args` is its JSON text."""
        try:
            values = json.loads(args) if args else {}
        except ValueError:
            values = {}
        if not isinstance(values, dict):
            values = {}
        process = self.processes.setdefault(pid, Track())
        if name == "process_name":
            process.name = _text(values.get("name")) or process.name
        elif name == "process_labels":
            label = _text(values.get("labels"))
            if label and label not in process.labels:
                process.labels.append(label)
        elif name == "process_sort_index":
            process.sort_index = integer(values.get("sort_index"))
        elif name == "thread_name":
            thread = self.threads.setdefault((pid, tid), Track())
            thread.name = _text(values.get("name")) or thread.name
        elif name == "thread_sort_index":
            self.threads.setdefault((pid, tid), Track()).sort_index = integer(values.get("sort_index"))
        else:
            process.more[name] = values

    def finish(
        self,
        top: dict[str, Any],
        hosts: set[int],
        devices: set[tuple[int, int, int]],
        host_pid: int | None,
        threads: set[tuple[int, int]],
    ) -> None:
        """Write the tables.

        `hosts` are pids with rows of their own, `devices` (pid, device, stream) of device rows, `host_pid`
        the process to which the devices belong, `threads` (pid, tid) with rows.
        """
        self._attributes(top)
        named = self._numbers.named
        device_pids = {pid for pid, _, _ in devices} - hosts
        wanted = sorted(
            hosts | {pid for pid in self.processes if pid not in device_pids and not self._empty_device(pid)}
        )
        distributed = top.get("distributedInfo")
        if not isinstance(distributed, dict):
            distributed = {}
        rank = integer(distributed.get("rank"))
        rank = self._options.rank if rank is None else rank
        if host_pid is None and len(hosts) == 1:
            host_pid = next(iter(hosts))
        rows: list[dict[str, Any]] = []
        for pid in wanted:
            track = self.processes.get(pid, Track())
            own = pid == host_pid or len(hosts) == 1
            args = {**track.more, **({"distributedInfo": distributed} if own and distributed else {})}
            rows.append(
                {
                    "process_id": self._numbers.key(pid),
                    "pid": pid if pid not in named else None,
                    "name": track.name or named.get(pid),
                    "rank": rank if own else None,
                    "host": _text(top.get("host_name")) if own else None,
                    "sort_index": track.sort_index,
                    "labels": ", ".join(track.labels) or None,
                    "args": json.dumps(args, ensure_ascii=False) if args else None,
                }
            )
        self._append("process", rows)
        self._append(
            "thread",
            [
                {
                    "process_id": self._numbers.key(pid),
                    "thread_id": tid,
                    "name": track.name or named.get(tid),
                    "sort_index": track.sort_index,
                }
                for (pid, tid), track in sorted(self._threads_with_names(threads, named).items())
                if pid not in device_pids and not self._empty_device(pid, hosts)
            ],
        )
        owner = self._numbers.key(host_pid) if host_pid is not None else None
        self._streams(devices, owner)
        self._devices(top, devices, owner)

    def _threads_with_names(
        self, threads: set[tuple[int, int]], named: dict[int, str]
    ) -> dict[tuple[int, int], Track]:
        known = dict(self.threads)
        for pid, tid in threads:
            known.setdefault((pid, tid), Track(named.get(tid)))
        return known

    def _empty_device(self, pid: int, hosts: set[int] | frozenset[int] = frozenset()) -> bool:
        """Whether the pid only stands for a device, as Kineto names every GPU of the machine."""
        track = self.processes.get(pid)
        return (
            pid not in hosts
            and track is not None
            and pid < 1 << 16
            and any(_GPU_LABEL.fullmatch(label) for label in track.labels)
        )

    def _streams(self, devices: set[tuple[int, int, int]], owner: int | None) -> None:
        self._append(
            "stream",
            [
                {
                    "process_id": self._numbers.key(pid) if owner is None else owner,
                    "device_id": device,
                    "stream_id": stream,
                    "name": track.name,
                    "sort_index": track.sort_index,
                }
                for pid, device, stream in sorted(devices)
                for track in (self.threads.get((pid, stream), Track()),)
            ],
        )

    def _devices(self, top: dict[str, Any], devices: set[tuple[int, int, int]], owner: int | None) -> None:
        properties = top.get("deviceProperties")
        listed = (
            [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
        )
        used = sorted({(pid, device) for pid, device, _ in devices})
        keys = {self._numbers.key(pid) if owner is None else owner for pid, _ in used} or (
            {owner} if owner is not None else set()
        )
        rows = []
        known = {integer(entry.get("id")) for entry in listed}
        for key in sorted(keys):
            for entry in listed:
                number = integer(entry.get("id"))
                if number is not None:
                    rows.append(
                        {
                            "process_id": key,
                            "device_id": number,
                            "name": _text(entry.get("name")),
                            "kind": _kind(entry),
                            "properties": json.dumps(entry, ensure_ascii=False),
                        }
                    )
            rows += [
                {"process_id": key, "device_id": device, "name": None, "kind": None, "properties": None}
                for device in sorted({device for _, device in used} - known)
            ]
        self._append("device", rows)

    def _append(self, table: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._writer.append(table, {name: [row[name] for row in rows] for name in rows[0]})

    def _attributes(self, top: dict[str, Any]) -> None:
        """What the trace says of itself, where it isn't big."""
        kept: dict[str, Any] = {}
        for key, value in top.items():
            if key not in READ_KEYS:
                kept[key] = value
        base = integer(top.get("baseTimeNanoseconds"))
        if base is not None:
            self._writer.set_attribute("time_origin_ns", base)
        if kept:
            self._writer.set_attribute("trace", {**self._writer.attributes.get("trace", {}), **kept})


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def _kind(entry: dict[str, Any]) -> str:
    name = str(entry.get("name", "")).lower()
    return "gcu" if "enflame" in name or "gcu" in name else "gpu"
