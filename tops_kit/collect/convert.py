"""A part of the journal to rows of tables.

The common case (plain ranges) touches each record a handful of times, all in C or numpy; columns that are
the same in all rows stay scalars.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from topstx.recorder import layout

from tops_kit.collect import journal_format as jf
from tops_kit.collect import table_rows
from tops_kit.collect.arrays import Array, Buffer
from tops_kit.collect.backend import COLUMNS, Loops
from tops_kit.collect.clock import Clock
from tops_kit.collect.cuts import CutFile, Cuts
from tops_kit.collect.names import NamesError, ProcessNames, Texts
from tops_kit.collect.processes import Processes, Row

_TX_KINDS = 1 << layout.KIND_RANGE | 1 << layout.KIND_MARK
_NO_ROW_KINDS = 1 << layout.KIND_THREAD | 1 << layout.KIND_THREAD_END
_KNOWN_KINDS = (
    _TX_KINDS
    | _NO_ROW_KINDS
    | 1 << layout.KIND_COUNTER
    | 1 << layout.KIND_OVERHEAD
    | 1 << layout.KIND_CALL
    | 1 << layout.KIND_CALLS_SKIPPED
    | table_rows.KINDS
)
TABLES = ("tx", "counter", "overhead", "python", *table_rows.TABLES)
COUNTED = ("tx", "counter", "python", *table_rows.COUNTED)
"""Tables whose rows are records of the program, as the ledger counts them."""


CALLS_SKIPPED = "dropped:frequent_calls"
"""The ledger's word for calls that were only counted."""

_CALLS = pa.array(["call", "resume", "c"], pa.string())
_ENDS = pa.array(["return", "yield", "raise", "unfinished"], pa.string())


class Sink(Protocol):
    """What rows go to: a SessionWriter, or one that leaves out tables."""

    def append(self, table: str, columns: Mapping[str, Any], rows: int | None = None) -> None: ...


@dataclass(slots=True)
class Columns:
    """The records of some blocks as columns, see `backend.Loops.split`, and what is common to all of them."""

    begin: Array
    duration: Array
    name: Array
    task: Array
    attr: Array
    tid: Array
    depth: Array
    kind: Array
    flags: Array
    more: Array
    kinds: int = 0
    all_flags: int = 0
    all_task: int = 0
    all_attr: int = 0
    one_thread: bool = False

    def of(self, kind: int) -> Columns:
        """Only the records of one kind."""
        return self.take(np.flatnonzero(self.kind == kind))

    def take(self, rows: Any) -> Columns:
        """Only these rows (ascending), without a copy when they are next to each other."""
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            rows = slice(int(rows[0]), int(rows[-1]) + 1)
        picked = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **picked)

    def runs(self, keep: Any) -> list[Columns]:
        """The rows where `keep` is true, in order: as views when what lies between them is little."""
        rows = np.flatnonzero(keep)
        ends = np.append(np.flatnonzero(np.diff(rows) != 1), len(rows) - 1)
        if len(rows) == 0 or len(ends) > _MOST_RUNS or len(rows) < len(ends) * _SHORTEST_RUN:
            return [self.take(rows)]
        return [
            self.take(rows[begin : end + 1])
            for begin, end in zip(np.append(0, ends[:-1] + 1), ends, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.begin)


# A few records of other kinds among a hundred thousand ranges: not worth a copy of all columns.
_MOST_RUNS, _SHORTEST_RUN = 32, 4096


class Scratch:
    """Memory for columns that is used again for each part: fresh memory costs as much as filling it.

    Rows refer to it until they are in a segment, so `reset` comes after the flush.
    """

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._size = 0
        self._used = 0

    def take(self, slots: int) -> list[Array]:
        """Columns of `slots` rows each."""
        if self._used + slots > self._size:
            # What was given out stays with those that hold it.
            self._size, self._used = max(slots, self._size, 1 << 14), 0
            self._arrays = [np.empty(self._size, type_) for type_ in COLUMNS.values()]
        begin = self._used
        self._used += slots
        return [array[begin : begin + slots] for array in self._arrays]

    def reset(self) -> None:
        """All of it may be used again."""
        self._used = 0

    def grow(self, slots: int) -> None:
        """Have memory for this many rows at hand, touched, so that the first part is as quick as the later
        ones.
        """
        self._size, self._used = slots, 0
        self._arrays = [np.full(slots, 1, type_) for type_ in COLUMNS.values()]


@dataclass(slots=True)
class Notes:
    """What conversion found that isn't as it should be: (process id, code) -> records."""

    counts: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, row: Row, code: str, count: int) -> None:
        if count:
            self.counts[row.process_id, code] += count


