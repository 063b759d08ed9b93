"""The folder of the device state: one for each user, in memory where the system has such a place."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tops_kit.errors import UserError

VARIABLE = "TOPS_STATE_DIR"
_MEMORY = Path("/dev/shm")


class StateError(UserError):
    """The device state can't be kept, or can't be read."""


@dataclass(frozen=True)
class Place:
    """Where the state lies. `given`: by the user, so that it is an error when it can't be used."""

    folder: Path
    given: bool
    why_not: str = ""  # nothing can be written: what is in the way

    def make(self) -> None:
        """Create the folder, for its user alone. Raises StateError."""
        if self.why_not:
            raise StateError(self.why_not)
        try:
            self.folder.mkdir(mode=0o700, parents=self.given, exist_ok=True)
        except OSError as error:
            raise StateError(
                f"device state can't be kept in {self.folder}: {error.strerror}: set {VARIABLE} to a folder "
                "that can be written"
            ) from None


def find_place(environ: Mapping[str, str]) -> Place:
    """TOPS_STATE_DIR; else the user's folder in shared memory, else in the temporary one. Creates nothing."""
    given = environ.get(VARIABLE)
    if given:
        folder = Path(given).expanduser().absolute()
        if os.path.exists(folder) and not os.path.isdir(folder):  # noqa: PTH110, PTH112 - may be hidden from us
            raise StateError(f"{VARIABLE}={given} is not a folder: name one, or leave it unset")
        return Place(folder, given=True)
    name = f"topskit-{_user()}"
    troubles = []
    for parent in dict.fromkeys((_MEMORY, Path(tempfile.gettempdir()))):
        if parent is _MEMORY and not parent.is_dir():
            continue
        trouble = _trouble(parent, parent / name)
        if not trouble:
            return Place(parent / name, given=False)
        troubles.append(trouble)
    return Place(
        parent / name, given=False, why_not=f"{'; '.join(troubles)}: set {VARIABLE} to a folder of yours"
    )


def _trouble(parent: Path, folder: Path) -> str:
    """What is in the way of keeping state there; empty when nothing is."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return "" if os.access(parent, os.W_OK | os.X_OK) else f"{parent} can't be written"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if sys.platform != "win32" and found.st_uid != os.geteuid():
        return f"{folder} belongs to another user"
    return "" if os.access(folder, os.R_OK | os.X_OK) else f"{folder} can't be read"


def _user() -> str:
    if sys.platform != "win32":
        return str(os.geteuid())
    return "".join(c for c in os.environ.get("USERNAME", "user") if c.isalnum()) or "user"
