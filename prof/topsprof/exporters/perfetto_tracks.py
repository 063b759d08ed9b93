"""Track descriptors of a Perfetto export: processes, threads, tasks, queues of devices, and counters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from topsprof.exporters.protobuf import message
from topsprof.exporters.timeline import NONE, TrackKey, or_none

if TYPE_CHECKING:
    from tops_kit.session import Session

# Fields of TracePacket, TrackDescriptor, ProcessDescriptor, ThreadDescriptor, CounterDescriptor
_DESCRIPTOR, _UUID, _PARENT, _NAME, _PROCESS, _THREAD, _COUNTER, _MERGE = 60, 1, 5, 2, 3, 4, 8, 15
_MERGE_NONE = 2  # SIBLING_MERGE_BEHAVIOR_NONE: tracks of one name stay apart


class Descriptors:
    """Gives tracks their uuids, and collects the packets that describe them."""

    def __init__(self, session: Session) -> None:
        self.packets: list[bytes] = []
        self._uuids: dict[object, int] = {}
        self._processes = {row["process_id"]: row for row in session.table("process").to_pylist()}
        self._threads = {
            (row["process_id"], row["thread_id"]): row for row in session.table("thread").to_pylist()
        }
        self._streams = {
            (row["process_id"], row["device_id"], row["stream_id"]): row["name"]
            for row in session.table("stream").to_pylist()
        }
        self._devices = {
            (row["process_id"], row["device_id"]): row["name"] for row in session.table("device").to_pylist()
        }

    def process(self, process_id: int) -> int:
        """The track of a process; 0, no track, for none."""
        if process_id == NONE:
            return 0
        known = self._uuids.get(process_id)
        if known is not None:
            return known
        row = self._processes.get(process_id, {})
        command = _command(row.get("command"))
        fields = [
            (1, process_id),
            *((2, word) for word in command),
            (6, row.get("name")),
            (3, row.get("sort_index")),
            (8, row.get("labels")),
        ]
        return self._add(process_id, 0, (_PROCESS, message(*fields)))

    def slices(self, key: TrackKey) -> int:
        """The track of slices."""
        known = self._uuids.get(key)
        if known is not None:
            return known
        process = self.process(key.process_id)
        if key.overflow:
            first = replace(key, overflow=0)
            return self._add(
                key,
                self.slices(first) if not key.on_device else process,
                (_NAME, f"{self._name(first)} (overlapping)"),
            )
        if key.on_device:
            return self._add(key, process, (_NAME, self._name(key)))
        if NONE in (key.thread_id, key.process_id):
            return self._add(key, process, (_NAME, "no thread" if key.task_id == NONE else self._name(key)))
        thread = self._thread(key.process_id, key.thread_id, process)
        return thread if key.task_id == NONE else self._add(key, thread, (_NAME, self._name(key)))

    def counter(self, process_id: int, name: str, unit: str | None, key: object) -> int:
        """The track of one counter; `key` tells counters of one name apart."""
        known = self._uuids.get(key)
        if known is not None:
            return known
        return self._add(key, self.process(process_id), (_NAME, name), (_COUNTER, message((6, unit))))

    def threads(self) -> None:
        """Describe also the processes and threads that nothing ran on, so that their names are kept."""
        for process_id in self._processes:
            self.process(process_id)
        for process_id, thread_id in self._threads:
            if process_id is not None and thread_id is not None:
                self._thread(process_id, thread_id, self.process(process_id))

    def _thread(self, process_id: int, thread_id: int, process: int) -> int:
        key = process_id, thread_id
        known = self._uuids.get(key)
        if known is not None:
            return known
        row = self._threads.get(key, {})
        fields = message((1, process_id), (2, thread_id), (5, row.get("name")), (3, row.get("sort_index")))
        return self._add(key, process, (_THREAD, fields))

    def _name(self, key: TrackKey) -> str:
        if key.on_device:
            device, stream = or_none(key.device_id), or_none(key.stream_id)
            process = or_none(key.process_id)
            title = (
                self._streams.get((process, device, stream)) or f"stream {'?' if stream is None else stream}"
            )
            where = self._devices.get((process, device)) or "device"
            return (
                f"{title} ({where} {'?' if device is None else device}){f' {key.apart}' if key.apart else ''}"
            )
        if key.task_id != NONE:
            return f"task {key.task_id}"
        return str(
            self._threads.get((key.process_id, key.thread_id), {}).get("name") or f"thread {key.thread_id}"
        )

    def _add(self, key: object, parent: int, *fields: tuple[int, Any]) -> int:
        uuid = self._uuids[key] = len(self._uuids) + 1
        own = (_UUID, uuid), (_PARENT, parent or None), *fields
        if fields[0][0] == _NAME:
            own += ((_MERGE, _MERGE_NONE),)
        self.packets.append(message((_DESCRIPTOR, message(*own))))
        return uuid


def _command(text: str | None) -> list[str]:
    try:
        words = json.loads(text) if text else []
    except ValueError:
        return [str(text)]
    return [str(word) for word in words] if isinstance(words, list) else [str(text)]
