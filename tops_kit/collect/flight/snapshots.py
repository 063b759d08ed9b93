"""Snapshots: sessions of their own, made of the segments that a recording has now."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tops_kit.collect import finishing
from tops_kit.collect import journal_format as jf
from tops_kit.collect.arrays import Array
from tops_kit.collect.flight.plan import FOLDER, Request, path_of
from tops_kit.collect.flight.retention import RETOLD, Window
from tops_kit.errors import SessionError
from tops_kit.session import SessionWriter
from tops_kit.session.files import reported, write_json
from tops_kit.session.manifest import MANIFEST, new_manifest, read_manifest
from tops_kit.session.segment import SEGMENTS

if TYPE_CHECKING:
    from tops_kit.collect.clock import Clock
    from tops_kit.collect.collector import Collector

STAGE: Final = "stage-"
_SLOT_BYTES: Final = 32
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_serial = itertools.count(1)


@dataclass(frozen=True, slots=True)
class OpenRanges:
    """What is open in one ring: its row of the ring table, and its ranges as unfinished records."""

    row: Array
    slots: bytes


@dataclass(frozen=True, slots=True)
class Moment:
    """The state that snapshots are of: open ranges, clock, and the window's bounds in session time, ns."""

    open: Sequence[OpenRanges]
    clock: Clock
    begin_ns: int
    end_ns: int


def write(
    collector: Collector, window: Window, request: Request, output: str, moment: Moment
) -> tuple[Path, int]:
    """Make one snapshot; where it is, and how many rows it has at least. For the writing thread, which holds
    the part writer's lock.

    Raises SessionError (one line): the recording is not harmed then, and nothing of the snapshot is left.
    """
    stage = collector.folder / FOLDER / f"{STAGE}{next(_serial)}"
    try:
        with reported("write a snapshot in", stage.parent):
            shutil.rmtree(stage, ignore_errors=True)
            rows = _fill(collector, window, request, moment, stage)
        with reported("write the snapshot", Path(request.output or output)):
            path = _publish(stage, request, output)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return path, rows


def _fill(collector: Collector, window: Window, request: Request, moment: Moment, stage: Path) -> int:
    """Write all of a snapshot into `stage`; how many rows it has at least. Raises OSError, SessionError."""
    (stage / SEGMENTS).mkdir(parents=True)
    source = read_manifest(collector.folder)
    whole = {key: value for key, value in collector.writer.attributes.items() if key != "snapshots"}
    attributes = whole | {
        "clock": collector.clock.to_json(),
        "snapshot": {
            "of": str(collector.folder),
            "by": request.who,
            "label": request.label,
            "why": request.text,
            "begin_ns": moment.begin_ns,
            "end_ns": moment.end_ns,
        },
    }
    write_json(stage / MANIFEST, new_manifest("recording", source["command"], attributes))
    rows = window.give(stage, leave_out=RETOLD)
    writer = SessionWriter.resume(stage)
    try:
        writer.ledger = collector.writer.ledger.copy()
        _write_open(collector, moment, writer)
        with collector.processes.lock:
            collector.processes.append_to(writer, everything=True, mark=False)
        finishing.count_all(collector, writer.ledger)
        writer.close("complete")
    finally:
        collector.converter.reset()
        writer.abandon()  # does nothing once it is closed
    return rows


def _write_open(collector: Collector, moment: Moment, writer: SessionWriter) -> None:
    """Rows of what is open, which the recording itself will have when it is over."""
    if not moment.open:
        return
    written = {process_id: row.written for process_id, row in collector.processes.rows.items()}
    journal = _journal(moment.open)
    try:
        collector.converter.convert(journal, jf.blocks(journal), moment.clock, writer)
        writer.flush()
    finally:
        for process_id, count in written.items():
            collector.processes.rows[process_id].written = count


def _journal(parts: Sequence[OpenRanges]) -> bytearray:
    """The ranges as a part of a journal."""
    journal = bytearray(jf.BLOCKS_OFFSET)
    for part in parts:
        at = len(journal)
        journal += bytes(jf.BLOCK_BYTES) + part.slots
        jf.pack_block(journal, at, jf.BLOCK_OPEN, part.row, first=0, slots=len(part.slots) // _SLOT_BYTES)
    struct.pack_into("<Q", journal, jf.USED_OFFSET, len(journal) - jf.BLOCKS_OFFSET)
    return journal


def _publish(stage: Path, request: Request, output: str) -> Path:
    """Give a finished snapshot its name. Raises OSError, SessionError."""
    for number in itertools.count(1):
        path = Path(request.output) if request.output else path_of(output, request.label, number)
        if not os.path.lexists(path) and _move(stage, path):
            return path
        if request.output:
            raise SessionError(f"'{path}' exists: choose another name")
    raise AssertionError("numbers never end")


def _move(stage: Path, path: Path) -> bool:
    """Rename, on another file system copy; False when somebody else took the name."""
    try:
        stage.rename(path)
        return True
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno != errno.EXDEV:
            raise
    start = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    shutil.rmtree(start, ignore_errors=True)
    try:
        shutil.copytree(stage, start)
        return _move(start, path)
    finally:
        shutil.rmtree(start, ignore_errors=True)
