"""Keeps the last results, and puts them into the tables of docs/performance.md between their markers."""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.traces import cache_dir

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def store(name: str, rows: list[dict[str, Any]], folder: Path) -> None:
    """Keep the rows of a run as the last results of a benchmark."""
    results = folder / "results"
    results.mkdir(exist_ok=True)
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "machine": _machine(),
        "rows": rows,
    }
    (results / f"{name}.json").write_text(json.dumps(facts, indent=1))


def write(names: Iterable[str]) -> Path:
    """Replace the tables of the benchmarks that have results; the others stay as they are."""
    text = PAGE.read_text(encoding="utf-8")
    for name in names:
        results = cache_dir() / "results" / f"{name}.json"
        if results.exists():
            table = _table(name, json.loads(results.read_text()))
            pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
            text = re.sub(pattern, lambda match, new=table: match[1] + new + match[2], text, flags=re.DOTALL)  # type: ignore[misc]
    PAGE.write_text(text, encoding="utf-8")
    return PAGE


def _machine() -> str:
    import os

    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    model = re.search(r"model name\s*: (.*)", info)
    return f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}"


def _table(name: str, facts: dict[str, Any]) -> str:
    lines = [
        f"`python -m benchmarks {name}`, {facts['date']}, Python {facts['python']}, {facts['machine']}",
        "",
        "| claim | ours | peer | ratio | bar | |",
        "|---|---|---|---|---|---|",
    ]
    for row in facts["rows"]:
        peer = f"{row['peer_name']} {_number(row['peer'])}" if row["peer"] is not None else row["peer_name"]
        bar = "" if row["bar"] is None else f"{'>=' if row['at_least'] else '<='} {row['bar']:g}"
        if bar and row["bar_on"] != "ratio":
            bar += f" {row['unit']}"
        verdict = {True: "holds", False: "**missed**", None: ""}[row["ok"]]
        ours = "" if row["ours"] is None else f"{_number(row['ours'])} {row['unit']}"
        lines.append(f"| {row['claim']} | {ours} | {peer} | {_number(row['ratio'])} | {bar} | {verdict} |")
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
