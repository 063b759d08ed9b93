"""The Python twin's session: which one this process records into, from attach or fork until Python ends."""

# `pathlib` is too heavy for `import topstx`.

from __future__ import annotations

import os
import time

from topstx.recorder import layout
from topstx.recorder.twin_exit import ExitStatus
from topstx.recorder.twin_process import Process
from topstx.recorder.twin_ring import STATE_AND_TID

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from typing import Any


class _Current:
    """The recording of this process: the one place that attach, detach and fork change."""

    process: Process | None = None
    exit: ExitStatus | None = None
    last: _Last | None = None
    arranged = False  # the handlers for fork and exit are in place

    def follow(self) -> None:
        """Let the exit status go where the present session is."""
        if self.exit is not None:
            self.exit.follow(self.process.names_file.path if self.process is not None else None)


class _Last:
    """Goes with the twin's modules, after the program's last finalizers: the rings are done then."""

    def __init__(self, live_words: list[memoryview], pid: int) -> None:
        self._live_words, self._pid = live_words, pid

    # Names of modules may be gone by then; defaults are not.
    def __del__(
        self, retired: int = layout.RING_RETIRED, place: int = STATE_AND_TID, getpid: Any = os.getpid
    ) -> None:
        if getpid() == self._pid:
            for words in self._live_words:
                words[place] = words[place] & ~0xFFFFFFFF | retired


current = _Current()


def attach(folder: str) -> bool:
    old = current.process
    if old is not None:
        if old.folder == folder:
            return True
        detach()
    try:
        current.process = Process(folder)
    except (OSError, ValueError, AttributeError, MemoryError, TypeError):
        # No recording there, of another version, not writable, or a system without posix_fallocate.
        return False
    if not current.arranged:
        current.arranged = True
        import atexit

        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_after_fork)
        native = current.process.memory.native
        if native is not None:
            try:
                current.exit = ExitStatus(native)
            except (AttributeError, OSError):
                pass  # no libc that tells; the status stays unknown
    current.follow()
    return True


def detach() -> None:
    process, current.process = current.process, None
    if process is not None:
        current.follow()
        process.close()


def _at_exit() -> None:
    """Python ends. Finalizers may still record; what is left to do is done when the modules go."""
    process = current.process
    if process is not None:
        process.names_file.set("end_tick", time.monotonic_ns())
        current.last = _Last(process.live_words, process.names_file.pid)
        if current.exit is not None:
            current.exit.ends()


def session() -> str | None:
    process = current.process
    return None if process is None else process.folder


def is_recording() -> bool:
    """True when attached and recording is not off."""
    process = current.process
    return process is not None and process.recording[0] != layout.RECORDING_OFF


def profiler_start() -> None:
    """Switch the session's recording on, in all its processes; a captured range begins."""
    process = current.process
    if process is not None:
        process.profiler_start()


def profiler_stop() -> None:
    """Switch it off; the captured range ends, and --capture-range-end says what follows."""
    process = current.process
    if process is not None:
        process.profiler_stop()


def note_exit(known: int, status: int) -> None:
    process = current.process
    if process is not None:
        process.note_exit(known, status)


def _after_fork() -> None:
    """In a fork child: a serial, names file and rings of its own. Open ranges stay the parent's."""
    parent = current.process
    if parent is None:
        return
    try:
        current.process = Process(parent.folder, memory=parent.memory, parent=parent)
    except (OSError, ValueError, MemoryError):
        parent.lose_process()
        current.process = None
    current.follow()
