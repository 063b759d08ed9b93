"""Reading an SQLite export of nsys: rows of its tables as columns, its strings and its enumerations.

Any table or column may be missing. Rows are fetched and turned into columns some ten thousand at a time.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from topsprof.importers import nsys_schema as nsys
from topsprof.importers.base import Source, Tally
from topsprof.importers.nsys_schema import Enumeration

Int64s = npt.NDArray[np.int64]

MAGIC: Final = b"SQLite format 3\0"
FETCH_ROWS: Final = 1 << 16


@contextmanager
def plain_file(source: Source) -> Iterator[Path]:
    """The database as a file that SQLite can open: the file itself, or its decompressed copy."""
    with source.path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            yield source.path
            return
    with tempfile.TemporaryDirectory(prefix="topsprof-") as folder:
        copy = Path(folder) / "trace.sqlite"
        with source.open() as stream, copy.open("wb") as out:
            while piece := stream.read(1 << 20):
                out.write(piece)
        yield copy


def connect(path: Path) -> sqlite3.Connection:
    """Open a database to read it only. sqlite3.Error when it is none."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


_TYPES: Final[dict[str, set[type]]] = {
    "number": {int, type(None)},
    "real": {int, float, type(None)},
    "text": {str, type(None)},
}


def _converted(wanted: str, value: Any) -> Any:
    """A value as `wanted`; None when it has no such meaning."""
    if wanted == "text":
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    try:
        number = float(value) if wanted == "real" else int(value)
    except (ValueError, OverflowError):  # OverflowError: infinite
        return None
    return number if wanted == "real" or -(1 << 63) <= number < 1 << 63 else None


class Database:
    """The tables of an export. What is wrong with their values is put right and counted."""

    def __init__(self, connection: sqlite3.Connection, tally: Tally) -> None:
        self._connection = connection
        self._tally = tally
        self.tables = {row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self._string_ids, self._strings = self._string_table()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a query that has few."""
        return self._connection.execute(statement).fetchall()

    def columns(self, table: str) -> list[str]:
        """Names of a table's columns."""
        return [row[1] for row in self.rows(f"PRAGMA table_info({quoted(table)})")]

    def fetch(self, table: str, columns: list[str], where: str = "") -> Iterator[dict[str, list[Any]]]:
        """Rows of a table, by column, a stretch at a time."""
        chosen = ", ".join(map(quoted, columns))
        cursor = self._connection.execute(f"SELECT {chosen} FROM {quoted(table)} {where}")
        while rows := cursor.fetchmany(FETCH_ROWS):
            found = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
            for name, values in found.items():
                found[name] = self._sound(table, name, values)
            yield found

    def _sound(self, table: str, name: str, values: list[Any]) -> list[Any]:
        """The values of a column as its type: SQLite keeps anything in any column."""
        wanted = nsys.column_type(table, name)
        if set(map(type, values)) <= _TYPES[wanted]:
            return values
        sound = [value if type(value) in _TYPES[wanted] else _converted(wanted, value) for value in values]
        lost = sum(new is None and old is not None for new, old in zip(sound, values, strict=True))
        changed = sum(type(new) is not type(old) for new, old in zip(sound, values, strict=True)) - lost
        self._tally.repaired("value_of_another_type", changed, f"those of {name} were converted")
        self._tally.repaired("value_of_no_use", lost, f"those of {name} that are no {wanted} are left empty")
        return sound

    def _string_table(self) -> tuple[Int64s, pa.Array]:
        if "StringIds" not in self.tables:
            return np.empty(0, np.int64), pa.array([], pa.string())
        rows = self.rows("SELECT id, value FROM StringIds WHERE value IS NOT NULL ORDER BY id")
        return np.array([row[0] for row in rows], np.int64), pa.array([row[1] for row in rows], pa.string())

    def text(self, ids: list[Any]) -> pa.DictionaryArray:
        """Numbers of StringIds as names; null where there is no such string."""
        array = pa.array(ids, pa.int64())
        wanted = np.asarray(array.fill_null(-1))
        place = np.minimum(np.searchsorted(self._string_ids, wanted), max(len(self._string_ids) - 1, 0))
        found = self._string_ids[place] == wanted if len(self._string_ids) else np.zeros(len(wanted), bool)
        self._tally.repaired(
            "undefined_string",
            int((~found & (wanted >= 0)).sum()),
            "names that StringIds lacks are left empty",
        )
        return pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32), mask=~found), self._strings)

    def enum(self, codes: list[Any], enumeration: Enumeration) -> pa.DictionaryArray:
        """Codes of an enumeration as names; null for a code that neither we nor the export know."""
        names = dict(enumeration.known)
        if enumeration.table in self.tables:
            names |= {
                row[0]: row[1]
                for row in self.rows(f"SELECT id, name FROM {quoted(enumeration.table)}")
                if row[0] not in names
            }
        words = pa.array([*names.values()], pa.string())
        place = {code: i for i, code in enumerate(names)}
        array = pa.array(codes, pa.int64()).dictionary_encode()
        own = pa.array([place.get(code) for code in array.dictionary.to_pylist()], pa.int32())
        return pa.DictionaryArray.from_arrays(own.take(array.indices), words)
