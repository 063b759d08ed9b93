"""`topsprof info`: what a session holds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from tops_kit.errors import UserError
from topsprof import terminal
from topsprof.division import division, is_division
from topsprof.parser import EXIT_USAGE
from topsprof.sheet import readable_time
from topsprof.terminal import styled
from topsprof.textwidth import printable

if TYPE_CHECKING:
    from tops_kit.session import Session

# what the reader of a session says of its files
_DAMAGED = ("damaged_segment", "damaged_index", "damaged_launch")
_SHOWN_PROCESSES = 20
_SHOWN_LAUNCHES = 20
_SHOWN_CHARACTERS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof info`."""
    parser.add_argument("session", metavar="SESSION", help="a session, or a trace file of another tool")
    parser.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    parser.add_argument(
        "--verify",
        action="store_true",
        help=f"read every file and compare it with its checksum first; exit with {EXIT_USAGE} if one differs",
    )


def run(args: argparse.Namespace) -> int:
    """Describe a session."""
    from topsprof.opening import open_session

    session = open_session(args.session)
    checked = session.verify() if args.verify else None
    facts = describe(session)
    damaged = 0
    if checked is not None:
        damaged = sum(entry.code in _DAMAGED for entry in session.ledger.entries)
        facts["verified"] = {"files": checked[0], "without_checksum": checked[1], "damaged": damaged}
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(facts, ensure_ascii=False, indent=2) if args.json else text(facts, sys.stdout))
    if damaged:
        what = "a file is" if damaged == 1 else f"{damaged} files are"
        raise UserError(
            f"'{session.path}': {what} damaged; the ledger above names what is left out or made anew"
        )
    return 0


def describe(session: Session) -> dict[str, Any]:
    """What a session is and holds, as JSON values. Times in ns, sizes in bytes."""
    from tops_kit.session import info

    facts = info(session.path)
    ledger = session.ledger
    processes = _records(session, "process", facts["tables"])
    return facts | {
        "recorders": sorted({str(process["recorder"]) for process in processes if process.get("recorder")}),
        "processes": processes,
        "devices": _records(session, "device", facts["tables"]),
        "ledger": {
            "clean": ledger.clean,
            "lines": ledger.lines(),
            "asked_for": ledger.asked_for,
            "entries": ledger.to_json(),
        },
    }


def _records(session: Session, table: str, tables: dict[str, Any]) -> list[dict[str, Any]]:
    if table not in tables:
        return []
    return [
        {key: value for key, value in row.items() if value is not None}
        for row in session.table(table).to_pylist()
    ]


