"""A new `session.json` for a session whose own is damaged or gone, from what its segments say."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tops_kit.errors import SessionError
from tops_kit.session.files import reported, write_json
from tops_kit.session.in_use import occupied
from tops_kit.session.ledger import Ledger
from tops_kit.session.lock import FolderLock
from tops_kit.session.manifest import CONTROL, MANIFEST, WRITER_LOCK, check_version, new_manifest
from tops_kit.session.segment import META, SEGMENTS, Segment, SegmentDamagedError, SegmentGoneError

KEPT = "session.json.damaged"
"""What the damaged file is called from then on: a person may still read something in it."""
_NOTE = (
    "session.json was damaged and has been made anew from the segments: the command, the attributes, "
    "the ledger and how the session ended are lost"
)


def has_segments(session: Path) -> bool:
    """Whether there is anything to make a manifest for."""
    return any((session / SEGMENTS).glob(f"[!.]*/{META}"))


def rebuild_manifest(session: Path) -> str:
    """Write a new session.json and return a line about it. Its status is "recording" where a recording is
    still to be completed, else "crashed"; what is lost is said in its ledger.

    SessionError when the session has no segment that can be read or one of a newer version, is being written,
    or can't be written.
    """
    segments = _segments(session)
    if not segments:
        raise SessionError(
            f"{session / MANIFEST} is damaged and no segment beside it can be read; "
            "get another copy of the session"
        )
    for segment in segments:
        check_version(segment.path, list(segment.version))
    crashed = (session / CONTROL).exists()
    # an import's segments say nothing of their writer, those of a recording which part of it they hold
    recorded = crashed or any(segment.user for segment in segments)
    manifest = new_manifest("recording" if recorded else "import", [], {})
    ledger = Ledger()
    ledger.count("session", "repaired:manifest", 1, _NOTE)
    manifest |= {
        "status": "recording" if crashed else "crashed",
        "created_ns": min((segment.path / META).stat().st_mtime_ns for segment in segments),
        "host": None,
        "system": None,
        "ledger": ledger.to_json(),
    }
    with reported("write the session", session):
        lock = FolderLock(session / WRITER_LOCK)
        if not lock.acquire():
            raise occupied(session)
        try:
            with contextlib.suppress(FileNotFoundError):
                (session / MANIFEST).replace(session / KEPT)
            write_json(session / MANIFEST, manifest, durable=True)
        finally:
            lock.release()
    rows = sum(segment.rows for segment in segments)
    return f"{session}: made a new session.json for its {rows} rows; `topsprof info` says what is lost"


def _segments(session: Path) -> list[Segment]:
    found = []
    for meta in sorted((session / SEGMENTS).glob(f"[!.]*/{META}")):
        with contextlib.suppress(SegmentDamagedError, SegmentGoneError):  # whoever reads it counts it
            found.append(Segment(meta.parent))
    replaced = {name for segment in found for name in segment.replaces}
    return [segment for segment in found if segment.name not in replaced]
