"""`topsprof info`: what a session holds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from topsprof import terminal

if TYPE_CHECKING:
    from tops_kit.session import Session

_SHOWN_PROCESSES = 20
_SHOWN_CHARACTERS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof info`."""
    parser.add_argument("session", metavar="SESSION", help="a session, or a trace file of another tool")
    parser.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    parser.add_argument(
        "--verify", action="store_true", help="read every file and compare it with its checksum first"
    )


def run(args: argparse.Namespace) -> int:
    """Describe a session."""
    from topsprof.opening import open_session

    session = open_session(args.session)
    checked = session.verify() if args.verify else None
    facts = describe(session)
    if checked is not None:
        facts["verified"] = {"files": checked[0], "without_checksum": checked[1]}
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(facts, ensure_ascii=False, indent=2) if args.json else text(facts))
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
        "ledger": {"clean": ledger.clean, "lines": ledger.lines(), "entries": ledger.to_json()},
    }


def _records(session: Session, table: str, tables: dict[str, Any]) -> list[dict[str, Any]]:
    if table not in tables:
        return []
    return [
        {key: value for key, value in row.items() if value is not None}
        for row in session.table(table).to_pylist()
    ]


def text(facts: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{facts['path']}"]
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
        ("time", f"{facts['duration_ns'] / 1e9:.6f} s from {facts['start_ns']} to {facts['end_ns']} ns"),
        ("size", terminal.size_text(facts["size_bytes"])),
        ("recorder", ", ".join(facts["recorders"])),
    ]
    rows += [(key, _attribute(key, value)) for key, value in facts["attributes"].items()]
    shown = [(name, value) for name, value in rows if value]
    width = max(len(name) for name, _ in shown) + 2
    lines += [f"  {name + ':':<{width}}{value}" for name, value in shown]
    lines += _processes(facts["processes"]) + _devices(facts["devices"])
    if facts["tables"]:
        body = [
            (name, f"{table['rows']:,}", terminal.size_text(table["size_bytes"]))
            for name, table in facts["tables"].items()
        ]
        lines += ["", "tables", terminal.table([("name", "rows", "size"), *body], right=(1, 2), indent="  ")]
    else:
        lines += ["", "no tables: the session is empty"]
    if "verified" in facts:
        verified = facts["verified"]
        lines += ["", f"verified: {verified['files']} files against their checksums"]
        if verified["without_checksum"]:
            lines[-1] += f", {verified['without_checksum']} have none (raw segments)"
    if facts["ledger"]["clean"]:
        lines += ["", "ledger: clean"]
    else:
        lines += ["", "ledger", *(f"  {line}" for line in facts["ledger"]["lines"])]
    return "\n".join(lines)


def _attribute(key: str, value: Any) -> str:
    """What a writer added, in a line. A recording's clock has an anchor for each second."""
    if value in ({}, [], None):
        return ""
    if key == "clock" and isinstance(value, dict) and isinstance(value.get("anchors"), list):
        columns = ", ".join(map(str, value.get("columns", ())))
        return f"{len(value['anchors'])} anchors of {columns} (--json lists them)"
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(words) <= _SHOWN_CHARACTERS:
        return words
    return f"{words[:_SHOWN_CHARACTERS]}... (--json has the rest)"


def _processes(processes: list[dict[str, Any]]) -> list[str]:
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
        "processes",
        terminal.table(
            [("id", "name", "rank", "ended", "runtime", "recorder"), *body], right=(0, 2), indent="  "
        ),
    ]
    more = len(processes) - _SHOWN_PROCESSES
    return [*lines, f"  and {more} more (--json lists all)"] if more > 0 else lines


def _ending(process: dict[str, Any]) -> str:
    status = process.get("exit_status")
    if status is None:
        return str(process.get("ended_by", ""))
    return f"signal {-status}" if status < 0 else f"exit {status}"


def _devices(devices: list[dict[str, Any]]) -> list[str]:
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
        "devices",
        terminal.table([("id", "name", "kind", "process"), *body], right=(0, 3), indent="  "),
    ]
