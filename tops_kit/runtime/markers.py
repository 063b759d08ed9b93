"""Ranges and marks of topstx as activities, for tools that ask for them; recorders have them anyway."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import topstx

from tops_kit.runtime import activity as acts

if TYPE_CHECKING:
    from tops_kit.runtime.hooks import Hooks

_MARK, _PUSH, _POP, _ENTER, _EXIT, _START, _END = range(7)  # as topstx tells them
_MOST_OPEN = 100_000  # started ranges that nobody ends: the oldest are forgotten
_Open = tuple[int, str, str]  # number, name, domain


class Markers:
    """Follows topstx while some sink wants MARKER activities."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._numbers = itertools.count(1)
        self._local = threading.local()  # pushed and entered ranges
        self._lock = threading.Lock()
        self._shared: dict[int, _Open] = {}  # started ones, and entered ones, by key

    def follow(self, on: bool) -> None:
        """Begin, or end."""
        with self._lock:
            self._shared.clear()
        topstx.listen(self._hear if on else None)

    def _hear(self, what: int, key: int, message: object, domain: str) -> None:
        if what == _MARK:
            self._emit(acts.MARKER_INSTANT, (next(self._numbers), _text(message), domain))
        elif what == _PUSH:
            self._stack((_PUSH, domain)).append(self._begin(message, domain))
        elif what == _ENTER:
            self._stack((_ENTER, key)).append(self._begin(message, domain))
        elif what == _START:
            opened = self._begin(message, domain)
            with self._lock:
                if len(self._shared) >= _MOST_OPEN:
                    self._shared.pop(next(iter(self._shared)))
                self._shared[key] = opened
        elif what == _END:
            with self._lock:
                found = self._shared.pop(key, None)
            if found is not None:
                self._emit(acts.MARKER_END, found)
        else:
            place = (_PUSH, domain) if what == _POP else (_ENTER, key)
            stack = self._stack(place)
            if stack:
                self._emit(acts.MARKER_END, stack.pop())
            if not stack:
                self._stacks().pop(place, None)

    def _begin(self, message: object, domain: str) -> _Open:
        opened = next(self._numbers), _text(message), domain
        self._emit(acts.MARKER_START, opened)
        return opened

    def _stack(self, place: tuple[int, object]) -> list[_Open]:
        return self._stacks().setdefault(place, [])

    def _stacks(self) -> dict[tuple[int, object], list[_Open]]:
        out: dict[tuple[int, object], list[_Open]] | None = getattr(self._local, "stacks", None)
        if out is None:
            out = self._local.stacks = {}
        return out

    def _emit(self, flag: int, opened: _Open) -> None:
        hooks = self._hooks
        told = acts.MarkerActivity(
            flag, opened[0], hooks.now_ns(), opened[1], opened[2], hooks.thread.thread_id
        )
        hooks.emit(acts.MARKER, told)


def _text(message: object) -> str:
    return message if isinstance(message, str) else "" if message is None else str(message)
