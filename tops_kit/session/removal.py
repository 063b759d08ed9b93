"""Removing a session that shall be overwritten, without harm to one that is being written."""

from __future__ import annotations

import glob
import shutil
from pathlib import Path

from tops_kit.errors import SessionError
from tops_kit.session.in_use import occupied
from tops_kit.session.lock import CLAIM_LOCK, FolderLock, is_running
from tops_kit.session.manifest import CONTROL, MANIFEST, WRITER_LOCK


def remove_session(path: Path) -> None:
    """Remove a session, or an empty folder, and nothing else.

    SessionError when it is something else, or when it is being recorded or written: whoever holds one of its
    locks keeps it. OSError when it can't be removed.
    """
    aside = set_session_aside(path)
    if aside is not None:
        shutil.rmtree(aside)


def set_session_aside(path: Path) -> Path | None:
    """Rename a session to a hidden name beside it, which is returned, or remove an empty folder (None).

    Raises as `remove_session`. What earlier processes set aside and could not remove any more is removed.
    """
    if not path.is_dir() or path.is_symlink():
        raise SessionError(
            f"'{path}' is not a session: -f overwrites sessions only; use another name with -o"
        )
    if not any(path.iterdir()):
        path.rmdir()
        return None
    if not (path / MANIFEST).is_file() and not (path / CONTROL).is_file():
        raise SessionError(
            f"'{path}' is not a session: -f overwrites sessions only; use another name with -o"
        )
    claim, writer = FolderLock(path / CLAIM_LOCK), FolderLock(path / WRITER_LOCK)
    try:
        if not claim.acquire() or not writer.acquire():
            claim.release()
            raise occupied(path)
        writer.release()  # who wants to write it by now, still finds the claim
        _remove_forgotten(path)
        return claim.set_folder_aside()
    except FileNotFoundError:
        raise SessionError(
            f"'{path}' is being replaced by another process: use another name with -o"
        ) from None
    finally:
        writer.release()
        claim.release()


def _remove_forgotten(path: Path) -> None:
    """Remove older sessions of this name that were set aside by processes which were killed then."""
    for aside in path.parent.glob(f".{glob.escape(path.name[:200])}.*"):
        *_, number, ending = aside.name.split(".")
        if ending in ("old", "gone") and number.isdecimal() and not is_running(int(number)):
            shutil.rmtree(aside, ignore_errors=True)
