"""Draw the terminal pictures of the docs: run a command in a terminal, render what it prints as SVG.

    python docs/make_pictures.py

Writes docs/pictures/*.svg. Every picture is real output of this checkout.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
CHAR_WIDTH, LINE_HEIGHT, MARGIN = 8.43, 19, 18
COLUMNS, ROWS = 120, 40
BACKGROUND, TEXT, DIM, PROMPT = "#0d1117", "#e6edf3", "#7d8590", "#7ee787"
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
STYLED = re.compile(r"\x1b\[([\d;]*)m")


def in_a_terminal(command: list[str], folder: str) -> str:
    """What a command, run in `folder`, writes to a terminal of COLUMNS, styles included."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    with subprocess.Popen(
        command, stdout=slave, stderr=slave, cwd=folder, env=environment | {"TERM": "xterm"}
    ) as process:
        os.close(slave)
        output = b"".join(chunks(master))
    os.close(master)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output.decode().replace("\r\n", "\n")


def chunks(terminal: int) -> Iterator[bytes]:
    """What arrives, until nobody has the terminal open any more."""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is closed
            return
        if not chunk:
            return
        yield chunk


def spans(line: str) -> str:
    """A line with its bold and dim parts as SVG."""
    # A viewer may fold plain spaces, and the columns with them.
    line = html.escape(line).replace(" ", NO_BREAK_SPACE)
    looks = {"1": ' font-weight="bold"', "2": f' fill="{DIM}"'}
    style, parts = "", []
    for index, part in enumerate(STYLED.split(line)):
        if index % 2:
            style = looks.get(part, "")
        elif part:
            parts.append(f"<tspan{style}>{part}</tspan>" if style else part)
    return "".join(parts)


def render(title: str, text: str) -> str:
    """An SVG of `text` in a terminal window of fixed-width characters."""
    lines = [f"$ {title}", *text.rstrip("\n").split("\n")]
    columns = max(len(STYLED.sub("", line)) for line in lines)
    width, height = columns * CHAR_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN + 16
    left, top = MARGIN, MARGIN + 24
    rows = "".join(
        f'<text x="{left}" y="{top + index * LINE_HEIGHT}" fill="{PROMPT if index == 0 else TEXT}">'
        f"{spans(line)}</text>"
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
    program = [sys.executable, str(ROOT / "sample_apps" / "transformer_block.py")]
    topsprof = [sys.executable, "-m", "topsprof"]
    tables = ["-r", "tx_sum,gcu_kern_sum,kern_line", "--rows", "8"]
    with tempfile.TemporaryDirectory() as folder:
        in_a_terminal([*topsprof, "run", "--metrics", "per-line", "-o", "first", "--", *program], folder)
        output = in_a_terminal([*topsprof, "stats", "first.topsprof", *tables], folder)
    command = " ".join(["topsprof", "stats", "first.topsprof", *tables])
    (pictures / "first_profile.svg").write_text(render(command, output), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
