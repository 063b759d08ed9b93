"""What every importer stands on: the options of an import, the importer's interface, and the tally of
repairs.

An importer reads one `Source` and appends rows to a `SessionWriter`. It never loses anything silently:
whatever it repairs, drops, clips or can't represent goes through `Tally`, which counts it in the session's
ledger, or, under `--on-error strict`, raises a `TraceError` instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tops_kit.errors import TraceError
from topsprof.importers.source import HEAD_BYTES, Source

if TYPE_CHECKING:
    from tops_kit.session import Ledger, SessionWriter

__all__ = ["HEAD_BYTES", "ImportOptions", "Importer", "ProcessIds", "Source", "Tally"]

OnError = Literal["repair", "strict"]


class ProcessIds:
    """Keys for the processes of one file: the pid itself, unless another file of the same job has taken it.

    This base class serves an import of one file. `topsprof.importers.job` has one that agrees across the
    files of a job.
    """

    def __init__(self) -> None:
        self._keys: dict[int, int] = {}
        self.moved: list[tuple[int, int]] = []  # (pid, key) of the ones that collided

    def key(self, pid: int) -> int:
        """The `process_id` to write for this file's process `pid`."""
        known = self._keys.get(pid)
        if known is None:
            known = self._claim(pid)
            self._keys[pid] = known
            if known != pid:
                self.moved.append((pid, known))
        return known

    def fresh(self, wanted: int = 0) -> int:
        """A key for something that the trace gives no pid, e.g. one process of a file without pids."""
        key = self._claim(wanted)
        while key in self._keys.values():
            key = self._claim(key + 1)
        return key

    def _claim(self, pid: int) -> int:
        return pid


@dataclass(frozen=True)
class ImportOptions:
    """How to import. `steps` is a closed interval of step numbers; `drop` are categories to leave out while
    streaming.
    """

    on_error: OnError = "repair"
    drop: frozenset[str] = frozenset()
    steps: tuple[int, int] | None = None
    rank: int | None = None  # rank to use where the file states none (from its name)
    memory_bytes: int = 1 << 30  # what this import may hold at a time
    shift_ns: int = 0  # added to the file's times: its origin minus the session's
    process_ids: ProcessIds = field(default_factory=ProcessIds)
    categories: set[str] = field(default_factory=set)  # out: those that the files have, when some are to drop

    def never_dropped(self) -> str | None:
        """One line about categories to drop that no file has; None when there are none such."""
        parts = {part.strip() for text in self.categories for part in text.split(",")}
        never = sorted(self.drop - self.categories - parts)
        if not never:
            return None
        have = ", ".join(sorted(self.categories)) or "no categories"
        return f"--drop: nothing in the trace is of category {', '.join(never)}; it has {have}"

    def process_id(self, pid: int) -> int:
        """The session's `process_id` of the trace's `pid`. Every importer maps its pids through this."""
        return self.process_ids.key(pid)


class Importer(Protocol):
    """One trace format. Instances hold no state between two runs."""

    name: str
    """short name, e.g. chrome; also what --type takes"""
    suffixes: tuple[str, ...]
    """file names that usually hold it, without .gz or .zst, e.g. (".json",)"""

    def detects(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format, from its first HEAD_BYTES decompressed bytes (BOM removed)."""
        ...

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        """Append the whole file to the writer. TraceError when nothing of it can be read."""
        ...


class Tally:
    """Counts repairs under the ledger's stream `import:<importer>`; raises instead when the user asked for
    strictness.

    Codes are short words joined by underscores (`end_without_begin`); notes are for people.
    """

    def __init__(self, ledger: Ledger, importer: str, source: Source, options: ImportOptions) -> None:
        self._ledger = ledger
        self._stream = f"import:{importer}"
        self._path = source.path
        self.strict = options.on_error == "strict"

    def read(self, n: int) -> None:
        """`n` records were found in the file."""
        self._ledger.count(self._stream, "requested", n)

    def written(self, n: int) -> None:
        """`n` rows were written."""
        self._ledger.count(self._stream, "written", n)

    def repaired(self, code: str, n: int = 1, note: str = "") -> None:
        """`n` records were wrong and have been put right."""
        self._count("repaired", code, n, note)

    def dropped(self, code: str, n: int = 1, note: str = "") -> None:
        """`n` records could not be kept."""
        self._count("dropped", code, n, note)

    def clipped(self, code: str, n: int = 1, note: str = "") -> None:
        """`n` records overlap their neighbours and need another lane, or were cut to fit."""
        self._count("clipped", code, n, note)

    def asked(self, code: str, n: int = 1, note: str = "") -> None:
        """`n` records were left out because the user asked for it (--drop, --steps): never an error."""
        self._ledger.count(self._stream, f"dropped:{code}", n, note)

    def moved(self, code: str, n: int = 1, note: str = "") -> None:
        """`n` records were given another place (process number, track); nothing was wrong with them."""
        self._ledger.count(self._stream, f"moved:{code}", n, note)

    def unsupported(self, code: str, n: int = 1, note: str = "") -> None:
        """`n` records are of a kind that no table holds."""
        self._ledger.count(self._stream, f"unsupported:{code}", n, note)

    def _count(self, what: str, code: str, n: int, note: str) -> None:
        if not n:
            return
        if self.strict:
            raise TraceError(
                f"{self._path}: {code.replace('_', ' ')} ({n}x{', ' + note if note else ''}); "
                "import with --on-error repair to keep the rest"
            )
        self._ledger.count(self._stream, f"{what}:{code}", n, note)


def numbers(ranges: str) -> frozenset[int]:
    """`0-3,8` -> {0, 1, 2, 3, 8}. ValueError when it is nothing like that, or more than a million numbers."""
    found: set[int] = set()
    for part in ranges.split(","):
        low, dash, high = part.partition("-")
        first, last = int(low), int(high if dash else low)
        if not 0 <= last - first < 1_000_000:
            raise ValueError(part)
        found.update(range(first, last + 1))
    return frozenset(found)


def names(text: str | Iterable[str]) -> frozenset[str]:
    """A comma list, or several of them, as a set of names."""
    parts = [text] if isinstance(text, str) else list(text)
    return frozenset(name.strip() for part in parts for name in part.split(",") if name.strip())
