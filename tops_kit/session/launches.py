"""Saved launches of a session: files beside its segments (tops_kit.launch_files), listed and verified."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from tops_kit import launch_files
from tops_kit.errors import SessionError
from tops_kit.launch_files import LaunchFileError
from tops_kit.session.ledger import Ledger

_MEMBER = re.compile(
    rf"{launch_files.FOLDER}/({launch_files.NAME.pattern}){re.escape(launch_files.SUFFIX)}", re.ASCII
)


def saved_launches(session: Path, ledger: Ledger) -> list[dict[str, Any]]:
    """What is known of each, as JSON values: name, kernel, part, grid, block, size_bytes, arguments (name,
    dtype, shape or value), correlation_id, pid, cycles, fault. What can't be read is counted in the ledger.
    """
    out = []
    for path in launch_files.in_session(session):
        try:
            file = launch_files.read(path)
        except LaunchFileError as error:
            _count(ledger, path, error)
            continue
        header, outcome = file.header, file.outcome or {}
        about = {key: header.get(key) for key in _KEYS}
        about |= {"cycles": outcome.get("cycles"), "fault": outcome.get("fault")}
        arguments = header.get("arguments")
        out.append(
            {
                "name": file.name,
                "size_bytes": file.size_bytes,
                **about,
                "ended": file.outcome is not None,
                "arguments": [
                    {key: one.get(key) for key in ("name", "dtype", "shape", "value") if key in one}
                    for one in (arguments if isinstance(arguments, list) else [])
                    if isinstance(one, dict)
                ],
            }
        )
    return out


_KEYS = ("kernel", "part", "grid", "block", "correlation_id", "pid")


def verify_launches(session: Path, ledger: Ledger) -> int:
    """Compare all files with their checksums: how many pieces were compared. Damage goes into the ledger."""
    compared = 0
    for path in launch_files.in_session(session):
        try:
            file = launch_files.read(path)
            file.verify()
            compared += 1
        except LaunchFileError as error:
            _count(ledger, path, error)
    return compared


def _count(ledger: Ledger, path: Path, error: LaunchFileError) -> None:
    stream = f"session:{launch_files.FOLDER}/{path.name}"
    if not ledger.total("dropped", stream):  # each once
        ledger.count(stream, "dropped:damaged_launch", 1, str(error))


def pack_launches(session: Path, file: zipfile.ZipFile) -> None:
    """Put the files into a packed session, as they are."""
    for path in launch_files.in_session(session):
        file.write(path, f"{launch_files.FOLDER}/{path.name}", zipfile.ZIP_STORED)


def is_member(name: str) -> bool:
    """Whether a member of a packed session is a saved launch."""
    return _MEMBER.fullmatch(name) is not None


def unpack_launch(archive: zipfile.ZipFile, name: str, session: Path) -> None:
    """Write a member that `is_member` into a session's folder. SessionError: it is damaged."""
    place = session / launch_files.FOLDER / name.rpartition("/")[2]
    place.parent.mkdir(exist_ok=True)
    try:
        with archive.open(name) as source, place.open("xb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        launch_files.read(place)
    except (zipfile.BadZipFile, EOFError, RuntimeError, LaunchFileError) as error:
        raise SessionError(
            f"{archive.filename} is damaged: {name} can't be read; get another copy of it"
        ) from error
