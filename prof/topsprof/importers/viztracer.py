"""Imports viztracer's JSON: Chrome trace events in which category fee (until 1.0: FEE) are calls of
functions, `name (file.py:12)`.

All is read by the engine of the chrome importer; on the way to the session, rows of that category turn from
TX ranges into rows of table python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from topsprof.importers.base import ImportOptions, Source
from topsprof.importers.chrome import ChromeImporter
from topsprof.importers.chrome_events import Flavour, run
from topsprof.importers.stacks import Frame

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

FLAVOUR: Final = Flavour("viztracer", {}, kineto=False)
_CALLS: Final = frozenset({"FEE", "fee"})  # 1.x writes both: the latter from C, the former for its decorators
# What viztracer says of itself stands behind the events, so a large file is told by their form. The word in
# small letters may be anybody's category: there, the keys have to follow each other as viztracer writes them.
_EVENT: Final = re.compile(rb'"cat"\s*:\s*"FEE"|"ph"\s*:\s*"X"\s*,\s*"cat"\s*:\s*"fee"\s*,\s*"dur"\s*:')
_PYTHON_COLUMNS: Final = ("start_ns", "duration_ns", "process_id", "thread_id", "args")


class ViztracerImporter:
    """Traces that viztracer saved as JSON."""

    name = "viztracer"
    suffixes = (".json",)

    def detects(self, head: bytes, path: Path) -> bool:
        return ChromeImporter().detects(head, path) and (
            b'"viztracer_metadata"' in head or _EVENT.search(head) is not None
        )

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        run(source, cast("SessionWriter", _Turning(writer)), options, FLAVOUR)


class _Turning:
    """A session writer that puts function calls where they belong; in all else the writer behind it."""

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, table: str, columns: Mapping[str, Any], rows: int | None = None) -> None:
        """See SessionWriter.append."""
        calls = (
            _calls(columns["domain"])
            if table == "tx" and isinstance(columns.get("domain"), pa.DictionaryArray)
            else None
        )
        if calls is None or not calls.any():
            self._writer.append(table, columns, rows)
            return
        others = np.flatnonzero(~calls)
        if len(others):
            self._writer.append(
                table, {name: _taken(value, others) for name, value in columns.items()}, len(others)
            )
        index = np.flatnonzero(calls)
        functions = {name: _taken(columns[name], index) for name in _PYTHON_COLUMNS if name in columns}
        self._writer.append("python", functions | _functions(_taken(columns["name"], index)), len(index))


def _calls(domain: pa.DictionaryArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    words = np.array([word in _CALLS for word in domain.dictionary.to_pylist()] + [False])
    found: np.ndarray[Any, np.dtype[np.bool_]] = words[np.asarray(domain.indices.fill_null(len(words) - 1))]
    return found


def _taken(value: Any, index: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value.take(pa.array(index))
    return value[index] if isinstance(value, np.ndarray) else value


def _functions(names: pa.DictionaryArray) -> dict[str, Any]:
    """Name, file and line of functions; distinct names are looked at once."""
    frames = [Frame.parse(word or "") for word in names.dictionary.to_pylist()]
    index = names.indices
    parts = {
        "name": pa.array([frame.name for frame in frames], pa.string()).dictionary_encode(),
        "file": pa.array([frame.file for frame in frames], pa.string()).dictionary_encode(),
    }
    return {name: part.take(index) for name, part in parts.items()} | {
        "line": pa.array([frame.line for frame in frames], pa.int64()).take(index)
    }
