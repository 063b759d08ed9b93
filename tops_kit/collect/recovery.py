"""Completing a recording whose collector ended without closing it. Nothing that was published is lost or
repeated, however often it is tried.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from topstx.recorder import layout

from tops_kit.collect import finishing, journal, samples, state, sweeping
from tops_kit.collect import journal_format as jf
from tops_kit.collect.backend import Loops, load
from tops_kit.collect.clock import ClockFile, ClockTable, take_anchor
from tops_kit.collect.collector import STOPPED_EARLY, Collector
from tops_kit.collect.control import FILE, Control, create, open_control
from tops_kit.collect.convert import COUNTED, TABLES
from tops_kit.collect.drain import RECORD
from tops_kit.collect.journal import Part
from tops_kit.collect.writing import journal_of
from tops_kit.errors import ManifestDamagedError, SessionError, UserError
from tops_kit.session import Ledger, Session, SessionWriter
from tops_kit.session.in_use import use_of
from tops_kit.session.lock import locked
from tops_kit.session.manifest import MANIFEST, WRITER_LOCK, read_manifest
from tops_kit.session.rebuilding import has_segments, rebuild_manifest

_RECOVERED = "repaired:recovered"
_OWN_STREAMS = ("process:", "samples:", "collector")


def recover(folder: str | Path) -> list[str]:
    """Complete a crashed recording in `folder`; readable messages of what was done, none when there was
    nothing to do.

    A session.json that is damaged is made anew, also that of a recording or an import that was complete.
    SessionError when there is no session, when it is still being recorded, when it is of a newer version, or
    when it can't be written.
    """
    folder = Path(folder).absolute()
    if not folder.is_dir():
        raise SessionError(f"{folder} does not exist; give a session folder")
    return _with_manifest(folder) + _completed(folder)


def _with_manifest(folder: Path) -> list[str]:
    """Make session.json anew where it is damaged, or gone while there are segments."""
    if not (folder / MANIFEST).exists():
        return [rebuild_manifest(folder)] if has_segments(folder) else []
    try:
        read_manifest(folder)
    except ManifestDamagedError:
        return [rebuild_manifest(folder)]
    return []


def _completed(folder: Path) -> list[str]:
    if not (folder / FILE).exists():
        if not (folder / MANIFEST).exists():
            raise SessionError(f"{folder} is no session (it has no session.json); give a session folder")
        sweeping.remove_trash(folder)
        return []
    if not (folder / MANIFEST).exists():
        raise SessionError(f"{folder} was never recorded to (it has no session.json); delete it")
    use = use_of(folder)
    if use is not None and locked(folder / WRITER_LOCK):
        raise SessionError(f"'{folder}' {use}, so there is nothing to recover: {use.way_out}")
    writer = SessionWriter.resume(folder)
    if Session.open(folder).info["status"] != "recording":
        # It was closed; only its files were not removed any more.
        writer.abandon()
        finishing.remove_files(folder)
        return [f"{folder}: removed files that a finished recording left behind"]
    before = _records(folder)
    try:
        _complete(folder, writer)
    except OSError as error:
        raise SessionError(f"cannot recover {folder}: {error.strerror or error}") from error
    finally:
        writer.abandon()  # does nothing once it is closed
    rows = _records(folder) - before
    return [f"{folder}: the recording had crashed; recovered {rows} records that were not in the session yet"]


def _records(folder: Path) -> int:
    tables = Session.open(folder).tables()
    return sum(tables.get(table, 0) for table in {*TABLES, "sample"})


def _complete(folder: Path, writer: SessionWriter) -> None:
    collector = _collector(folder, writer)
    _write_parts(collector)
    _recount(collector)
    collector.discovery.look(force=True, last=True)
    _end_dead(collector)
    finishing.finish(collector, "crashed")
    if collector.failure is not None:
        if isinstance(collector.failure, (UserError, OSError)):
            raise collector.failure
        raise SessionError(f"cannot recover {folder}: {collector.failure}") from collector.failure


def _collector(folder: Path, writer: SessionWriter) -> Collector:
    """A collector that goes on where the dead one was."""
    loops, _ = load()
    control, damaged = _control(folder)
    control.recording = layout.RECORDING_OFF
    parts = journal.open_parts(folder, loops)
    collector = Collector(
        folder,
        control=control,
        writer=writer,
        loops=loops,
        parts=journal.create_parts(folder, loops, parts),
        clock=_clock(folder, loops),
    )
    # What a finish that was killed may have written already is counted anew, from the rings and the state.
    writer.ledger = Ledger(
        entry for entry in writer.ledger.entries if not entry.stream.startswith(_OWN_STREAMS)
    )
    left = state.load(folder)
    collector.state.notes = left.notes
    if not any(note[1] in (_RECOVERED, STOPPED_EARLY) for note in left.notes):
        collector.note("collector", _RECOVERED, 1, "it was killed: later records were not taken")
    if damaged:
        collector.note("collector", "repaired:control", 1, "its control file was damaged")
    try:
        collector.processes.from_json(left.processes)
    except (KeyError, TypeError, ValueError):
        collector.note(
            "collector", "repaired:state", 1, "its state file was damaged: processes were numbered anew"
        )
    for thread in Session.open(folder).table("thread").to_pylist():
        row = collector.processes.rows.get(thread["process_id"])
        if row is not None:
            row.threads[thread["thread_id"]] = [thread["start_ns"], thread["end_ns"]]
    collector.discovery.skip = set(left.rings_done)
    collector.sweeper.remove(folder / "rings" / name for name in left.rings_done)
    collector.discovery.resume = _positions(parts)
    open_taken = {(b.process, b.ring) for part in parts for b in part.blocks() if b.kind == jf.BLOCK_OPEN}
    collector.discovery.look(force=True, last=True)
    for ring in collector.table.rings:
        if (ring.process, ring.serial) in open_taken:
            ring.mark_open_taken()
    return collector


def _control(folder: Path) -> tuple[Control, bool]:
    """The control file, and whether it was damaged: then it is a new one. SessionError for one of another
    version, whose rings we can't read.
    """
    try:
        return open_control(folder), False
    except SessionError:
        if (folder / FILE).read_bytes().startswith(layout.CONTROL_MAGIC):
            raise
    (folder / FILE).unlink()
    return create(folder, recording=layout.RECORDING_OFF), True


def _clock(folder: Path, loops: Loops) -> ClockTable:
    anchors, same_boot = ClockFile(folder).read()
    now = take_anchor(loops)
    if not anchors:
        # Without anchors only CLOCK_MONOTONIC of this run of the system can be placed.
        return ClockTable([now])
    table = ClockTable(anchors)
    if same_boot and (now.tsc != 0) == (anchors[-1].tsc != 0):
        table.add(now)
    return table


def _positions(parts: list[Part]) -> dict[tuple[int, int], tuple[int, int]]:
    """For each ring in the journal: the position up to which the journal has it, and the thread there."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for part in parts:
        for block in part.blocks():
            if block.kind != jf.BLOCK_RECORDS:
                continue
            key, end = (block.process, block.ring), block.first + block.slots
            if end <= found.get(key, (0, 0))[0]:
                continue
            records = np.frombuffer(part.memory, RECORD, block.slots, block.offset)
            threads = records["task"][records["kind"] == layout.KIND_THREAD]
            found[key] = (end, int(threads[-1]) if len(threads) else block.tid)
    return found


