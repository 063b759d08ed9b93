"""`NAME.topspack`: a session as one small file to send or keep.

It is a zip file whose members are stored as they are: `session.json`, for each segment a Parquet file (zstd,
columns encoded by what suits them) of its rows in lane order, and saved launches. Lanes, pyramids and
summaries are made anew by `unpack`. No name in the file is ever used as a path; that of a launch is a file's
name, of letters, digits and `_ . -`.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tops_kit.errors import ManifestDamagedError, SessionError
from tops_kit.output_files import place_of
from tops_kit.session import columns as cols
from tops_kit.session.compaction import prepare
from tops_kit.session.files import fsync_path, remove_folder, reported, write_json
from tops_kit.session.in_use import taken
from tops_kit.session.lanes import apply_order, lane_order
from tops_kit.session.launches import is_member, pack_launches, unpack_launch
from tops_kit.session.manifest import MANIFEST, SUFFIX, check_manifest
from tops_kit.session.reader import Session
from tops_kit.session.removal import remove_session
from tops_kit.session.schema import TABLES, Kind, Table
from tops_kit.session.segment import SEGMENTS, Segment, SegmentData
from tops_kit.session.segment_writing import write_segment

PACK_SUFFIX = ".topspack"
_OVERWRITE = "use another name, or overwrite it (--force-overwrite)"
_MEMBER = re.compile(r"([a-z_]+)-(\d{1,9})\.parquet")
_LARGEST_MANIFEST = 64 << 20
_LARGEST_DECODED = 4 << 30
_BEST_RATIO = 200
_MOST_ROWS = 1 << 28  # of a segment: a compaction makes at most some million


def pack(path: str | Path, out: str | Path | None = None, *, overwrite: bool = False) -> Path:
    """Pack a session into one file (NAME.topspack beside it unless `out` is given) and return its path.

    SessionError when the session can't be read, or the file exists or can't be written.
    """
    session = Session.open(path)
    target = (
        Path(out).absolute()
        if out is not None
        else session.path.with_name(session.path.name.removesuffix(SUFFIX) + PACK_SUFFIX)
    )
    if target.exists() and not overwrite:
        raise taken(target, _OVERWRITE)
    place = place_of(target)
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        with reported("write", target):
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
                for table in TABLES.values():
                    for number, rows in enumerate(session.stream(table, _packed_rows)):
                        with file.open(f"{table.name}-{number}.parquet", "w", force_zip64=True) as member:
                            _write_parquet(member, table, rows)
                pack_launches(session.path, file)
                file.writestr(MANIFEST, json.dumps(_manifest(session), ensure_ascii=False))
            fsync_path(temporary)
            temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _manifest(session: Session) -> dict[str, Any]:
    """That of the packed session. One that is still being recorded is what it is now, for good."""
    ledger, status = session.ledger, session.info["status"]
    if status == "recording":
        status = "stopped"
        ledger.count("pack", "clipped:still_recording", 1, "later records are not in the packed session")
    return session.info | {"status": status, "ledger": ledger.to_json()}


def _packed_rows(segment: Segment) -> pa.Table:
    table = segment.table
    data = segment.data(table.columns)
    if segment.level != "lanes" and table.kind is not Kind.PLAIN:
        data = apply_order(table, data, lane_order(table, data).order)
    # Columns without any value are left out: they come back as null.
    names = [
        column.name
        for column in table.columns
        if column.name in data.arrays or data.constants.get(column.name) is not None
    ]
    return pa.table(
        {name: data.array(table.column(name)) for name in names}
        or {table.columns[0].name: data.array(table.columns[0])}
    )


def _write_parquet(member: Any, table: Table, rows: pa.Table) -> None:
    encodings = {
        name: "DELTA_BINARY_PACKED" if name.endswith("_ns") and name != "duration_ns" else "PLAIN"
        for name in rows.column_names
        if table.column(name).type in ("int64", "float64") and name != "duration_ns"
    }
    dictionary = [name for name in rows.column_names if name not in encodings]
    pq.write_table(
        rows,
        member,
        compression="zstd",
        compression_level=3,
        use_dictionary=dictionary,
        column_encoding=encodings,
        row_group_size=1 << 20,
        write_statistics=False,
        data_page_size=1 << 20,
        dictionary_pagesize_limit=1 << 18,
    )


def unpack(file: str | Path, out: str | Path | None = None, *, overwrite: bool = False) -> Path:
    """Make a session folder of a packed file (NAME.topsprof beside it unless `out` is given) and return its
    path.

    SessionError when the file isn't one, is damaged or of a newer version, or the folder exists or can't be
    written.
    """
    file = Path(file).absolute()
    target = (
        Path(out).absolute()
        if out is not None
        else file.with_name(file.name.removesuffix(PACK_SUFFIX) + SUFFIX)
    )
    if target.exists() and not overwrite:
        raise taken(target, _OVERWRITE)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with reported("read", file):
        if not file.is_file():
            raise SessionError(f"{file} is not a file; give a {PACK_SUFFIX} file")
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise SessionError(f"{file} is not a {PACK_SUFFIX} file, or was cut short") from error
    try:
        with archive, reported("write the session", target):
            (temporary / SEGMENTS).mkdir(parents=True)
            _unpack_into(archive, file, temporary)
            if target.exists():
                Session.open(target)  # only a session is ever overwritten
                remove_session(target)
            temporary.rename(target)
    finally:
        remove_folder(temporary)
    return target


def _unpack_into(archive: zipfile.ZipFile, file: Path, folder: Path) -> None:
    manifest: dict[str, Any] | None = None
    order: dict[str, int] = {}
    for name, table in _members(archive, file):
        try:
            if is_member(name):
                unpack_launch(archive, name, folder)
                continue
            if table is None:
                with archive.open(name) as member:
                    manifest = json.loads(member.read(_LARGEST_MANIFEST))
                continue
            # read whole: zip compares its checksum with nothing less, and it is small as it is stored
            with pq.ParquetFile(pa.BufferReader(archive.read(name))) as packed:
                _check_size(packed.metadata, archive.getinfo(name), file)
                data = _data(table, _rows_of(packed))
        except (
            zipfile.BadZipFile,
            pa.ArrowException,
            OSError,
            ValueError,
            TypeError,
            EOFError,
            NotImplementedError,
            RuntimeError,
            RecursionError,
        ) as error:
            raise SessionError(f"{file} is damaged: {name} can't be read; get another copy of it") from error
        order[table.name] = order.get(table.name, 0) + 1
        place = order[table.name]
        try:
            prepared = prepare(table, data)
        except ValueError as error:  # a time without a value
            raise SessionError(
                f"{file} is damaged: {name} has rows without a time; get another copy of it"
            ) from error
        write_segment(folder, table, prepared, level="lanes", name=f"{table.name}-{place:06d}", order=place)
    if manifest is None:
        raise SessionError(f"{file} is damaged: it has no {MANIFEST}; get another copy of it")
    try:
        check_manifest(file, manifest)
    except ManifestDamagedError as error:
        raise SessionError(f"{error}; get another copy of it") from error
    write_json(folder / MANIFEST, manifest)


def _check_size(metadata: pq.FileMetaData, member: zipfile.ZipInfo, file: Path) -> None:
    """SessionError when a member would fill the memory: no session packs that well."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    decoded = sum(group.total_byte_size for group in groups)
    # runs of one value shrink to nothing at any length, and are long only once they are rows
    width = 8 * max(metadata.num_columns, 1)
    size = max(decoded, metadata.num_rows * width)
    if metadata.num_rows > _MOST_ROWS or (
        size > _LARGEST_DECODED and size > _BEST_RATIO * max(member.compress_size, 1)
    ):
        raise SessionError(
            f"{file}: {member.filename} has {member.file_size} bytes but {metadata.num_rows} rows, which no "
            "session packs into so few; get another copy of it"
        )


