"""Where a file that is written whole, and then put in place, may be put."""

from __future__ import annotations

import os
from pathlib import Path

from tops_kit.errors import UserError


def place_of(path: str | os.PathLike[str]) -> Path:
    """The file that a new one takes the place of: behind links, so that those stay. It need not exist.

    UserError: a folder, or (a new file in its name would do away with it) a device, pipe or socket.
    """
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise UserError(f"'{os.fspath(path)}' is a folder: give the name of a file")
    if os.path.lexists(place) and not place.is_file():
        raise UserError(f"'{os.fspath(path)}' is a device or pipe: give the name of a file")
    return place
