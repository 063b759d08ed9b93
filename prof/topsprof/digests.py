"""Digests of the content of files, each read once: as long as size, times and place of a file stay the same,
its digest is looked up.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError

_SETTLED_NS: Final = 2_000_000_000
"""A file changed this recently might change again without another time stamp: its digest is not kept."""
_KEPT: Final = 4096
_READ_BYTES: Final = 1 << 20


class Digests:
    """Digests that are remembered in a folder, a small file for each path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, path: Path) -> str:
        """The digest of a file's content. UserError when it can't be read."""
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                place = self._place(path)
                stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
                known = self._known(place, stamp)
                if known is not None:
                    return known
                digest = hashlib.sha256()  # the quickest where the processor helps
                while piece := file.read(_READ_BYTES):
                    digest.update(piece)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}; give a file that can be read") from error
        found = digest.hexdigest()
        if max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _SETTLED_NS:
            self._keep(place, stamp, found)
        return found

    def _place(self, path: Path) -> Path:
        return self._folder / hashlib.blake2b(os.fsencode(path.resolve()), digest_size=16).hexdigest()

    @staticmethod
    def _known(place: Path, stamp: list[int]) -> str | None:
        try:
            entry = json.loads(place.read_text())
        except (OSError, ValueError):
            return None  # none, or one that was cut short
        if isinstance(entry, dict) and entry.get("stamp") == stamp and isinstance(entry.get("digest"), str):
            return str(entry["digest"])
        return None

    def _keep(self, place: Path, stamp: list[int], digest: str) -> None:
        """Best effort: without it the file is read again the next time."""
        temporary = place.with_name(f"{place.name}.{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            others = list(self._folder.iterdir())
            if len(others) >= _KEPT:
                for other in others:
                    other.unlink(missing_ok=True)
            temporary.write_text(json.dumps({"stamp": stamp, "digest": digest}))
            temporary.replace(place)
        except OSError:
            temporary.unlink(missing_ok=True)
