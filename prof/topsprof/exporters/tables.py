"""Exports the session's tables as they are: CSV and Parquet, a file a table in a folder, or one table in a
file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import UserError
from tops_kit.session.schema import TABLES, Table
from topsprof.exporters.base import Exported, ExportOptions, nothing
from topsprof.exporters.output import stream
from topsprof.importers.tables import TABLE_KEY

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

BATCH_ROWS = 1 << 18


class _Tables:
    """What both formats share."""

    suffix = ""

    def folder(self, options: ExportOptions) -> bool:
        return options.table is None

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        exported = Exported()
        present = session.tables()
        if options.table is not None:
            table = TABLES.get(options.table)
            if table is None:
                raise UserError(f"export: no table '{options.table}'; the session has {', '.join(present)}")
            exported.rows = self._write(session, selection, table, out, options.compress)
            return exported
        if not present:
            raise nothing(session, "row")
        out.mkdir(exist_ok=True)
        for name in present:
            exported.rows += self._write(
                session, selection, TABLES[name], out / f"{name}{self.suffix}", False
            )
        return exported

    def _write(
        self, session: Session, selection: Selection | None, table: Table, path: Path, compress: bool
    ) -> int:
        rows = session.table(table.name, table.column_names, selection)
        self.write(rows, table, path, compress)
        return int(rows.num_rows)

    def write(self, rows: pa.Table, table: Table, path: Path, compress: bool) -> None:
        """Write one table."""
        raise NotImplementedError


class CsvExporter(_Tables):
    """Comma-separated values: a title line, text in quotes, null as an empty cell."""

    name = "csv"
    suffix = ".csv"
    help = "a folder of CSV files, one a table (or one file with --table)"
    text = True

    def write(self, rows: pa.Table, table: Table, path: Path, compress: bool) -> None:
        import pyarrow.csv

        columns = {
            name: pc.cast(rows[name], pa.string()) if pa.types.is_dictionary(rows[name].type) else rows[name]
            for name in rows.column_names
        }
        plain = pa.table(columns)
        with stream(path, compress) as file, pyarrow.csv.CSVWriter(file, plain.schema) as writer:
            writer.write_table(plain, BATCH_ROWS)


class ParquetExporter(_Tables):
    """Parquet with zstd, names dictionary-coded."""

    name = "parquet"
    suffix = ".parquet"
    help = "a folder of Parquet files, one a table (or one file with --table)"
    text = False

    def write(self, rows: pa.Table, table: Table, path: Path, compress: bool) -> None:
        import pyarrow.parquet

        meta: dict[Any, Any] = {
            TABLE_KEY: table.name.encode(),
            b"topsprof.comment": table.comment.encode(),
            b"topsprof.columns": json.dumps({one.name: one.comment for one in table.columns}).encode(),
        }
        pyarrow.parquet.write_table(
            rows.replace_schema_metadata(meta), path, compression="zstd", row_group_size=1 << 20
        )
