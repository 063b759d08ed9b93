"""Hidden folders beside what they become: what fails leaves nothing, or what the next import removes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError
from tops_kit.session.lock import is_running, locked
from tops_kit.session.manifest import WRITER_LOCK
from tops_kit.session.removal import remove_session

_WORKING: Final = ".importing-"


@contextmanager
def beside(target: Path, overwrite: bool) -> Iterator[Path]:
    """A folder to work in, which becomes `target` at the end; it goes away when that fails."""
    folder = working_folder(target)
    remove_leftovers(target.parent, target.name)
    try:
        yield folder
        try:
            if overwrite and target.exists():
                remove_session(target)
            folder.rename(target)
        except OSError as error:
            raise UserError(f"{target}: {error.strerror or error}; use another name with -o") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def working_folder(target: Path) -> Path:
    """Where to make what becomes `target`: beside it, hidden, under the name of this process and thread."""
    folder = target.parent / f".{target.name}{_WORKING}{os.getpid()}-{threading.get_ident()}"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier process with the same number
    return folder


def remove_leftovers(parent: Path, name: str = "*") -> None:
    """Delete what imports (of the session `name`, or all) left in a folder when they were killed."""
    for folder in parent.glob(f".{escape(name) if name != '*' else name}{_WORKING}*"):
        owner = folder.name.rpartition(_WORKING)[2].partition("-")[0]
        # the number may be that of a process on another side of a container's wall: the lock tells
        if owner.isdigit() and not is_running(int(owner)) and not locked(folder / WRITER_LOCK):
            shutil.rmtree(folder, ignore_errors=True)
