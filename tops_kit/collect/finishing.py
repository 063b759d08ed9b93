"""The end of a recording: what is still in the rings, what never ended, the ledger, and the removal of the
recording's files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from topstx.recorder import layout

from tops_kit.collect import chunk_format, clock, control, cuts, journal, state
from tops_kit.collect import journal_format as jf
from tops_kit.collect.arrays import Array
from tops_kit.collect.convert import CALLS_SKIPPED
from tops_kit.collect.drain import RECORD
from tops_kit.collect.flight import plan
from tops_kit.collect.rings import Ring
from tops_kit.collect.sweeping import remove_folders

if TYPE_CHECKING:
    from tops_kit.collect.collector import Collector
    from tops_kit.collect.processes import Row
    from tops_kit.session import Ledger


def last_tick(collector: Collector, serial: int, rings: Iterable[Ring]) -> int:
    """The latest tick that a process is known to have seen: of its rings, and of its end in order."""
    names = collector.processes.names.get(serial)
    said = 0
    if names is not None and not names.damaged:
        names.read_header()
        said = int(names.header["end_tick"])
    return max([said, *(ring.field("last_tick") for ring in rings)])


def finish(collector: Collector, status: str) -> None:
    """Take all that is left, write the ledger, close the session and remove the recording's files.

    Processes that still run keep running: what they have open is recorded as unfinished now. When nothing
    can be written any more (see `collector.failure`) the files stay for `recovery.recover`.
    """
    collector.control.recording = layout.RECORDING_OFF
    _retry(collector)
    if collector.failure is None:
        try:
            _take_rest(collector)
            if collector.flight is not None and collector.failure is None:
                collector.flight.finish()
            _close(collector, status)
        except Exception as error:  # SessionError, OSError, ...: the caller tells it in one line
            collector.failure = collector.failure or error
    # Nobody takes records any more: programs that go on must not wait for room.
    collector.control.policy = layout.POLICY_DROP
    if collector.failure is not None:
        collector.sweeper.stop()
        collector.writing.stop()
        collector.writer.abandon()
        if collector.flight is not None:
            collector.flight.give_up(f"the recording ended early: {collector.failure}")
    collector.close_pipes()


def _retry(collector: Collector) -> None:
    """If writing failed, try once more: there may be room on the disk by now."""
    collector.note_failure()
    if collector.failure is None or collector.writing.failure is None:
        return
    collector.wait_for_writer()
    full = sorted((part for part in collector.parts if part.used), key=lambda part: part.generation)
    if not full or collector.part_writer.unflushed is not full[0]:
        return
    try:
        collector.part_writer.flush(full[0])  # its rows are buffered already
        for part in full[1:]:
            if part is not collector.part:
                collector.part_writer.write(part, collector.clock.freeze())
    except Exception:
        return  # the first failure says it
    collector.failure = collector.writing.failure = None


def _take_rest(collector: Collector) -> None:
    collector.look()
    collector.end_processes()
    collector.look(last=True)
    collector.drain(wait=True)
    _take_open_of_living(collector)
    collector.wait_for_writer(len(collector.parts) - 2)
    collector.rotate()
    collector.wait_for_writer()
    collector.writing.stop()
    if collector.writing.failure is not None:
        collector.failure = collector.failure or collector.writing.failure
    if collector.failure is None:
        with collector.part_writer.lock:
            collector.samples.take(final=True)


def _take_open_of_living(collector: Collector) -> None:
    """Unfinished rows for ranges that are open while their process lives; those that end meanwhile are
    taken as finished.
    """
    open_now = [(ring, ring.open_ranges()) for ring in collector.open_rings(collector.table.rings)]
    collector.wait_for_writer(len(collector.parts) - 2)
    collector.rotate()  # so that the active part holds only what comes from here on
    anchor = collector.take_anchor()
    collector.drain(wait=True, final=True)
    ended = begins(collector)
    ticks = {layout.CLOCK_MONOTONIC: anchor.monotonic_ns, layout.CLOCK_TSC: anchor.tsc}
    for ring, ranges in open_now:
        still = ranges[~np.isin(ranges["begin"], ended)] if len(ended) else ranges
        collector.take_open(ring, still, ticks[ring.clock])
    collector.finish_rings(list(collector.table.rings), lambda ring: ticks[ring.clock])


def begins(collector: Collector) -> Array:
    """Begin ticks of the ranges and calls in the active part."""
    part = collector.part
    found = [
        records["begin"][np.isin(records["kind"], (layout.KIND_RANGE, layout.KIND_CALL))].copy()
        for block in part.blocks()
        if block.kind == jf.BLOCK_RECORDS
        for records in [np.frombuffer(part.memory, RECORD, block.slots, block.offset)]
    ]
    return np.concatenate(found) if found else np.empty(0, np.uint64)


def _close(collector: Collector, status: str) -> None:
    if collector.failure is not None:
        raise collector.failure
    writer = collector.writer
    with collector.processes.lock:
        collector.processes.append_to(writer, everything=True)
    count_all(collector, writer.ledger)
    _tell_time(collector)
    writer.set_attribute("clock", collector.clock.to_json())
    writer.set_attribute(
        "blocked_ns",
        {
            str(r.process_id): r.counts["blocked_ns"]
            for r in collector.processes.rows.values()
            if r.counts["blocked_ns"]
        },
    )
    writer.close(status)
    collector.sweeper.stop()
    remove_files(collector.folder)


def count_all(collector: Collector, ledger: Ledger) -> None:
    """The entries of a ledger that tell the recording as a whole, so far."""
    for stream, what, count, text in collector.state.notes:
        ledger.count(stream, what, count, text)
    ledger.count(
        "collector",
        "dropped:process_without_files",
        collector.control.lost_processes,
        note="processes that could not make files in the session folder (other user, full disk, limits): "
        "none of what they recorded is here",
    )
    with collector.processes.lock:
        for row in collector.processes.rows.values():
            count_process(collector, row, ledger, f"process:{row.process_id}")
    collector.samples.tell(ledger)


def _tell_time(collector: Collector) -> None:
    """How the time divides, where a simulator stopped or moved it; what makes it less than exact."""
    found = collector.cut_file.read()
    if not found.used:
        return
    anchors = collector.clock
    wall_ns = anchors.last.monotonic_ns - anchors.first.monotonic_ns
    waiting_ns = collector.converter.waiting_ns
    collector.writer.set_attribute(
        "time",
        cuts.summary(
            found, wall_ns, waiting_ns, collector.converter.profiler_ns, collector.converter.saving_ns
        ),
    )
    for code, count, note in cuts.marks(found, wall_ns):
        collector.writer.ledger.count("clock", code, count, note)


def count_process(collector: Collector, row: Row, ledger: Ledger, stream: str) -> None:
    """The ledger entries of one process."""
    headers = [names.header for names in row.names]

    def total(field: str) -> int:
        return sum(int(header[field]) for header in headers)

    lost = total("lost_records")
    no_numbers = total("bad_samples")
    ledger.count(stream, "requested", row.written + row.counts["dropped"] + lost + no_numbers)
    ledger.count(stream, "written", row.written, note=f"recorder: {row.recorder or 'unknown'}")
    blocked = row.counts["blocked_ns"]
    waited = f"; it waited {blocked / 1e6:.3f} ms for room" if blocked else ""
    ledger.count(stream, "dropped:ring_full", row.counts["dropped"], note=f"the ring was full{waited}")
    ledger.count(stream, "dropped:no_ring", lost, note=f"{total('lost_threads')} threads got no ring")
    ledger.count(
        stream,
        "repaired:unbalanced",
        row.counts["unbalanced"] + total("bad_ends"),
        note="ends of ranges without a begin were ignored",
    )
    ledger.count(
        stream, "dropped:no_number", no_numbers, note="counters were given values that are no numbers"
    )
    ledger.count(stream, "clipped:name", total("cut_names"), note="names were longer than their limit")
    ledger.count(
        stream,
        "repaired:too_many_names",
        total("too_many"),
        note=f"names past {layout.NAMES_MAX} share one name",
    )
    ledger.count(stream, "repaired:lost_name", total("lost_names"), note="no room for their names")
    for names in row.names:
        if names.damaged:
            ledger.count(
                stream, "repaired:names_damaged", 1, note=f"{names.path.name} can't be read to its end"
            )
    for names in row.names:
        if "python_calls" in names.process:
            ledger.count(stream, "unsupported:python_calls", 1, note=names.process["python_calls"])
        if "python_memory" in names.process:
            ledger.count(stream, "unsupported:python_memory", 1, note=names.process["python_memory"])
    for (process_id, code), count in collector.converter.notes.counts.items():
        if process_id == row.process_id:
            ledger.count(stream, code, count, note=_NOTES.get(code, ""))


_NOTES = {
    CALLS_SKIPPED: "of Python functions that were called too often; py_call_sum says how often each, and "
    "`run --python-call-limit off` records them all",
}


def remove_files(folder: Path) -> None:
    """Delete what a recording needs beside the session; `control` last: as long as it is there, recovery is
    due.
    """
    journal.remove_parts(folder)
    remove_folders(folder, ("rings", "names", chunk_format.FOLDER, plan.FOLDER))
    for name in (state.FILE, clock.FILE, cuts.FILE, control.FILE):
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)
