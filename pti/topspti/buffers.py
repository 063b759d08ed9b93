"""Buffers of a client: asked for when there is none, filled record by record, handed over when full."""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tops_kit.runtime.hooks import of_signal
from topspti.layouts import Layout, bytes_of

Request = Callable[[], Any]
Complete = Callable[[Any, int, int], object]
Values = tuple[Any, ...]
Around = Callable[..., Any]


class _OwnCode(threading.local):
    """Whether this thread is in a client's `request` or `complete`."""

    def __init__(self) -> None:
        self.deep = False


class Buffers:
    """What `request` gave, and what of it is filled.

    `request` returns writable contiguous bytes (bytearray, memoryview, mmap, array), or None: then what comes
    is dropped and counted, until it gives one. It and `complete` are called without a lock held, and by the
    thread whose record needs them, through `around(function, *args)`; records that come of what they do
    themselves wait until they are back.
    """

    def __init__(self, request: Request, complete: Complete, around: Around | None = None) -> None:
        self._request = request
        self._complete = complete
        self._around = around
        self._lock = threading.Lock()
        self._own = _OwnCode()
        self._current: tuple[Any, memoryview] | None = None
        self._filled = 0
        self._waiting: list[tuple[Layout, Values]] = []
        self._dropped_here = 0  # since the last buffer was handed over
        self._dropped_unasked = 0  # since num_dropped was asked
        self.broken = False
        self._told = False  # that request gives what is no buffer
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=functools.partial(_forked, weakref.ref(self)))

    @property
    def own_code(self) -> bool:
        """Whether this thread is in the client's `request` or `complete`."""
        return self._own.deep

    def add(self, layout: Layout, values: Values) -> None:
        """Store a record, or count it as dropped."""
        while True:
            full = None
            with self._lock:
                current = self._current
                if current is not None and self._filled + layout.size_bytes <= len(current[1]):
                    layout.pack_into(current[1], self._filled, values)
                    self._filled += layout.size_bytes
                    return
                if self._own.deep:
                    self._waiting.append((layout, values))
                    return
                if current is not None and not self._filled:
                    self._drop()  # a whole buffer is too small for it
                    return
                if current is not None:
                    full = self._take()
            if full is not None:
                self._hand_over(*full)
            if not self._renew(layout):
                return

    def flush(self, forced: bool) -> None:
        """Hand over what is filled; `forced`: an empty buffer, too."""
        with self._lock:
            if self._own.deep or self._current is None or not (self._filled or forced):
                return
            full = self._take()
        self._hand_over(*full)

    def forget(self) -> None:
        """In a forked child: what is filled is the parent's to hand over, and the memory may be shared."""
        self._lock = threading.Lock()
        self._current, self._filled, self._waiting = None, 0, []
        self._dropped_here = self._dropped_unasked = 0

    def num_dropped(self) -> int:
        """Records dropped since this was asked last."""
        with self._lock:
            out, self._dropped_unasked = self._dropped_unasked, 0
        return out

    def _renew(self, layout: Layout) -> bool:
        """Ask for a buffer; False: there is none, and the record counts as dropped."""
        got = self._call(self._request)
        spare = None
        with self._lock:
            view = None if got is None else bytes_of(got)
            if view is not None and view.readonly:
                view = None
            if view is None:
                self._drop()
            elif self._current is None:
                self._current, self._filled = (got, view), 0
            else:  # another thread was quicker
                spare = got
        if got is not None and view is None and not self._told:
            self._told = True
            self._tell(
                f"request gave {type(got).__name__}, no writable contiguous bytes: records are dropped"
            )
        if spare is not None:
            self._hand_over(spare, 0, 0)
        self._write_waiting()
        return view is not None

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for layout, values in waiting:
            self.add(layout, values)

    def _take(self) -> tuple[Any, int, int]:
        assert self._current is not None
        out = (self._current[0], self._filled, self._dropped_here)
        self._current[1].release()
        self._current, self._filled, self._dropped_here = None, 0, 0
        return out

    def _hand_over(self, buffer: Any, valid_bytes: int, dropped: int) -> None:
        self._call(self._complete, buffer, valid_bytes, dropped)
        self._write_waiting()

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        if self.broken:
            return None
        outer, self._own.deep = self._own.deep, True
        try:
            return function(*args) if self._around is None else self._around(function, *args)
        except BaseException as error:
            if of_signal(error):
                raise
            self.broken = True
            name = getattr(function, "__name__", "a callback")
            self._tell(f"{name} raised {type(error).__name__}: {error}: records are dropped from here on")
            return None
        finally:
            self._own.deep = outer

    def _drop(self) -> None:
        self._dropped_here += 1
        self._dropped_unasked += 1

    @staticmethod
    def _tell(text: str) -> None:
        print(f"topspti: {text}", file=sys.stderr)


def _forked(of: weakref.ref[Buffers]) -> None:
    buffers = of()
    if buffers is not None:
        buffers.forget()