def text(facts: dict[str, Any], out: TextIO) -> str:
    """The same for people, to be written to `out`."""
    room = terminal.columns(out)
    lines = [styled(printable(str(facts["path"])), "bold", stream=out)]
    created = facts["created_ns"]
    when = (
        ""
        if created is None
        else datetime.fromtimestamp(created / 1e9, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    )
    status = "being written" if facts["live"] else facts["status"]
    rows: list[tuple[str, str]] = [
        ("kind", f"{facts['kind']}, {status}, format {facts['format']}"),
        ("made", " on ".join(filter(None, (when, facts["host"])))),
        ("command", shlex.join(map(str, facts["command"]))),
        ("time", f"{_length(facts['duration_ns'])} from {facts['start_ns']} to {facts['end_ns']} ns"),
        ("size", terminal.size_text(facts["size_bytes"])),
        ("recorder", ", ".join(facts["recorders"])),
    ]
    rows += [
        ("wall time" if key == "time" else key, _attribute(key, value))
        for key, value in facts["attributes"].items()
    ]
    shown = [(name, value) for name, value in rows if value]
    width = max(len(name) for name, _ in shown) + 2
    for name, value in shown:
        words = printable(value)
        if room is not None:
            words = terminal.hanging(words, room, width + 2)
        lines.append(f"  {name + ':':<{width}}{words}")
    lines += _processes(facts["processes"], out) + _devices(facts["devices"], out)
    if facts["tables"]:
        body = [
            (name, f"{table['rows']:,}", terminal.size_text(table["size_bytes"]))
            for name, table in facts["tables"].items()
        ]
        lines += ["", _head("tables", out), _table(("name", "rows", "size"), body, out, right=(1, 2))]
    else:
        lines += ["", "no tables: the session is empty"]
    lines += _launches(facts["saved_launches"], out)
    if "verified" in facts:
        verified = facts["verified"]
        lines += ["", f"verified: {verified['files']} files against their checksums"]
        if verified["without_checksum"]:
            lines[-1] += f", {verified['without_checksum']} have none (an early version wrote them)"
    if facts["ledger"]["clean"]:
        lines += ["", "ledger: clean", *(f"  {line}" for line in facts["ledger"]["asked_for"])]
    else:
        said = facts["ledger"]["lines"]
        if room is not None:
            said = [terminal.hanging(line, room, 4) for line in said]
        lines += ["", _head("ledger", out), *(f"  {line}" for line in said)]
    return "\n".join(lines)


def _head(title: str, out: TextIO) -> str:
    return styled(title, "bold", stream=out)


def _table(titles: Sequence[str], body: Sequence[Sequence[str]], out: TextIO, right: Sequence[int]) -> str:
    """A table without the columns that are empty, nor wider than the terminal."""
    kept = [index for index in range(len(titles)) if any(row[index] for row in body)]
    rows = [[row[index] for index in kept] for row in (titles, *body)]
    numbers = [kept.index(index) for index in right if index in kept]
    return terminal.table(rows, right=numbers, indent="  ", width=terminal.columns(out), heads=out)


def _length(ns: int) -> str:
    return f"{ns / 1e9:.6f} s" if ns >= 1_000_000 else readable_time(ns).rstrip()


def _modelled(device: dict[str, Any]) -> str:
    """On what a device's times are modelled."""
    specification = device.get("specification")
    heading = specification.get("heading") if isinstance(specification, dict) else None
    figures = f"figures {device.get('specification_hash')}, cost model {device.get('cost_model')}"
    share = f", slice {device['slice']}" if device.get("slice") else ""
    return (
        f"{device.get('name')} {device.get('device_id')}: {heading or device.get('part')} ({figures}{share})"
    )


def _attribute(key: str, value: Any) -> str:
    """What a writer added, in a line. A recording's clock has an anchor for each second."""
    if value in ({}, [], None):
        return ""
    if key == "clock" and isinstance(value, dict) and isinstance(value.get("anchors"), list):
        columns = ", ".join(map(str, value.get("columns", ())))
        return f"{len(value['anchors'])} anchors of {columns} (--json lists them)"
    if key == "time" and is_division(value):
        return division(value, _length)
    if key == "devices" and isinstance(value, list) and all(isinstance(device, dict) for device in value):
        return "; ".join(dict.fromkeys(map(_modelled, value)))
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        words = ", ".join(value)
    else:
        words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(words) <= _SHOWN_CHARACTERS:
        return words
    return f"{words[:_SHOWN_CHARACTERS]}... (--json has the rest)"


def _processes(processes: list[dict[str, Any]], out: TextIO) -> list[str]:
    if not processes:
        return []
    body = [
        (
            str(process.get("process_id", "")),
            str(process.get("name", "")),
            str(process.get("rank", "")),
            _ending(process),
            str(process.get("runtime", "")),
            str(process.get("recorder", "")),
        )
        for process in processes[:_SHOWN_PROCESSES]
    ]
    lines = [
        "",
        _head("processes", out),
        _table(("id", "name", "rank", "ended", "runtime", "recorder"), body, out, right=(0, 2)),
    ]
    more = len(processes) - _SHOWN_PROCESSES
    return [*lines, f"  and {more} more (--json lists all)"] if more > 0 else lines


def _ending(process: dict[str, Any]) -> str:
    status = process.get("exit_status")
    if status is None:
        return str(process.get("ended_by", ""))
    return f"signal {-status}" if status < 0 else f"exit {status}"


def _launches(launches: list[dict[str, Any]], out: TextIO) -> list[str]:
    """Launches that were saved: what they were given, and how they ended."""
    if not launches:
        return []
    body = [
        (
            str(launch["name"]),
            f"{_extents(launch['grid'])} x {_extents(launch['block'])}",
            ", ".join(_argument(argument) for argument in launch["arguments"]),
            terminal.size_text(launch["size_bytes"]),
            _end_of(launch),
        )
        for launch in launches[:_SHOWN_LAUNCHES]
    ]
    lines = [
        "",
        _head("saved launches (topscc run SESSION:NAME)", out),
        _table(("name", "threads", "arguments", "size", "took"), body, out, right=(3, 4)),
    ]
    more = len(launches) - _SHOWN_LAUNCHES
    return [*lines, f"  and {more} more (--json lists all)"] if more > 0 else lines


def _extents(extents: Any) -> str:
    counts = [str(extent) for extent in extents] if isinstance(extents, list) else ["?"]
    while len(counts) > 1 and counts[-1] == "1":
        counts.pop()
    return counts[0] if len(counts) == 1 else f"({', '.join(counts)})"


def _argument(argument: dict[str, Any]) -> str:
    shape, value = argument.get("shape"), argument.get("value")
    if isinstance(shape, list):
        return printable(f"{argument.get('name')}: {argument.get('dtype')}{shape}")
    if isinstance(value, str):  # a float, exact
        try:
            value = f"{float.fromhex(value):g}"
        except (ValueError, OverflowError):
            value = "?"
    return printable(f"{argument.get('name')}={value}")


def _end_of(launch: dict[str, Any]) -> str:
    if not launch["ended"]:
        return "never ended"
    if launch["fault"]:
        return "failed"
    cycles = launch["cycles"]
    return f"{cycles:,} cycles" if isinstance(cycles, int) else ""


def _devices(devices: list[dict[str, Any]], out: TextIO) -> list[str]:
    if not devices:
        return []
    body = [
        (
            str(device.get("device_id", "")),
            str(device.get("name", "")),
            str(device.get("kind", "")),
            str(device.get("process_id", "")),
        )
        for device in devices
    ]
    return [
        "",
        _head("devices", out),
        _table(("id", "name", "kind", "process"), body, out, right=(0, 3)),
    ]