def _write_parts(collector: Collector) -> None:
    """Segments of what the journal holds, of those tables that don't have it yet."""
    written: dict[str, int] = {}
    session = Session.open(collector.folder)
    for table in TABLES:
        written[table] = max((journal_of(s.user) for s in session.segments(table)), default=0)
    clock = collector.clock.freeze()
    for part in sorted(collector.parts, key=lambda part: part.generation):
        if part.used:
            have = {table for table, generation in written.items() if generation >= part.generation}
            collector.part_writer.write(part, clock, have)
    # From here on parts are filled in the order of their generations, all above what segments hold.
    collector.part_writer.restart_all(collector.parts, max(written.values(), default=0) + 1)


def _end_dead(collector: Collector) -> None:
    """Ends of processes that died after the collector: what they said themselves, else unknown."""
    for row in collector.processes.rows.values():
        if row.ended or (row.watch is not None and row.watch.alive()):
            continue
        mine = {names.serial for names in row.names}
        rings = [ring for ring in collector.table.rings if ring.process in mine]
        collector.drain(wait=True, final=True)
        ticks = {layout.CLOCK_MONOTONIC: 0, layout.CLOCK_TSC: 0}
        for ring in rings:
            last = finishing.last_tick(collector, ring.process, [ring])
            ticks[ring.clock] = max(ticks[ring.clock], last)
        frozen = collector.clock.freeze()
        ends = [
            collector.session_ns(frozen.to_ns(tick, clock) - frozen.origin_ns, row.serial)
            for clock, tick in ticks.items()
            if tick
        ]
        with collector.processes.lock:
            collector.processes.end(row, max(ends, default=None))
        collector.finish_rings(rings, lambda ring, ticks=ticks: ticks[ring.clock])  # type: ignore[misc]


def _recount(collector: Collector) -> None:
    """Rows per process as the session holds them now: the dead collector's counts are not known. What comes
    later adds.
    """
    for row in collector.processes.rows.values():
        row.written = 0
    session = Session.open(collector.folder)
    collector.samples.have = samples.have_of_segments(session)
    for process_id, count in _by_process(session, "sample").items():
        collector.samples.counts.setdefault(process_id, {})["written"] = count
    for table in COUNTED:
        for process_id, count in _by_process(session, table).items():
            if process_id in collector.processes.rows:
                collector.processes.rows[process_id].written += count


def _by_process(session: Session, table: str) -> dict[int, int]:
    """Rows of a table by process_id."""
    found: dict[int, int] = {}
    for batch in session.table(table, ["process_id"]).to_batches():
        ids, counts = np.unique(np.asarray(batch.column(0)), return_counts=True)
        for process_id, count in zip(ids.tolist(), counts.tolist(), strict=True):
            found[process_id] = found.get(process_id, 0) + count
    return found
