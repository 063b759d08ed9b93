"""Imports tables that `topsprof export -t csv` and `-t parquet` wrote: each file one table, with the schema's
columns.

A folder of them is imported like any folder of traces: all files into one session.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tops_kit.errors import TraceError
from tops_kit.session.columns import arrow_type
from tops_kit.session.schema import TABLES, Table
from topsprof.importers.base import ImportOptions, Source, Tally

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

TABLE_KEY = b"topsprof.table"
_MAGIC = b"PAR1"
_BLOCK_BYTES = 8 << 20
_PROCESS_COLUMNS = ("process_id", "parent_id", "source_process_id", "target_process_id")


class ParquetImporter:
    """Parquet files of our own export."""

    name = "parquet"
    suffixes = (".parquet",)

    def detects(self, head: bytes, path: Path) -> bool:
        return head.startswith(_MAGIC)

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(source.path) as file:
                table = TABLES.get(
                    (file.schema_arrow.metadata or {}).get(TABLE_KEY, b"").decode("utf-8", "replace")
                )
                if table is None:
                    raise TraceError(
                        f"{source.path}: a Parquet file, but none that 'topsprof export -t parquet' wrote"
                    )
                _append(file.iter_batches(1 << 18), table, source, writer, options, importer=self.name)
        except (pa.ArrowException, OSError) as error:
            raise TraceError(
                f"{source.path}: not a readable Parquet file ({str(error).splitlines()[0][:100]}); "
                "export it again"
            ) from error


class CsvImporter:
    """CSV files of our own export."""

    name = "csv"
    suffixes = (".csv",)

    def detects(self, head: bytes, path: Path) -> bool:
        return _table_of(head) is not None

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        from pyarrow import csv

        table = _table_of(source.head())
        if table is None:
            raise TraceError(
                f"{source.path}: its first line is not the columns of a table of ours; "
                "give a file that 'topsprof export -t csv' wrote"
            )
        types = {
            column.name: pa.string() if column.type == "name" else arrow_type(column)
            for column in table.columns
        }
        convert = csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
        parse = csv.ParseOptions(newlines_in_values=True)
        try:
            with (
                source.open() as stream,
                csv.open_csv(stream, csv.ReadOptions(block_size=_BLOCK_BYTES), parse, convert) as reader,
            ):
                _append(reader, table, source, writer, options, importer=self.name)
        except pa.ArrowException as error:
            raise TraceError(f"{source.path}: {str(error).splitlines()[0][:120]}; export it again") from error


def _append(
    batches: Iterable[pa.RecordBatch],
    table: Table,
    source: Source,
    writer: SessionWriter,
    options: ImportOptions,
    *,
    importer: str,
) -> None:
    tally = Tally(writer.ledger, importer, source, options)
    known = set(table.column_names)
    for batch in batches:
        if not batch.num_rows:
            continue
        columns: dict[str, Any] = {name: batch[name] for name in batch.schema.names if name in known}
        for name in _PROCESS_COLUMNS:
            if name in columns:
                columns[name] = _processes(columns[name], options)
        writer.append(table.name, columns)
        tally.read(batch.num_rows)
        tally.written(batch.num_rows)


def _processes(column: pa.Array, options: ImportOptions) -> pa.Array:
    """Process numbers as the session keys them; each distinct one is asked for once."""
    encoded = column.dictionary_encode()
    keys = pa.array([options.process_id(number) for number in encoded.dictionary.to_pylist()], pa.int64())
    return keys.take(encoded.indices)


def _table_of(head: bytes) -> Table | None:
    """The table whose columns the first line lists."""
    titles = head.partition(b"\n")[0].decode("utf-8", "replace").strip().replace('"', "").split(",")
    return next((table for table in TABLES.values() if list(table.column_names) == titles), None)
