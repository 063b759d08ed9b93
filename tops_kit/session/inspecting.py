"""What `topsprof info` tells of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tops_kit.session.reader import Session
from tops_kit.session.schema import TABLES


def info(path: str | Path) -> dict[str, Any]:
    """A session in numbers, as JSON values.

    path, format, kind, status, live (being written now), command, host, created_ns, attributes, start_ns,
    end_ns, duration_ns, size_bytes, tables: {name: {rows, segments, raw_segments, size_bytes}},
    saved_launches (see launches.py), ledger: readable lines, ledger_clean. SessionError as Session.open.
    """
    session = Session.open(path)
    rows = session.tables()
    tables = {}
    for name in TABLES:
        segments = session.segments(name)
        if segments:
            tables[name] = {
                "rows": rows.get(name, 0),
                "segments": len(segments),
                "raw_segments": sum(segment.level == "raw" for segment in segments),
                "size_bytes": sum(segment.size_bytes for segment in segments),
            }
    launches = session.saved_launches()
    manifest, ledger = session.info, session.ledger
    return {
        "path": str(session.path),
        "format": ".".join(map(str, manifest["format"])),
        "kind": manifest["kind"],
        "status": manifest["status"],
        "live": session.live,
        "command": manifest["command"],
        "host": manifest.get("host"),
        "created_ns": manifest.get("created_ns"),
        "attributes": manifest["attributes"],
        "start_ns": session.start_ns,
        "end_ns": session.end_ns,
        "duration_ns": session.end_ns - session.start_ns,
        "size_bytes": sum(table["size_bytes"] for table in tables.values())
        + sum(launch["size_bytes"] for launch in launches),
        "tables": tables,
        "saved_launches": launches,
        "ledger": ledger.lines(all_kinds=True),
        "ledger_clean": ledger.clean,
    }
