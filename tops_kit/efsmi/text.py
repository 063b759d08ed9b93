"""Text for people: columns that line up, sizes and shares that can be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

MIB = 1 << 20
PIPE_WIDTH = 120  # where nothing says how wide it is


def width() -> int:
    """Columns to write for: COLUMNS, else the terminal's."""
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, 60)


def columns(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), most: int = 0) -> list[str]:
    """Rows (the first one is the heading) as lines; columns in `right` end together, the last may be cut."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(wide) if index in right else cell.ljust(wide)
            for index, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(cut("  ".join(cells).rstrip(), most))
    lines.insert(1, "-" * min(max(map(len, lines)), most or 1 << 30))
    return lines


def cut(text: str, most: int) -> str:
    """A text of at most so many characters (0: any number), with a mark where it was cut."""
    return text if not most or len(text) <= most else text[: most - 3] + "..."


def mib(size_bytes: int) -> str:
    """Whole MiB, rounded up: what is in use never reads as 0."""
    return str(-(-size_bytes // MIB))


def size(size_bytes: int) -> str:
    """Bytes in the unit that suits them."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"


def per_second(bytes_per_s: float) -> str:
    """A rate in the unit that suits it."""
    for unit, factor in (("GB/s", 1e9), ("MB/s", 1e6)):
        if bytes_per_s >= factor:
            return f"{bytes_per_s / factor:.{0 if bytes_per_s >= 10 * factor else 1}f} {unit}"
    return f"{bytes_per_s / 1e3:.1f} kB/s"


def share(value: float) -> str:
    """Percent without digits; what is not nothing is not 0."""
    whole = round(100 * value)
    return "<1%" if value > 0 and whole == 0 else f"{whole}%"


def bold(text: str) -> str:
    """Bold on a terminal, as it is elsewhere (and under NO_COLOR)."""
    import sys

    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else f"\x1b[1m{text}\x1b[0m"
