"""Draw the terminal pictures of the docs: run a command, render what it prints as SVG.

    python docs/make_pictures.py

Writes docs/pictures/*.svg. Every picture is real output of this checkout.
"""

from __future__ import annotations

import html
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
CHAR_WIDTH, LINE_HEIGHT, MARGIN = 8.43, 19, 18
MAX_COLUMNS = 150
BACKGROUND, TEXT, PROMPT = "#0d1117", "#e6edf3", "#7ee787"
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def render(title: str, text: str) -> str:
    """An SVG of `text` in a terminal window of fixed-width characters."""
    lines = [f"$ {title}", *text.rstrip("\n").split("\n")]
    lines = [line if len(line) <= MAX_COLUMNS else line[: MAX_COLUMNS - 1] + "…" for line in lines]
    columns = max(len(line) for line in lines)
    width, height = columns * CHAR_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN + 16
    left, top = MARGIN, MARGIN + 24
    rows = "".join(
        f'<text x="{left}" y="{top + index * LINE_HEIGHT}" fill="{PROMPT if index == 0 else TEXT}">'
        # A viewer may fold plain spaces, and the columns with them.
        f"{html.escape(line).replace(' ', NO_BREAK_SPACE)}</text>"
        for index, line in enumerate(lines)
    )
    dots = "".join(
        f'<circle cx="{left + 16 * n}" cy="14" r="5" fill="{colour}"/>' for n, colour in enumerate(BUTTONS)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{html.escape(title, quote=True)}">'
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>{dots}'
        f'<g font-family="{FONT}" font-size="14">{rows}</g></svg>\n'
    )


def main() -> int:
    pictures = DOCS / "pictures"
    pictures.mkdir(exist_ok=True)
    program = [sys.executable, str(ROOT / "sample_apps" / "first_profile.py")]
    with tempfile.TemporaryDirectory() as folder:
        outcome = subprocess.run(
            [sys.executable, "-m", "topsprof", "run", "--stats", "-o", f"{folder}/first", "--", *program],
            capture_output=True,
            text=True,
            check=True,
        )
    command = "topsprof run --stats -- python sample_apps/first_profile.py"
    (pictures / "first_profile.svg").write_text(render(command, outcome.stdout), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
