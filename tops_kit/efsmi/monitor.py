"""The rows of `efsmi --dmon`: one for each device and interval."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from tops_kit.efsmi import text
from tops_kit.efsmi.document import document
from tops_kit.efsmi.machine import Look, Machine

# name, unit, width
COLUMNS = (
    ("Dev", "idx", 3),
    ("Pwr", "W", 5),
    ("DTemp", "C", 5),
    ("Sip", "%", 4),
    ("DUsed", "%", 5),
    ("Dpm", "mode", 4),
    ("MUsed", "MiB", 6),
    ("Mem", "%", 4),
    ("Mclk", "MHz", 4),
    ("TxPci", "MB/s", 8),
    ("RxPci", "MB/s", 8),
)
_HEADING_EVERY = 20  # rows


def monitor(machine: Machine, count: int | None, interval_s: float, *, as_json: bool) -> Iterator[str]:
    """The text of each interval: lines, or one line of JSON. Without a count it goes on for ever."""
    rows, done = 0, 0
    due = time.monotonic()
    while count is None or done < count:
        if done:
            due += interval_s
            time.sleep(max(0.0, due - time.monotonic()))
        look = machine.look()
        if as_json:
            yield json.dumps(document(look)) + "\n"
        else:
            heading = rows == 0 or rows >= _HEADING_EVERY
            rows = len(look.devices) if heading else rows + len(look.devices)
            yield (_heading() if heading else "") + _rows(look)
        done += 1


def _heading() -> str:
    names = " ".join(name.rjust(wide) for name, _, wide in COLUMNS)
    units = " ".join(unit.rjust(wide) for _, unit, wide in COLUMNS)
    return f"# simulated; power and temperature are models\n# {names}\n# {units}\n"


def _rows(look: Look) -> str:
    lines = []
    for card, now in look.devices:
        cells = (
            str(card.index),
            f"{now.power_w:.0f}",
            f"{now.temperature_c:.0f}",
            f"{100 * now.sip_use:.0f}",
            f"{100 * now.active:.0f}",
            now.mode.name,
            text.mib(now.used_bytes),
            f"{100 * now.used_bytes / card.spec.l3_bytes:.0f}",
            "-",  # no figure of a part states it
            f"{now.up_bytes_per_s / 1e6:.1f}",
            f"{now.down_bytes_per_s / 1e6:.1f}",
        )
        lines.append(
            "  " + " ".join(cell.rjust(wide) for cell, (_, _, wide) in zip(cells, COLUMNS, strict=True))
        )
    return "".join(line + "\n" for line in lines)
