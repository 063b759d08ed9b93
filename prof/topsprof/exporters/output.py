"""Where an export goes: a stream that compresses when the file's name asks for it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast


@contextmanager
def stream(path: Path, compress: bool) -> Iterator[BinaryIO]:
    """A binary stream to a file; gzip (fast, and the same bytes for the same export) when asked for."""
    with path.open("wb") as file:
        if not compress:
            yield file
            return
        with gzip.GzipFile("", "wb", 1, file, 0) as packed:
            yield cast("BinaryIO", packed)
