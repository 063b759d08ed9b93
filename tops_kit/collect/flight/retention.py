"""Which segments of a recording are still within its window: the others are deleted, small ones merged."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tops_kit.collect.arrays import Int64
from tops_kit.collect.samples import FIRST_TREE
from tops_kit.session import Ledger
from tops_kit.session.compaction import merged_data, merged_users
from tops_kit.session.files import reported
from tops_kit.session.schema import TABLES, Kind
from tops_kit.session.segment import (
    SEGMENTS,
    Segment,
    SegmentDamagedError,
    SegmentData,
    SegmentGoneError,
    delete_segment,
    is_temporary,
    segment_order,
    successor_name,
)
from tops_kit.session.segment_writing import write_segment

AGED: Final = "dropped:aged"
"""What left the window by age, which is what was asked for."""
TOO_MUCH: Final = "dropped:window_size"

RETOLD: Final = ("process", "thread")
"""Tables whose rows are told anew from memory, so that what was told before can go."""

_NO_LINKS: Final = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP)
_BUCKETS: Final = 32
_LEAST_BUCKET_S: Final = 8.0
_MOST_MERGED_ROWS: Final = 1 << 20
_MOST_PLAIN: Final = 48
"""Segments of a table without times before they are made one."""


@dataclass(slots=True)
class Kept:
    """A segment of the session. `arrived_s`: when, by the window's clock; `trees`: of stacks."""

    name: str
    table: str
    rows: int
    size_bytes: int
    arrived_s: float
    first_s: float
    trees: frozenset[int] = frozenset()


@dataclass(slots=True)
class WindowClock:
    """Seconds in which recording was on; what was recorded before a pause doesn't age in it."""

    _before_s: float = 0.0
    _since: float | None = field(default_factory=time.monotonic)

    def now(self) -> float:
        return self._before_s + (time.monotonic() - self._since if self._since is not None else 0.0)

    def run(self, on: bool) -> None:
        """Recording is on, or off."""
        if on and self._since is None:
            self._since = time.monotonic()
        elif not on and self._since is not None:
            self._before_s, self._since = self.now(), None


