"""Numbers of the chunks of a recording: one sequence for all who write some."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ChunkNumbers:
    """Gives numbers from 1 on. A chunk is there before the next one gets its number, so that whoever reads
    one has all before it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    @contextmanager
    def next(self) -> Iterator[int]:
        """The number for one chunk, to be written within."""
        with self._lock:
            self._last += 1
            yield self._last
