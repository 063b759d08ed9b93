"""`topsprof sql`: ask a session in SQL."""

from __future__ import annotations

import argparse
import decimal
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tops_kit.errors import UserError
from tops_kit.output_files import place_of
from topsprof import schemas, tables, terminal
from topsprof.reports.model import Column, Row, Type

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "parquet")
_BATCH_ROWS = 10_000
_LONGEST_PATH = 255  # a longer word is SQL, not the name of a file
_INTEGERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
)

_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b(?:\s+analyze\b|\s*\(\s*(?:analyze|format)\b[^)]*\))*",
    re.IGNORECASE | re.DOTALL,
)
_PIVOT = re.compile(r"\bpivot", re.IGNORECASE)

_USAGE = "topsprof sql SESSION QUERY [options]"
_EPILOG = """\
The session's tables are views of the same names; interval tables have start_ns, end_ns and duration_ns. The
view `slice` unites all intervals, `cause` says who caused whom. Nothing of the session can be changed, and no
other file be read.

examples:
  topsprof sql step42 "select name, count(*) from kernel group by 1"
  topsprof sql step42 query.sql -f parquet -o top.parquet
  topsprof sql step42 --schema kernel,api     what their columns mean
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof sql`."""
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    parser.add_argument("session", metavar="SESSION", help="a session, or a trace file of another tool")
    parser.add_argument(
        "query", nargs="?", metavar="QUERY", help="DuckDB SQL; a file that holds it; or - for stdin"
    )
    parser.add_argument("-f", "--format", choices=FORMATS, default="table", help="default: table")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file (parquet needs one)")
    parser.add_argument("--force-overwrite", action="store_true", help="overwrite the output if it exists")
    parser.add_argument(
        "--schema",
        action="store_true",
        help="list tables and columns with what they mean; QUERY may name tables",
    )


def run(args: argparse.Namespace) -> int:
    """Answer one query."""
    from topsprof.opening import ledger_lines, open_session

    if not args.schema and args.query is None:
        raise UserError(
            'sql: which query? usage: topsprof sql SESSION "select ..." (--schema lists the tables)'
        )
    if args.format == "parquet" and args.output is None:
        raise UserError("sql -f parquet: name the file to write with -o FILE")
    described = schemas.chosen(args.query) if args.schema else []
    session = open_session(args.session)
    target = None if args.output in (None, "-") else Path(args.output)
    if target is not None and target.exists() and not args.force_overwrite:
        raise UserError(f"{target} exists: add --force-overwrite to replace it")
    if args.schema:
        _describe(session.tables(), described, args.format, target)
        return 0
    import duckdb

    query = read_query(args.query)
    connection = session.sql_connection()
    try:
        refuse_changes(connection, query)
        if args.format == "parquet":
            assert target is not None
            _write_parquet(connection.sql(query), target)
        else:
            result = connection.execute(query)
            _put(tables.Sheet(_columns(result), _rows(result)), args.format, target)
    except duckdb.Error as error:
        raise UserError(f"sql: {one_line(str(error))}") from error
    lines = ledger_lines(session)
    if lines and target is None and args.format == "table":
        terminal.part()
    for line in lines:
        terminal.warn(line)
    return 0


def _describe(counts: dict[str, int], names: list[str], format_: str, target: Path | None) -> None:
    if format_ != "table":
        _put(schemas.sheet(counts, names), format_, target)
        return
    with _opened(target, format_) as out:
        print(schemas.text(counts, names, out), file=out)


def read_query(text: str) -> str:
    """The SQL that an argument stands for: itself, the content of a file, or stdin for `-`. Raises
    UserError."""
    try:
        if text == "-":
            query = sys.stdin.read()
        elif text.endswith(".sql") or (
            len(os.fsencode(text)) < _LONGEST_PATH
            and "\n" not in text
            and " " not in text.strip()
            and Path(text).is_file()
        ):
            query = Path(text).read_text(encoding="utf-8")
        else:
            query = text
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"sql: can't read the query from {text}: {reason}") from error
    if not query.strip().strip(";").strip():
        raise UserError("sql: the query is empty")
    return query