class Window:
    """The segments of a session that is kept `keep_s` long and `keep_bytes` large. For whoever holds the part
    writer's lock, but for `clock`.
    """

    def __init__(self, folder: Path, keep_s: float, keep_bytes: int, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self.keep_s, self.keep_bytes = keep_s, keep_bytes
        self.clock = WindowClock()
        self.last_sample_s: dict[int, float] = {}  # tree of stacks -> when a sample of it came
        self._kept: dict[str, Kept] = {}
        # What is merged goes as one: too coarse for a short window, and there is little to merge in one.
        self._bucket_s = keep_s / _BUCKETS if keep_s / _BUCKETS >= _LEAST_BUCKET_S else math.inf
        self._merged_at: dict[str, float] = {}

    @property
    def names(self) -> list[str]:
        """The segments that there are."""
        return list(self._kept)

    @property
    def size_bytes(self) -> int:
        return sum(kept.size_bytes for kept in self._kept.values())

    def add(self, names: Iterable[str]) -> None:
        """Segments that were just written."""
        now = self.clock.now()
        for name in names:
            self._put(Segment(self.folder / SEGMENTS / name), now, now)

    def unknown(self) -> list[str]:
        """Segments in the folder that were not told."""
        with os.scandir(self.folder / SEGMENTS) as entries:
            found = {entry.name for entry in entries if not is_temporary(entry.name)}
        return sorted(found - self._kept.keys(), key=segment_order)

    def see_samples(self, tree: int) -> None:
        """Samples with stacks of this tree have come."""
        self.last_sample_s[tree] = self.clock.now()

    def _put(self, segment: Segment, arrived_s: float, first_s: float) -> None:
        size = sum(segment.files.values())
        kept = Kept(segment.name, segment.table.name, segment.rows, size, arrived_s, first_s)
        if kept.table == "stack":
            kept.trees = frozenset((np.unique(_ids(segment) >> 32)).tolist())
            for tree in kept.trees:
                # What belongs to runtime calls (--backtrace) may be used again at any time.
                self.last_sample_s.setdefault(tree, arrived_s if tree >= FIRST_TREE else math.inf)
        self._kept[kept.name] = kept

    def give(self, stage: Path, leave_out: Iterable[str]) -> int:
        """Give the segments a second name in another session, but for those of some tables; their rows.
        Raises OSError.
        """
        rows = 0
        for kept in self._kept.values():
            if kept.table in leave_out:
                continue
            target = stage / SEGMENTS / kept.name
            target.mkdir()
            for file in (self.folder / SEGMENTS / kept.name).iterdir():
                _link(file, target / file.name)
            rows += kept.rows
        return rows

    def age(self) -> None:
        """Delete what is older than the window, and what makes it too large."""
        now = self.clock.now()
        newest = max((kept.arrived_s for kept in self._kept.values()), default=now)
        over = self.size_bytes - self.keep_bytes
        for kept in sorted(self._kept.values(), key=lambda kept: kept.arrived_s):
            if TABLES[kept.table].kind is Kind.PLAIN:
                continue
            aged = kept.arrived_s < now - self.keep_s
            # What was written last is what a recovery goes by: it stays, however large.
            if aged or (over > 0 and kept.arrived_s < newest):
                over -= kept.size_bytes
                self._drop(kept, AGED if aged else TOO_MUCH)
        dead = {tree for tree, last in self.last_sample_s.items() if last < now - self.keep_s - 1}
        for kept in [kept for kept in self._kept.values() if kept.trees and kept.trees <= dead]:
            if kept.arrived_s < newest:
                self._forget(kept)

    def make_room(self) -> bool:
        """The disk is full: give up the older half of what is kept; False when there is nothing left."""
        events = [kept for kept in self._kept.values() if TABLES[kept.table].kind is not Kind.PLAIN]
        events.sort(key=lambda kept: kept.arrived_s)
        half = sum(kept.size_bytes for kept in events) / 2
        given = 0
        for kept in events:
            if given > half:
                break
            given += kept.size_bytes
            self._drop(kept, TOO_MUCH)
        return given > 0

    def _drop(self, kept: Kept, what: str) -> None:
        note = (
            f"older than the last {self.keep_s:g} s, which are kept"
            if what == AGED
            else "there was no room for the whole window (--keep-size, or the disk)"
        )
        self.ledger.count(f"window:{kept.table}", what, kept.rows, note)
        self._forget(kept)

    def _forget(self, kept: Kept) -> None:
        delete_segment(self.folder, kept.name)
        self._kept.pop(kept.name, None)

    def merge(self) -> None:
        """Make one segment of many small ones. Raises SessionError when that can't be written."""
        tables: dict[str, list[Kept]] = defaultdict(list)
        for kept in self._kept.values():
            tables[kept.table].append(kept)
        for table, all_kept in tables.items():
            all_kept.sort(key=lambda kept: kept.arrived_s)
            if TABLES[table].kind is Kind.PLAIN:
                if len(all_kept) > _MOST_PLAIN and table not in RETOLD:
                    self._merge(table, all_kept)
                continue
            begin = self._merged_at.setdefault(table, all_kept[0].first_s)
            group = [kept for kept in all_kept if kept.first_s >= begin and kept.first_s == kept.arrived_s]
            if not group or group[-1].arrived_s - begin < self._bucket_s:
                continue
            self._merged_at[table] = group[-1].arrived_s
            if len(group) > 2 and sum(kept.rows for kept in group) <= _MOST_MERGED_ROWS:
                self._merge(table, group)

    def outdated(self) -> list[str]:
        """Segments of RETOLD, when they are so many that their rows should be told anew."""
        found = [kept.name for kept in self._kept.values() if kept.table in RETOLD]
        return found if len(found) > _MOST_PLAIN else []

    def remove(self, names: Iterable[str]) -> None:
        """Delete segments whose rows others tell."""
        for name in names:
            if name in self._kept:
                self._forget(self._kept[name])

    def _merge(self, table: str, group: list[Kept]) -> None:
        definition = TABLES[table]
        try:
            segments = [Segment(self.folder / SEGMENTS / kept.name) for kept in group]
            data = merged_data(definition, segments)
            if table == "stack":
                data = self._living(segments, data)
        except (SegmentDamagedError, SegmentGoneError):
            return  # readers say so; what is sound ages as it is
        if not data.rows:
            self.remove([kept.name for kept in group])
            return
        name = successor_name([kept.name for kept in group])
        with reported("write the session", self.folder):
            write_segment(
                self.folder,
                definition,
                data,
                level="raw",
                name=name,
                order=min(segment.order for segment in segments),
                replaces=tuple(kept.name for kept in group),
                user={"merged": merged_users(segments)},
            )
        for kept in group:
            self._forget(kept)
        arrived = max(kept.arrived_s for kept in group)
        self._put(Segment(self.folder / SEGMENTS / name), arrived, min(kept.first_s for kept in group))

    def _living(self, segments: list[Segment], data: SegmentData) -> SegmentData:
        """Without stacks of trees of which no sample is left."""
        gone = self.clock.now() - self.keep_s - 1
        dead = [tree for tree, last in self.last_sample_s.items() if last < gone]
        ids = np.concatenate([_ids(segment) for segment in segments])
        keep = ~np.isin(ids >> 32, dead)
        if keep.all():
            return data
        rows = pa.array(np.flatnonzero(keep))
        arrays = {name: array.take(rows) for name, array in data.arrays.items()}
        return SegmentData(len(rows), arrays, data.constants)


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(file, target)


def _ids(segment: Segment) -> Int64:
    column = segment.column(segment.table.column("stack_id"))
    found: Int64 = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
