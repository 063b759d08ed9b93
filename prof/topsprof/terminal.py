"""What commands show to a person: colour, progress and plain tables, and none of it where no person looks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, TextIO

from topsprof.textwidth import display_width, printable, truncate, wrap

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
_UNKNOWN_COLUMNS: Final = 80
_LEAST_ROOM: Final = 12


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


def columns(stream: TextIO) -> int | None:
    """How many cells a line of the terminal has that `stream` goes to (COLUMNS says otherwise); None where it
    goes to none."""
    if not is_terminal(stream):
        return None
    try:
        wanted = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        wanted = 0
    if wanted <= 0:
        try:
            wanted = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            wanted = 0
    return wanted if wanted > 0 else _UNKNOWN_COLUMNS


def note(text: str) -> None:
    """One message of ours on stderr, marked as such so that it is told apart from the program's own."""
    _tell(text, "dim")


def warn(text: str) -> None:
    """One warning on stderr."""
    _tell(text, "magenta")  # yellow can't be read on white


def error(text: str, mark: str = "topsprof") -> None:
    """What ended a command, on stderr."""
    _tell(text, "red", mark)


def part() -> None:
    """A blank line between tables on stdout and what stderr says of them, where one terminal shows both."""
    if is_terminal(sys.stdout) and is_terminal(sys.stderr):
        sys.stdout.flush()
        print(file=sys.stderr)


def _tell(text: str, style: str, mark: str = "topsprof") -> None:
    """One line, which a terminal gets wrapped between words."""
    begin = f"{mark}: "
    width = columns(sys.stderr)
    if width is not None:
        text = hanging(text, width, len(begin))
    print(f"{styled(begin.rstrip(), style, stream=sys.stderr)} {text}", file=sys.stderr, flush=True)


def hanging(text: str, width: int, indent: int) -> str:
    """`text`, which begins in cell `indent`, with its further lines of `width` cells beginning there too."""
    return f"\n{' ' * indent}".join(wrap(text, max(width - indent, _LEAST_ROOM)))


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    indent: str = "",
    width: int | None = None,
    heads: TextIO | None = None,
) -> str:
    """Rows as columns padded to their widest cell; columns whose number is in `right` are right-aligned.

    width  cells to stay in: the last column is cut, or left out where too little of it would remain
    heads  the stream for which the first row is styled as the titles of the columns
    """
    if not rows:
        return ""
    body = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*body, strict=True)]
    if width is not None:
        room = width - len(indent) - sum(widths[:-1]) - 2 * (len(widths) - 1)
        if room < min(widths[-1], _LEAST_ROOM) and len(widths) > 1:
            body = [row[:-1] for row in body]
            del widths[-1]
        else:
            widths[-1] = min(widths[-1], room)
    lines = []
    for row in body:
        row[-1] = truncate(row[-1], widths[-1])
        cells = []
        for i, (cell, wanted) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (wanted - display_width(cell))
            cells.append(gap + cell if i in right else cell + gap)
        lines.append((indent + "  ".join(cells)).rstrip())
    if heads is not None:
        lines[0] = indent + styled(lines[0].removeprefix(indent), "bold", stream=heads)
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
        room = (columns(self._stream) or _UNKNOWN_COLUMNS) - 1
        text = f"{self.label} "
        if self.total > 0:
            share = min(max(done / self.total, 0.0), 1.0)
            width = max(10, min(30, room - len(text) - display_width(detail) - 8))
            filled = round(share * width)
            text += f"[{'#' * filled}{'.' * (width - filled)}] {share:4.0%} "
        return truncate(text + printable(detail), room)

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
