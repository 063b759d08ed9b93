"""What commands show to a person: colour, progress and plain tables, and none of it where no person looks."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, TextIO

STYLES: Final[dict[str, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
"""Name of a style -> its SGR code."""

_PROGRESS_INTERVAL_S: Final = 0.1


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees what is written to `stream`."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def uses_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour what goes to `stream`: on a terminal that is not dumb, unless NO_COLOR is set."""
    return is_terminal(stream) and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def styled(text: str, *styles: str, stream: TextIO) -> str:
    """`text` in the named STYLES where `stream` takes colour, else as it is."""
    if not styles or not uses_colour(stream):
        return text
    return f"\x1b[{';'.join(STYLES[name] for name in styles)}m{text}\x1b[0m"


def note(text: str) -> None:
    """One message of ours on stderr, marked as such so that it is told apart from the program's own."""
    print(f"{styled('topsprof:', 'dim', stream=sys.stderr)} {text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """One warning on stderr."""
    print(f"{styled('topsprof:', 'yellow', stream=sys.stderr)} {text}", file=sys.stderr, flush=True)


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: str = "") -> str:
    """Rows as columns padded to their widest cell; columns whose number is in `right` are right-aligned."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def size_text(size_bytes: float) -> str:
    """A number of bytes for a person: `512 B`, `3.4 MB` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


class Progress:
    """A progress bar on stderr, drawn only on a terminal and at most ten times a second.

    Use as a context manager; leaving it wipes the line, so what follows stands where the bar was.
    """

    def __init__(self, label: str, total: float = 0, *, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self._stream = sys.stderr if stream is None else stream
        self._shown = is_terminal(self._stream) and os.environ.get("TERM") != "dumb"
        self._next = 0.0
        self._drawn = False

    def update(self, done: float, total: float | None = None, detail: str = "") -> None:
        """Say that `done` of `total` is done (any unit); `detail` stands after the bar."""
        if not self._shown:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PROGRESS_INTERVAL_S
        if total is not None:
            self.total = total
        self._stream.write("\r" + self._line(done, detail) + "\x1b[K")
        self._stream.flush()
        self._drawn = True

    def _line(self, done: float, detail: str) -> str:
        columns = shutil.get_terminal_size().columns - 1
        text = f"{self.label} "
        if self.total > 0:
            share = min(max(done / self.total, 0.0), 1.0)
            width = max(10, min(30, columns - len(text) - len(detail) - 8))
            filled = round(share * width)
            text += f"[{'#' * filled}{'.' * (width - filled)}] {share:4.0%} "
        return (text + detail)[:columns]

    def close(self) -> None:
        """Wipe the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
