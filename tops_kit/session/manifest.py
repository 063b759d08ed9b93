"""`session.json`: what the session as a whole is."""

from __future__ import annotations

import platform
import shlex
import time
from pathlib import Path
from typing import Any

from tops_kit.errors import ManifestDamagedError, SessionError
from tops_kit.session.files import read_json, session_error
from tops_kit.session.ledger import Ledger
from tops_kit.session.schema import FORMAT_VERSION

MANIFEST = "session.json"
SUFFIX = ".topsprof"
WRITER_LOCK = ".writer.lock"
CONTROL = "control"
STATUSES = ("recording", "complete", "crashed", "stopped")


def new_manifest(kind: str, command: list[str], attributes: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a session that has just begun."""
    return {
        "format": list(FORMAT_VERSION),
        "kind": kind,
        "status": "recording",
        "created_ns": time.time_ns(),
        "command": command,
        "host": platform.node(),
        "system": platform.platform(),
        "attributes": attributes,
        "ledger": [],
    }


def check_version(path: Path, version: object) -> None:
    """SessionError unless this code can read format `version`, a [major, minor] list."""
    if (
        not isinstance(version, list)
        or len(version) != 2
        or not all(isinstance(part, int) for part in version)
    ):
        raise ManifestDamagedError(f"{path} is damaged: no format version")
    if version[0] > FORMAT_VERSION[0]:
        raise SessionError(
            f"{path} has format {version[0]}.{version[1]}, this version reads up to "
            f"{FORMAT_VERSION[0]}.x; upgrade tops-kit"
        )


def read_manifest(session: Path) -> dict[str, Any]:
    """The manifest of a session folder; SessionError (one line) when it isn't one, or can't be read.

    ManifestDamagedError when only the manifest is to blame.
    """
    path = session / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError as error:
        what = "is not a session (it has no session.json)" if session.is_dir() else "does not exist"
        if any(session.glob("segments/[!.]*/meta.json")):
            raise ManifestDamagedError(f"{session} {what}; {_advice(session)}") from error
        raise SessionError(f"{session} {what}; give a {SUFFIX} folder") from error
    except NotADirectoryError as error:
        raise SessionError(f"{session} is a file, not a session folder") from error
    except OSError as error:
        raise session_error("read", path, error) from error
    except (ValueError, RecursionError) as error:
        raise ManifestDamagedError(f"{path} is damaged: it is not JSON; {_advice(session)}") from error
    try:
        check_manifest(path, manifest)
    except ManifestDamagedError as error:
        raise ManifestDamagedError(f"{error}; {_advice(session)}") from error
    return manifest


def _advice(session: Path) -> str:
    words = shlex.join(["topsprof", "recover", str(session)])
    return f"`{words}` makes a new one from the segments"


def check_manifest(path: Path, manifest: object) -> None:
    """SessionError unless what was read from `path` is a manifest that this code can read."""
    if not isinstance(manifest, dict):
        raise ManifestDamagedError(f"{path} is damaged: its manifest is not a JSON object")
    check_version(path, manifest.get("format"))
    for key, type_ in (
        ("kind", str),
        ("status", str),
        ("command", list),
        ("attributes", dict),
        ("ledger", list),
    ):
        if not isinstance(manifest.get(key), type_):
            raise ManifestDamagedError(f"{path} is damaged: `{key}` is missing or of the wrong type")
    created = manifest.get("created_ns")
    if created is not None and (type(created) is not int or abs(created) >= 1 << 63):
        raise ManifestDamagedError(f"{path} is damaged: `created_ns` is of the wrong type")
    for key in ("host", "system"):
        if manifest.get(key) is not None and not isinstance(manifest[key], str):
            raise ManifestDamagedError(f"{path} is damaged: `{key}` is of the wrong type")
    if manifest["status"] not in STATUSES:
        raise ManifestDamagedError(f"{path} is damaged: its status is none that there is")
    try:
        Ledger.from_json(manifest["ledger"])
    except ValueError as error:
        raise ManifestDamagedError(f"{path} is damaged: {error}") from error
