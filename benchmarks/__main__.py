"""`python -m benchmarks --list | NAME[:PART]... [--json] | --write-docs`"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence

from benchmarks import docs
from benchmarks.rows import Row
from benchmarks.traces import cache_dir

NAMES = {
    "recorder": "benchmarks.recorder",
    "store": "benchmarks.store",
    "import": "benchmarks.import_",
    "stats": "benchmarks.stats",
    "startup": "benchmarks.startup",
    "engine": "benchmarks.engine",
    "device": "benchmarks.device",
    "runtime": "benchmarks.runtime",
    "state": "benchmarks.state",
    "calls": "benchmarks.python_calls",
    "python": "benchmarks.python_sampling",
    "pymem": "benchmarks.python_memory",
    "osrt": "benchmarks.osrt",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run benchmarks. 0: every bar held; 1: one did not."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the project's performance claims."
    )
    parser.add_argument("names", nargs="*", metavar="NAME[:PART]", help=f"{', '.join(NAMES)}, or all")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--json", action="store_true", help="rows as a JSON list")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the last results into docs/performance.md"
    )
    args = parser.parse_args(argv)
    if args.list:
        for name, module in NAMES.items():
            print(f"{name:<10}{importlib.import_module(module).DESCRIPTION}")
        return 0
    if args.write_docs:
        print(f"wrote {docs.write(NAMES)}")
        return 0
    wanted = list(NAMES) if "all" in args.names else args.names
    if not wanted:
        parser.error("name a benchmark (--list shows them)")
    for word in wanted:
        name, _, part = word.partition(":")
        if name not in NAMES:
            parser.error(f"there is no benchmark '{name}': choose {', '.join(NAMES)} or all")
        parts = getattr(importlib.import_module(NAMES[name]), "PARTS", {})
        if part and part not in parts:
            parser.error(f"{name} has no part '{part}': {', '.join(parts) or 'it has no parts'}")
    found = [row for name in wanted for row in _run(name, show=not args.json)]
    if args.json:
        print(json.dumps([row.as_json() for row in found], indent=2))
    return 1 if any(row.ok is False for row in found) else 0


def _run(word: str, show: bool) -> list[Row]:
    found: list[Row] = []
    name, _, part = word.partition(":")
    module = importlib.import_module(NAMES[name])
    for row in module.PARTS[part]() if part else module.rows():
        found.append(row)
        if show:
            print(line(row), flush=True)
    if part:  # the page's table is of a whole run
        return found
    docs.store(name, [row.as_json() for row in found], cache_dir())
    return found


def line(row: Row) -> str:
    """One row for people."""
    verdict = {True: "ok  ", False: "FAIL", None: "-   "}[row.ok]
    ratio = "" if row.ratio is None else f"  ratio {row.ratio:.3g}"
    sign = ">=" if row.at_least else "<="
    bar = "" if row.bar is None else f" ({sign} {row.bar:g}{'' if row.bar_on == 'ratio' else f' {row.unit}'})"
    peer = row.peer_name if row.peer is None else f"{row.peer_name} {row.peer:.4g}"
    ours = "-" if row.ours is None else f"{row.ours:.4g} {row.unit}"
    extra = "; ".join(filter(None, (row.backend and f"backend {row.backend}", row.note)))
    return f"{verdict} {row.claim}: {ours} | {peer}{ratio}{bar}{f'  [{extra}]' if extra else ''}"


if __name__ == "__main__":
    sys.exit(main())
