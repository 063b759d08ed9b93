"""Entering a session: what is written about the process, and how its children and its end are followed.

All of it happens in processes that are being recorded, and in no others.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from topstx.recorder.interface import Backend


class Follower:
    """Keeps a back end informed about forks, exec and the process's exit code."""

    def __init__(self, backend: Backend, reason: str) -> None:
        self._backend = backend
        self._reason = reason
        self._hooked = False
        self._listeners: list[Callable[[str | None], object]] = []

    def listen(self, listener: Callable[[str | None], object]) -> None:
        """See `topstx.on_session`."""
        self._listeners.append(listener)
        folder = self._backend.session()
        if folder is not None:
            _call(listener, folder)

    def leave(self) -> None:
        """Leave the session in order."""
        self._tell(None)
        self._backend.detach()

    def _tell(self, folder: str | None) -> None:
        for listener in self._listeners:
            _call(listener, folder)

    def enter(self, folder: str) -> bool:
        """Attach to the session in `folder`. False when it is none or can't be written; nothing is recorded
        then.
        """
        if not self._backend.attach(folder):
            return False
        self._describe()
        if not self._hooked:
            self._hooked = True
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._describe)
            self._follow_exit()
        self._tell(folder)
        return True

    def _describe(self) -> None:
        """PROCESS entries. In a fork child they also make its files, so that a child that records nothing
        is known as well.
        """
        backend = self._backend
        if backend.session() is None:
            return
        backend.process_entry("argv", _json_list(sys.orig_argv))
        backend.process_entry("executable", sys.executable or "")
        backend.process_entry("python", sys.version.partition(" ")[0])
        try:
            backend.process_entry("cwd", os.getcwd())  # noqa: PTH109 - pathlib is too heavy to import here
        except OSError:  # the folder is gone: a fact that we can't record
            pass
        if self._reason:
            backend.process_entry("backend_reason", self._reason)

    def _follow_exit(self) -> None:
        """Note the code of `os._exit` (the end of multiprocessing's children) and the exec that replaces a
        process.
        """
        backend = self._backend
        leave, execv, execve = os._exit, os.execv, os.execve

        def _exit(status: int) -> NoReturn:
            if type(status) is int:
                backend.note_exit(1, status & 0xFF)
            leave(status)

        def replacing(function: Callable[..., NoReturn]) -> Callable[..., Any]:
            def replace(*args: Any, **kwargs: Any) -> Any:
                backend.note_exit(2, 0)
                try:
                    function(*args, **kwargs)
                finally:  # only reached when it failed
                    backend.note_exit(0, 0)

            replace.__name__, replace.__doc__ = function.__name__, function.__doc__
            return replace

        _exit.__doc__ = leave.__doc__
        os._exit, os.execv, os.execve = _exit, replacing(execv), replacing(execve)


def _call(listener: Callable[[str | None], object], folder: str | None) -> None:
    try:
        listener(folder)
    except Exception as error:  # no reason for the program to fail
        print(f"topstx: {type(error).__name__}: {error}", file=sys.stderr)


def _json_list(texts: list[str]) -> str:
    """A JSON list, without importing `json`, which takes longer than all of topstx."""
    try:
        from _json import encode_basestring_ascii as quote
    except ImportError:  # not CPython
        from json import dumps as quote
    return "[" + ", ".join(quote(text) for text in texts) + "]"