class Converter:
    """Turns journal parts into rows."""

    def __init__(
        self, loops: Loops, processes: Processes, texts: Texts, cut_file: CutFile | None = None
    ) -> None:
        self._loops = loops
        self._processes = processes
        self._texts = texts
        self._scratch = Scratch()
        self._styles = pa.array(["PushPop", "StartEnd", "Mark"], pa.string())
        self.notes = Notes()
        self.devices = table_rows.Devices()
        self.profiler_ns = 0  # that recording and tools cost programs
        self.saving_ns = 0  # of it, what was within cuts
        self.waiting_ns = 0  # session time that programs waited for a device
        self.unwanted: frozenset[str] = frozenset()  # tables that nobody asked for
        self._cut_file = cut_file

    def reset(self) -> None:
        """The rows that were made are in segments: their memory may be used again."""
        self._scratch.reset()

    def warm_up(self, slots: int) -> None:
        """Get memory for parts of this many slots."""
        self._scratch.grow(slots)

    def convert(self, journal: Buffer, blocks: list[jf.Block], clock: Clock, sink: Sink) -> None:
        """Append the rows of all blocks to the sink, and note threads and counts at their processes."""
        # The records were copied out of their rings before: all cuts before them are in the file.
        cuts = self._cut_file.read() if self._cut_file is not None else Cuts()
        groups: dict[tuple[int, int], list[jf.Block]] = defaultdict(list)
        for block in blocks:
            groups[block.process, block.clock].append(block)
        for (serial, _), members in groups.items():
            with self._processes.lock:
                row = self._processes.by_serial.get(serial)
                if row is None or serial not in self._processes.names:
                    row = self._processes.add_unknown(serial, 0)
                names = self._processes.names[serial]
            if not names.damaged:
                try:
                    names.refresh()
                except NamesError:
                    names.damaged = True
            columns = self._split(journal, members, clock, row=row)
            self._cut(columns, cuts, clock, serial)
            self._rows(
                journal, columns, 0 if cuts.model else clock.origin_ns, names=names, row=row, sink=sink
            )
            self._tables(journal, columns, names=names, row=row, sink=sink)

    def _split(self, journal: Buffer, blocks: list[jf.Block], clock: Clock, *, row: Row) -> Columns:
        """The records of blocks of one process and clock."""
        places = np.array([(block.offset, block.slots, block.tid) for block in blocks], np.int64)
        arrays = self._scratch.take(int(places[:, 1].sum()))
        rows, kinds, flags, task, attr, changes, _, clipped = self._loops.split(
            journal, places, *clock.pieces(blocks[0].clock), *arrays
        )
        named: dict[str, Any] = {name: array[:rows] for name, array in zip(COLUMNS, arrays, strict=True)}
        self.notes.add(row, "clipped:ends_before_begin", clipped)
        with self._processes.lock:
            for tid in np.unique(places[:, 2]).tolist():
                row.see_thread(tid)
        return Columns(
            **named, kinds=kinds, all_flags=flags, all_task=task, all_attr=attr, one_thread=changes == 0
        )

    @staticmethod
    def _cut(columns: Columns, cuts: Cuts, clock: Clock, serial: int) -> None:
        """Times of the raw clock to session time; rows that the runtime wrote have that already."""
        if not cuts.changes or not len(columns):
            return
        rows: Any = slice(None)
        if columns.kinds >> layout.KIND_TABLE_FIRST:
            rows = np.flatnonzero(
                (columns.kind < layout.KIND_TABLE_FIRST) | (columns.kind >= layout.KIND_TICKS_FIRST)
            )
        begin, duration = columns.begin[rows], columns.duration[rows]
        origin, back = clock.origin_ns, 0 if cuts.model else clock.origin_ns
        told = begin != 0  # a THREAD record may have no time
        mapped = np.where(told, cuts.map(begin - origin, serial) + back, 0)
        end = cuts.map(begin + duration - origin, serial) + back
        columns.begin[rows] = mapped
        columns.duration[rows] = np.where(columns.kind[rows] == layout.KIND_COUNTER, duration, end - mapped)

    def _rows(
        self, journal: Buffer, columns: Columns, shift_ns: int, *, names: ProcessNames, row: Row, sink: Sink
    ) -> None:
        """Rows of the tables of the runtime."""
        present = columns.kinds & table_rows.KINDS
        number = 0
        while present >> number:
            if present >> number & 1:
                rows = columns.of(number)
                body, good = table_rows.gather(journal, rows.more, number)
                if not good.all():
                    self.notes.add(row, "unsupported:row_body", int(np.count_nonzero(~good)))
                    rows, body = rows.take(np.flatnonzero(good)), body[good]
                if len(rows):
                    shift = 0 if number >= layout.KIND_TICKS_FIRST else shift_ns  # ticks were converted
                    self._row_table(journal, number, rows, body, shift, names=names, row=row, sink=sink)
            number += 1

    def _row_table(
        self,
        journal: Buffer,
        number: int,
        columns: Columns,
        body: Array,
        shift_ns: int,
        *,
        names: ProcessNames,
        row: Row,
        sink: Sink,
    ) -> None:
        texts = table_rows.trailing(journal, columns.more, number) if table_rows.has_text(number) else ()
        bodies = table_rows.Bodies(
            columns=columns,
            body=body,
            shift_ns=shift_ns,
            names=names,
            texts=self._texts,
            process_id=row.process_id,
            process_number=row.number,
            trailing=texts,
        )
        table, out, count = table_rows.table_of(number, bodies)
        if table == "device":
            self.devices.see(out, count)
        elif table == "sync":
            self.waiting_ns += int(columns.duration.sum())
        elif table == "overhead":
            self.profiler_ns += int(columns.duration[table_rows.of_tools(out)].sum())
            self.saving_ns += int(columns.duration[table_rows.of_saving(out)].sum())
        elif table == "pymem":
            sink.append("counter", table_rows.heap(out), count)
        sink.append(table, out, count)
        if table in table_rows.COUNTED:
            row.written += count

    def _tables(
        self, journal: Buffer, columns: Columns, *, names: ProcessNames, row: Row, sink: Sink
    ) -> None:
        """Rows of the tables of TX."""
        kinds = columns.kinds
        if kinds & _NO_ROW_KINDS:
            with self._processes.lock:
                self._threads(columns, row)
        unknown = kinds & ~_KNOWN_KINDS
        if unknown:
            known = np.isin(columns.kind, [kind for kind in range(64) if _KNOWN_KINDS >> kind & 1])
            self.notes.add(row, "unsupported:record_kind", int(np.count_nonzero(~known)))
        if kinds & _TX_KINDS and "tx" not in self.unwanted:
            runs = [columns]
            if kinds & ~_TX_KINDS:
                runs = columns.runs((columns.kind == layout.KIND_RANGE) | (columns.kind == layout.KIND_MARK))
            for run in runs:
                self._tx(journal, run, names, row, sink)
        if kinds >> layout.KIND_COUNTER & 1 and "counter" not in self.unwanted:
            self._counters(columns.of(layout.KIND_COUNTER), names, row, sink)
        if kinds >> layout.KIND_OVERHEAD & 1:
            self._overhead(columns.of(layout.KIND_OVERHEAD), names, row, sink)
        if kinds >> layout.KIND_CALL & 1:
            self._calls(columns.of(layout.KIND_CALL), names, row, sink)
        if kinds >> layout.KIND_CALLS_SKIPPED & 1:
            self._skipped(columns.of(layout.KIND_CALLS_SKIPPED), names, row, sink)

    @staticmethod
    def _threads(columns: Columns, row: Row) -> None:
        for kind, begins in ((layout.KIND_THREAD, True), (layout.KIND_THREAD_END, False)):
            at = np.flatnonzero(columns.kind == kind)
            tids, times = columns.tid[at], columns.begin[at]
            order = np.lexsort((times, tids))
            tids, times = tids[order], times[order]
            first = np.flatnonzero(np.diff(tids, prepend=-1))
            pick = first if begins else np.append(first[1:], len(tids))[: len(first)] - 1
            for tid, time in zip(tids[first].tolist(), times[pick].tolist(), strict=True):
                # A THREAD record without a time only says whose records follow.
                row.see_thread(tid, time if begins and time > 0 else None, None if begins else time)

    def _tx(self, journal: Buffer, columns: Columns, names: ProcessNames, row: Row, sink: Sink) -> None:
        if not len(columns):
            return
        out = self._common(columns, names, row)
        flags = columns.all_flags
        out["task_id"] = columns.task.astype(np.int64) if columns.all_task else 0
        out["depth"] = columns.depth
        if columns.all_attr:
            attr = names.clip(columns.attr)
            out["domain"] = self._texts.column(names.domain[attr])
            out["category"] = self._texts.column(names.category[attr])
            out["color"] = names.color[attr]
        else:
            out["domain"], out["color"] = "", 0
        if columns.kinds >> layout.KIND_MARK & 1 or flags & layout.FLAG_START_END:
            style = np.where(
                columns.kind == layout.KIND_MARK, 2, (columns.flags & layout.FLAG_START_END) != 0
            ).astype(np.int32)
            out["style"] = pa.DictionaryArray.from_arrays(pa.array(style), self._styles)
        else:
            out["style"] = "PushPop"
        out["unfinished"] = (
            (columns.flags & layout.FLAG_UNFINISHED) != 0 if flags & layout.FLAG_UNFINISHED else False
        )
        if flags & layout.FLAG_MORE:
            out["payload"] = self._payloads(journal, columns)
            if flags & layout.FLAG_START_END:
                ends = np.empty(len(columns), np.int64)
                self._loops.end_threads(
                    journal, np.where(columns.flags & layout.FLAG_START_END, columns.more, -1), ends
                )
                out["end_thread_id"] = pa.array(ends, mask=ends < 0)
        if flags & layout.FLAG_ERROR:
            at = np.flatnonzero(columns.flags & layout.FLAG_ERROR)
            numbers = np.full(len(columns), -1, np.int32)
            numbers[at] = [self._texts.number(text) for text in self._loops.errors(journal, columns.more[at])]
            out["error"] = self._texts.column(numbers)
        if flags & layout.FLAG_TRUNCATED:
            self.notes.add(
                row, "clipped:payload", int(np.count_nonzero(columns.flags & layout.FLAG_TRUNCATED))
            )
        sink.append("tx", out, len(columns))
        row.written += len(columns)

    def _payloads(self, journal: Buffer, columns: Columns) -> pa.Array:
        rows = len(columns)
        offsets, valid = np.empty(rows + 1, np.int32), np.empty(rows, np.uint8)
        data = self._loops.payloads(journal, columns.more, columns.flags, offsets, valid)
        bits = np.packbits(valid, bitorder="little")
        return pa.StringArray.from_buffers(
            rows, pa.py_buffer(offsets), pa.py_buffer(data), pa.py_buffer(bits)
        )

    def _common(self, columns: Columns, names: ProcessNames, row: Row) -> dict[str, Any]:
        texts, missing = names.take_text(columns.name)
        self.notes.add(row, "repaired:unknown_name", missing)
        return {
            "start_ns": columns.begin,
            "duration_ns": columns.duration,
            "name": self._texts.column(texts),
            "process_id": row.process_id,
            "thread_id": int(columns.tid[0]) if columns.one_thread else columns.tid,
        }

    def _counters(self, columns: Columns, names: ProcessNames, row: Row, sink: Sink) -> None:
        out = self._common(columns, names, row)
        out["value"] = out.pop("duration_ns").view(np.float64)
        ids = names.clip(columns.name)
        out["unit"] = self._texts.column(names.unit[ids])
        out["domain"] = self._texts.column(names.domain[ids])
        sink.append("counter", out, len(columns))
        row.written += len(columns)

    def _overhead(self, columns: Columns, names: ProcessNames, row: Row, sink: Sink) -> None:
        self.profiler_ns += int(columns.duration.sum())
        sink.append("overhead", self._common(columns, names, row), len(columns))

    def _calls(self, columns: Columns, names: ProcessNames, row: Row, sink: Sink) -> None:
        """Calls of Python functions, or parts of them."""
        out = self._common(columns, names, row)
        self._place(columns, names, out)
        flags = columns.flags.astype(np.int32)
        call = np.where(flags & layout.CALL_C, 2, (flags & layout.CALL_RESUMED) != 0).astype(np.int32)
        ended = np.where(
            flags & layout.FLAG_UNFINISHED,
            3,
            np.where(flags & layout.FLAG_ERROR, 2, (flags & layout.CALL_YIELDED) != 0),
        ).astype(np.int32)
        out["call"] = pa.DictionaryArray.from_arrays(pa.array(call), _CALLS)
        out["ended"] = pa.DictionaryArray.from_arrays(pa.array(ended), _ENDS)
        if columns.all_task and columns.task.any():
            out["generator_id"] = pa.array(columns.task.astype(np.int64), mask=columns.task == 0)
        sink.append("python", out, len(columns))
        row.written += len(columns)

    def _place(self, columns: Columns, names: ProcessNames, out: dict[str, Any]) -> None:
        """Add where functions are defined."""
        file, module, line = names.code(columns.attr)
        out["file"], out["module"] = self._texts.column(file), self._texts.column(module)
        out["line"] = pa.array(line, mask=line < 0)

    def _skipped(self, columns: Columns, names: ProcessNames, row: Row, sink: Sink) -> None:
        """Calls that were only counted."""
        out = self._common(columns, names, row)
        out["function"] = out.pop("name")
        self._place(columns, names, out)
        del out["file"], out["line"]
        out["name"] = "Python calls, counted only"
        out["duration_ns"] = 0
        out["calls"] = columns.task.astype(np.int64)
        sink.append("overhead", out, len(columns))
        self.notes.add(row, CALLS_SKIPPED, int(columns.task.sum(dtype=np.int64)))
