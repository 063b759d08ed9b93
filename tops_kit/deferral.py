"""Sections in which no handler of Python's signals runs, so that none raises between two steps of a change.

A call of the runtime is a section, and so is whatever holds the timeline's lock, or is in a cut. Handlers run
when the outermost one ends, and in `outside`: where a call waits, and in functions of the user's. Frames of a
section don't count against the recursion limit. Without the extension handlers run as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from tops_kit import extension

R = TypeVar("R")

_INTERFACE = 1  # of _deferral.c


class SectionLock(Protocol):
    """A recursive lock; who holds it is in a section."""

    def acquire(self, blocking: bool = True, /) -> bool:
        """Take it; whether it was taken."""

    def release(self) -> None:
        """One holding less."""

    def __enter__(self) -> bool:
        """Take it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Give it back."""


def _nothing() -> None:
    pass


def _outside(function: Callable[..., R], /, *args: Any) -> R:
    return function(*args)


_module, _why_not = extension.load("tops_kit._deferral", _INTERFACE)

# enter(): a section begins. leave(): it ends; with the outermost, handlers that waited run.
enter: Callable[[], None] = _nothing if _module is None else _module.enter
leave: Callable[[], None] = _nothing if _module is None else _module.leave
# outside(function, *args): what it gives; meanwhile handlers run as they do outside of a section
outside: Callable[..., Any] = _outside if _module is None else _module.outside


def lock() -> SectionLock:
    """A new lock."""
    inner = threading.RLock()
    if _module is None:
        return inner
    made: SectionLock = _module.Lock(inner)
    return made
