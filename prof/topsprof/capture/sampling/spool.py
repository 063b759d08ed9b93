"""Hands batches of samplers to the collector, as chunks in the session folder."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tops_kit.collect import chunk_format
from tops_kit.collect.chunk_format import COLUMNS, Chunk
from topsprof.capture import process_table
from topsprof.capture.chunks import ChunkNumbers
from topsprof.capture.sampling import extension
from topsprof.capture.sampling.sampler import Batch, Sampler

_MOST_PENDING: Final = 2000
"""Chunks that may wait for a collector that has stopped: ten minutes of one process. More are dropped."""
_COUNTED: Final = ("unresolved", "rows_lost", "pauses_lost")


@dataclass
class Source:
    """A process that is sampled, from one exec to the next."""

    sampler: Sampler
    incarnation: int
    proc_start: int
    begin_ns: int
    codes: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    natives: dict[int, str] = field(default_factory=dict)
    tasks: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    dropped: int = 0


class Spool:
    """Writes chunks into the session in `folder`, numbered from 1."""

    def __init__(self, folder: Path, rate_hz: float, numbers: ChunkNumbers) -> None:
        """Raises OSError."""
        (folder / chunk_format.FOLDER).mkdir(exist_ok=True)
        self._folder = folder
        self._period_ns = round(1e9 / rate_hz)
        tool = extension.load()
        self._states, self._waits, self._calls = list(tool.STATES), list(tool.WAITS), tool.SYSCALLS
        self._numbers = numbers
        self.rows = 0

    def put(self, source: Source, batch: Batch, thread_names: Callable[[], dict[int, str]]) -> None:
        """Hand one batch over. What the disk does not take is counted, and told with the next one."""
        source.codes.update((code.id, (code.name, code.file, code.first_line)) for code in batch.codes)
        source.natives.update(
            (number, "" if native.evaluates_python else str(native)) for number, native in batch.natives
        )
        source.tasks.update(batch.task_names)
        if not len(batch) and not len(batch.stacks) and not batch.pauses:
            return
        tids = set(batch.tid)
        if tids - source.threads.keys():
            source.threads = {**dict.fromkeys(tids, ""), **source.threads, **thread_names()}
        if not source.command:
            words = process_table.command_line(source.sampler.pid).rstrip(b"\0").split(b"\0")
            source.command = [word.decode("utf-8", "backslashreplace") for word in words]
        with self._numbers.next() as number:
            chunk = self._chunk(source, batch, tids, number)
            behind = number % 64 == 0 and len(chunk_format.pending(self._folder)) > _MOST_PENDING
            try:
                if behind:
                    raise OSError("the collector does not take samples any more")
                chunk_format.write(self._folder, chunk)
            except OSError:
                source.dropped += len(batch)
                return
        self.rows += len(batch)

    def _chunk(self, source: Source, batch: Batch, tids: set[int], number: int) -> Chunk:
        codes = set(batch.stacks[1::3]) if len(batch.stacks) else set()
        natives, tasks, calls = set(batch.native), set(batch.task), set(batch.syscall)
        columns = {name: bytes(getattr(batch, name)) for name in COLUMNS}
        target = source.sampler.target
        facts: dict[str, Any] = {
            "states": self._states,
            "waits": self._waits,
            "counts": self._counts(source),
            "gc": {"pauses": batch.pauses, "collections": batch.collections},
            "argv": json.dumps(source.command),
            "python": f"CPython {target.version}",
            "host": platform.node(),
        }
        return Chunk(
            incarnation=source.incarnation,
            pid=source.sampler.pid,
            proc_start=source.proc_start,
            begin_ns=source.begin_ns,
            period_ns=self._period_ns,
            facts=facts,
            rows=len(batch),
            columns=columns,
            first_stack=batch.first_stack,
            stacks=bytes(batch.stacks),
            number=number,
            tables={
                "codes": {number: source.codes[number] for number in codes if number in source.codes},
                "natives": {number: source.natives[number] for number in natives if number in source.natives},
                "tasks": {number: source.tasks[number] for number in tasks if number in source.tasks},
                "threads": {tid: name for tid in tids if (name := source.threads.get(tid))},
                "syscalls": {number: self._calls[number] for number in calls if number in self._calls},
            },
        )

    def _counts(self, source: Source) -> dict[str, int]:
        """What is new since the last chunk."""
        now = {name: value for name, value in source.sampler.counts().items() if name in _COUNTED}
        now["rows_lost"] = now.get("rows_lost", 0) + source.dropped
        new = {name: value - source.told.get(name, 0) for name, value in now.items()}
        source.told = now
        return {name: value for name, value in new.items() if value}

    def sweep(self) -> None:
        """Remove what a write left behind."""
        with contextlib.suppress(OSError):
            for path in (self._folder / chunk_format.FOLDER).glob("*.new"):
                path.unlink()