def refuse_changes(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse statements that answer nothing, as they could only change the views. UserError, duckdb.Error."""
    import duckdb

    for statement in connection.extract_statements(query):
        kind, text = statement.type, statement.query
        if kind == duckdb.StatementType.EXPLAIN:  # with ANALYZE it runs what it explains
            explained = _EXPLAIN.match(text)
            if explained is not None:
                refuse_changes(connection, text[explained.end() :])
                continue
        # the columns of a PIVOT are asked for by a statement before it
        if kind == duckdb.StatementType.SELECT or (
            kind == duckdb.StatementType.MULTI and _PIVOT.search(text) is not None
        ):
            continue
        raise UserError(
            f"sql: {kind.name} is no query: a session can't be changed; ask with SELECT, WITH, FROM, VALUES, "
            "PIVOT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"
        )


def one_line(message: str) -> str:
    """DuckDB's message without its drawing of the place, on one line."""
    lines = [line.strip() for line in message.partition("\nLINE ")[0].splitlines()]
    return " ".join(line for line in lines if line)


def _columns(result: duckdb.DuckDBPyConnection) -> list[Column]:
    return [Column(name, _type(str(kind))) for name, kind, *_ in result.description or []]


def _type(kind: str) -> Type:
    if kind in _INTEGERS:
        return Type.ID
    return Type.FLOAT if kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL(") else Type.TEXT


def _rows(result: duckdb.DuckDBPyConnection) -> Iterator[Row]:
    if not result.description:
        return
    while rows := result.fetchmany(_BATCH_ROWS):
        for row in rows:
            yield [_cell(value) for value in row]


def _cell(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.hex() if isinstance(value, (bytes, bytearray, memoryview)) else value


def _write_parquet(result: duckdb.DuckDBPyRelation | None, target: Path) -> None:
    import pyarrow.parquet as pq

    if result is None:
        raise UserError("sql -f parquet: the query has no result")
    place = place_of(target)
    partial = place.with_name(place.name + ".part")
    try:
        # called fetch_record_batch before DuckDB 1.4
        read = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
        reader = read(1 << 20)
        with pq.ParquetWriter(partial, reader.schema, compression="zstd") as writer:
            for batch in _batches(reader):
                writer.write_batch(batch)
        partial.replace(place)
    except NotImplementedError as error:  # ArrowNotImplementedError: e.g. an INTERVAL
        raise UserError(
            f"sql -f parquet: {one_line(str(error))}; cast that column, e.g. to varchar"
        ) from error
    except OSError as error:
        raise UserError(f"{target}: {error.strerror or error}; choose another -o") from error
    finally:
        partial.unlink(missing_ok=True)


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a result. An error of the query comes as an OSError here, but it isn't the output's."""
    import pyarrow as pa

    batches = iter(reader)
    while True:
        try:
            batch = next(batches, None)
        except NotImplementedError:
            raise  # a type that Parquet lacks: the caller says it
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"sql: {one_line(str(error))}") from error
        if batch is None:
            return
        yield batch


def _put(sheet: tables.Sheet, format_: str, target: Path | None) -> None:
    width = terminal.columns(sys.stdout) if target is None and format_ == "table" else None
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in sheet.rows:
            count += 1
            yield row

    with _opened(target, format_) as out:
        style = tables.Style(format_, width=width, null="NULL", records=True)
        tables.write(tables.Sheet(sheet.columns, counted()), out, style)
        if width is not None:
            print(terminal.styled(f"{count:,} row{'' if count == 1 else 's'}", "dim", stream=out), file=out)


@contextmanager
def _opened(target: Path | None, format_: str) -> Iterator[TextIO]:
    newline = "" if format_ == "csv" else "\n"
    if target is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace", newline=newline)
        yield sys.stdout
        return
    try:
        out = target.open("w", encoding="utf-8", newline=newline)
    except OSError as error:
        raise UserError(f"{target}: {os.strerror(error.errno or 0)}; choose another -o") from error
    with out:
        yield out
