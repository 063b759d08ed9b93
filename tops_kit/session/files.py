"""Writing files so that a reader or a crash sees the old or the new state, never half of one; errors as one
line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tops_kit.errors import SessionError

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EACCES: "permission denied; choose another folder or change its permissions",
    errno.EPERM: "operation not permitted; choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOENT: "the folder is gone; was it moved or deleted?",
    errno.ENOTDIR: "a part of the path is not a folder",
}


def session_error(doing: str, path: Path, error: OSError) -> SessionError:
    """The one-line SessionError for an OSError met while `doing` something at `path`."""
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return SessionError(f"cannot {doing} {path}: {reason}")


@contextlib.contextmanager
def reported(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError (pyarrow's own I/O errors are OSErrors too) inside into a one-line SessionError."""
    try:
        yield
    except OSError as error:
        raise session_error(doing, path, error) from error


def fsync_path(path: Path) -> None:
    """Ask the system to put a file or folder on disk; folders can't be synced everywhere, which is not an
    error.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows opens no folders
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any, *, durable: bool = False, fresh: bool = False) -> None:
    """Write JSON to `path` atomically; with `durable` it is on disk before it gets its name. Raises OSError.

    With `fresh` it is written in place: its folder is not yet where anything looks for it.
    """
    if fresh:
        path.write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        if durable:
            fsync_path(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. OSError when unreadable, ValueError when it isn't a JSON object."""
    if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
        raise ValueError("not a regular file")
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def checksum(path: Path) -> int:
    """CRC-32 of a file's content, some 1 GB/s. Raises OSError."""
    value = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            value = zlib.crc32(piece, value)
    return value


def remove_folder(path: Path) -> bool:
    """Remove a folder and what is in it; False when something of it stayed (a mapping holds it open on
    Windows).
    """
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()
