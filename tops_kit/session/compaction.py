"""Compaction: raw and small segments become large ones that are sorted into lanes; then the summaries are
written.

Each step leaves the session readable. A new segment gets its name when it is complete, and says which ones it
replaces; readers leave those out from then on, and they are deleted after it. A compaction that was killed is
taken up by the next one.

    python -m tops_kit.session.compaction SESSION [--live]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tops_kit.errors import UserError
from tops_kit.own_process import environment, module_command
from tops_kit.session import columns as cols
from tops_kit.session.catalog import Catalog
from tops_kit.session.files import remove_folder, reported
from tops_kit.session.lanes import index
from tops_kit.session.lock import FolderLock, is_running
from tops_kit.session.manifest import read_manifest
from tops_kit.session.partial_summary import segment_summary
from tops_kit.session.schema import TABLES, Kind, Table
from tops_kit.session.segment import (
    SEGMENTS,
    Segment,
    SegmentDamagedError,
    SegmentData,
    SegmentGoneError,
    delete_segment,
    is_temporary,
    successor_name,
    temporary_writer,
)
from tops_kit.session.segment_writing import write_segment

COMPACT_LOCK = ".compact.lock"
FULL_ROWS = 1 << 20
MOST_ROWS = 4 << 20
# Of uncompressed columns: bounds the memory that sorting takes to some 700 MB.
MOST_BYTES = 192 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did: segments read and written, and their rows."""

    read: int = 0
    written: int = 0
    rows: int = 0


def merged_data(table: Table, segments: Sequence[Segment]) -> SegmentData:
    """The rows of several segments of a table, one after the other. SegmentDamagedError, SegmentGoneError."""
    data = SegmentData(sum(segment.rows for segment in segments))
    for column in table.columns:
        if not any(segment.stores(column) for segment in segments):
            values = [segment.constants.get(column.name) for segment in segments if segment.rows]
            if all(value == values[0] and type(value) is type(values[0]) for value in values):
                data.constants[column.name] = values[0] if values else None
                continue
        data.arrays[column.name] = cols.concat(column, [segment.column(column) for segment in segments])
    return data


def prepare(table: Table, data: SegmentData) -> SegmentData:
    """Rows as a segment of level "lanes" has them: sorted, with lanes, pyramid and summary."""
    result = index(table, data)
    if table.kind is not Kind.PLAIN and table.summary:
        result.summary = segment_summary(table, result)
    return result


