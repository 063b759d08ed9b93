"""Source text for reports. A file counts only as it was before the session: what came later may say something
else in the same line."""

from __future__ import annotations

import stat
from pathlib import Path

_MOST_BYTES = 4 << 20


class Sources:
    """Lines of files, each read once. `created_ns`: when the session was made, ns since 1970."""

    def __init__(self, created_ns: int) -> None:
        self._created_ns = created_ns
        self._files: dict[str, list[str]] = {}

    def line(self, file: object, number: object) -> str | None:
        """The text of a line (from 1) without its margin; None where it can't be had."""
        if not isinstance(file, str) or not isinstance(number, int) or number < 1:
            return None
        lines = self._files.get(file)
        if lines is None:
            lines = self._files[file] = self._read(file)
        return lines[number - 1].strip() if number <= len(lines) else None

    def _read(self, file: str) -> list[str]:
        path = Path(file)
        if not path.is_absolute():  # relative to a folder that is not ours
            return []
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
                return []
            if found.st_mtime_ns > self._created_ns:
                return []
            return path.read_text("utf-8", "replace").splitlines()
        except (OSError, ValueError):
            return []