def _rows_of(packed: pq.ParquetFile) -> pa.Table:
    """All rows, a row group at a time: what a group holds beside them is given back before the next."""
    count = packed.metadata.num_row_groups
    if not count:
        return packed.read(use_threads=False)
    return pa.concat_tables([packed.read_row_group(i, use_threads=False) for i in range(count)])


def _members(archive: zipfile.ZipFile, file: Path) -> list[tuple[str, Table | None]]:
    """(name, table) of each member in the order of a table's rows; None: session.json, or a launch."""
    found: list[tuple[int, str, Table | None]] = []
    for info in archive.infolist():
        name = info.filename
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise SessionError(
                f"{file}: {name[:60]!r} is compressed by zip, which `topsprof pack` never does; "
                "pack the session again"
            )
        match = _MEMBER.fullmatch(name)
        if name == MANIFEST or is_member(name):
            found.append((0, name, None))
        elif match and match[1] in TABLES:
            found.append((int(match[2]), name, TABLES[match[1]]))
        else:
            raise SessionError(
                f"{file} has a member {name[:60]!r} of no known kind; upgrade tops-kit, or get another copy"
            )
    return [(name, table) for _, name, table in sorted(found, key=lambda member: member[:2])]


def _data(table: Table, rows: pa.Table) -> SegmentData:
    data = SegmentData(rows.num_rows)
    for name in rows.column_names:
        if name in table.column_names:  # later versions may have more
            data.arrays[name] = cols.to_array(table.column(name), rows.column(name))
    return data