def plan(segments: Sequence[Segment], table: Table, live: bool) -> list[list[Segment]]:
    """Groups of segments, each to become one. With `live` only what fills a segment is worth it."""
    groups: list[list[Segment]] = []
    group: list[Segment] = []
    rows = size = 0
    for segment in segments:
        if _done(segment) and (segment.rows >= FULL_ROWS or segment.size_bytes >= MOST_BYTES // 4):
            if table.kind is Kind.PLAIN and group:
                groups.append(group)  # the order of its rows has a meaning
                group, rows, size = [], 0, 0
            continue
        own = segment.rows * _row_bytes(segment)
        if group and (rows + segment.rows > MOST_ROWS or size + own > MOST_BYTES):
            groups.append(group)
            group, rows, size = [], 0, 0
        group.append(segment)
        rows += segment.rows
        size += own
    if group:
        groups.append(group)
    return [group for group in groups if _worth_it(group, live)]


def _row_bytes(segment: Segment) -> int:
    """Bytes of a row in memory: what is stored for a raw segment, a generous guess for a compressed one."""
    stored = segment.size_bytes // max(segment.rows, 1) + 1
    return stored if segment.level == "raw" else max(stored * 3, 64)


def _done(segment: Segment) -> bool:
    return segment.level == "lanes" and (segment.indexed or segment.table.kind is Kind.PLAIN)


def _worth_it(group: list[Segment], live: bool) -> bool:
    if len(group) == 1 and _done(group[0]):
        return False
    return not live or sum(segment.rows for segment in group) >= FULL_ROWS


def compact(path: str | Path, *, live: bool = False, summaries: bool = True) -> Compaction:
    """Compact a session, also while it is being written or read by others.

    With `live` only what fills whole segments is merged, and no summaries are written. A second compaction at
    the same time does nothing. SessionError when the session can't be read or written.
    """
    path = Path(path).absolute()
    read_manifest(path)
    with reported("compact the session", path):
        lock = FolderLock(path / COMPACT_LOCK)
        if not lock.acquire():
            return Compaction()
        try:
            catalog = Catalog(path)
            _clean_up(path, catalog)
            done = [
                _compact_group(path, catalog, table, group)
                for table in TABLES.values()
                for group in plan(catalog.segments(table.name), table, live)
            ]
        finally:
            lock.release()
    if summaries and not live:
        from tops_kit.session.reader import Session

        Session.open(path).write_summaries()
    return Compaction(
        sum(one.read for one in done), sum(one.written for one in done), sum(one.rows for one in done)
    )


def _compact_group(path: Path, catalog: Catalog, table: Table, group: list[Segment]) -> Compaction:
    try:
        for segment in group:
            segment.verify()  # what is read here is deleted
        data = prepare(table, merged_data(table, group))
    except SegmentGoneError:
        return Compaction()
    except SegmentDamagedError:
        # Readers name it in their ledger. The other segments of the group take part in the next compaction.
        sound = [segment for segment in group if _is_sound(catalog, table, segment)]
        return (
            _compact_group(path, catalog, table, sound) if sound and len(sound) < len(group) else Compaction()
        )
    # Those that the replaced ones replaced must stay replaced, should any of them not have been deleted.
    replaces = dict.fromkeys(
        [segment.name for segment in group]
        + [name for segment in group for name in segment.replaces if (path / SEGMENTS / name).exists()]
    )
    write_segment(
        path,
        table,
        data,
        level="lanes",
        name=successor_name(replaces),
        replaces=tuple(replaces),
        order=min(segment.order for segment in group),
        user={"merged": merged_users(group)},
    )
    for name in replaces:
        delete_segment(path, name)
    return Compaction(len(group), 1, data.rows)


def merged_users(group: Sequence[Segment]) -> list[Any]:
    """What writers kept with the segments, each thing once; what was merged before is not nested again."""
    users: list[Any] = []
    for segment in group:
        merged = segment.user.get("merged")
        for user in merged if isinstance(merged, list) else [segment.user] if segment.user else []:
            if user not in users[-64:]:
                users.append(user)
    return users


def _is_sound(catalog: Catalog, table: Table, segment: Segment) -> bool:
    try:
        segment.verify()
        merged_data(table, [segment])
    except SegmentDamagedError as error:
        catalog.drop(segment, str(error))
        return False
    except SegmentGoneError:
        return False
    return True


def _clean_up(path: Path, catalog: Catalog) -> None:
    """Delete replaced segments, and what compactions that were killed left behind."""
    for name in catalog.replaced():
        delete_segment(path, name)
    for entry in (path / SEGMENTS).iterdir():
        if is_temporary(entry.name) and not _being_written(entry.name):
            remove_folder(entry)


def _being_written(name: str) -> bool:
    """Whether the process that a temporary folder is named after may still be at work on it."""
    process = temporary_writer(name)
    return process is not None and process != os.getpid() and is_running(process)


def start_compaction(path: str | Path, *, live: bool = False) -> subprocess.Popen[bytes]:
    """Compact in a process of its own, of low priority; its exit status is 0 when all went well."""
    command = module_command("tops_kit.session.compaction", str(path), *(["--live"] if live else []))
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment())


def main(argv: list[str] | None = None) -> int:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m tops_kit.session.compaction", description="Compact a session."
    )
    parser.add_argument("session", type=Path, help="session folder")
    parser.add_argument("--live", action="store_true", help="merge only what fills whole segments")
    options = parser.parse_args(argv)
    try:
        compact(options.session, live=options.live)
    except UserError as error:
        print(f"compact: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    with contextlib.suppress(AttributeError, OSError):  # Windows has no such call
        os.nice(10)
    sys.exit(main())
