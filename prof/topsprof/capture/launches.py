"""Saving launches: what a recording asks recorded programs to save, and what came of it."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path

from tops_kit import launch_files
from tops_kit.errors import UserError
from tops_kit.session.files import write_json
from topsprof.capture.options import RecordOptions

_LISTED = 4


def ask(folder: Path, options: RecordOptions) -> None:
    """Write what is to be saved where recorded programs look for it. UserError: it can't be written."""
    asked = {
        "version": 1,
        "kernels": options.save_launch,
        "count": options.save_launch_count,
        "limit_bytes": options.save_launch_limit,
    }
    try:
        (folder / launch_files.FOLDER).mkdir()
        write_json(folder / launch_files.FOLDER / launch_files.REQUEST, asked)
    except OSError as error:
        raise UserError(f"cannot save launches in {folder}: {error.strerror or error}") from None


def conclude(folder: Path) -> list[tuple[str, str]]:
    """Remove what only the recording needed; kernels whose launches were not saved, and why."""
    place = folder / launch_files.FOLDER
    refused: list[tuple[str, str]] = []
    with contextlib.suppress(OSError):  # nothing was refused
        for line in (place / launch_files.REFUSED).read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that a kill cut short
                entry = json.loads(line)
                refused.append((str(entry["kernel"]), str(entry["why"])))
    for name in (launch_files.REFUSED, launch_files.REQUEST):
        with contextlib.suppress(OSError):
            (place / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        place.rmdir()  # where nothing was saved
    return refused


def told(folder: Path) -> str:
    """One line about what was saved."""
    files = launch_files.in_session(folder)
    if not files:
        return "no launch was saved: no kernel's name has what --save-launch looks for, or see above"
    names = [file.name.removesuffix(launch_files.SUFFIX) for file in files]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    place = shlex.quote(f"{folder}:{names[0]}")
    return f"saved launches: {', '.join(names[:_LISTED])}{more}: topscc run {place}"
