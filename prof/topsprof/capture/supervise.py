"""Standing between a terminal and a program without being noticed: signals, job control, exit status."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final

from topsprof.capture import process_table, starts
from topsprof.capture.group import GroupWitness

FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
)
"""Signals that are meant for the program when they reach us."""

_BLOCKED: Final = (*FORWARDED, signal.SIGCHLD, starts.SIGNAL)
_SI_USER_SENT: Final = 0  # si_code > 0: the kernel sent it (a terminal's ^C), then to the whole group
_TERMINAL_STOPS: Final = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_PR_SET_CHILD_SUBREAPER: Final = 36
_CORE_DUMPED: Final = 0x80


class Supervisor:
    """Waits for the program `pid`, a child in our process group, and passes on what is sent to us alone.

    Use as a context manager: inside it the signals of FORWARDED are blocked and taken by `wait`.
    """

    def __init__(self, pid: int, own: Mapping[signal.Signals, Callable[[], None]] | None = None) -> None:
        """`own`: what a signal that was sent to us alone does, instead of being passed on."""
        self.pid = pid
        self._own = {int(number): action for number, action in (own or {}).items()}
        self.status: int | None = None
        self._witness: GroupWitness | None = None
        self._mask: set[signal.Signals | int] = set()

    def __enter__(self) -> Supervisor:
        if signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
            signal.signal(
                signal.SIGCHLD, signal.SIG_DFL
            )  # where it is ignored, no exit status is kept for us
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED))
        self._witness = GroupWitness(_BLOCKED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._witness is not None:
            self._witness.dismiss()
        if self.status is not None:
            os.waitpid(self.pid, 0)
        # what is still pending was meant for a program that is gone; it must not strike us now
        while signal.sigtimedwait(_BLOCKED, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def wait(self, wake: Callable[[], float | None]) -> int:
        """Until the program has ended; its wait status. `wake` is called at least as often as it asks to be.

        `wake()` does what is due and returns the seconds until it wants to be called again (None: no need).
        """
        while self.status is None:
            delay = wake()
            self._take_one(3600.0 if delay is None else max(delay, 0.0))
        return self.status

    def wait_for_orphans(self, wake: Callable[[], float | None], ours: Callable[[], set[int]]) -> None:
        """Until every process that the program left behind has ended; `ours` are our own helpers' pids.

        Needs `adopt_orphans` before the program started. Signals go to all of them.
        """
        while self._reap(ours()):
            delay = wake()
            self._take_one(3600.0 if delay is None else max(delay, 0.0))

    def left_behind(self, ours: set[int]) -> list[int]:
        """What the program left behind, as far as `wait_for_orphans` would wait for it; `ours` as there."""
        helpers = {self.pid} | ours | ({self._witness.pid} if self._witness is not None else set())
        return [pid for pid in process_table.children(os.getpid()) if pid not in helpers]

    def kill(self, number: int) -> None:
        """Send `number` to the program and all that it started, as far as they still live."""
        targets = process_table.descendants(self.pid)
        if self.status is None:
            targets.insert(0, self.pid)
        for pid in targets:
            _send(pid, number)

    def _reap(self, ours: set[int]) -> list[int]:
        return [pid for pid in self.left_behind(ours) if os.waitpid(pid, os.WNOHANG)[0] == 0]

    def _take_one(self, timeout_s: float) -> None:
        info = signal.sigtimedwait(_BLOCKED, timeout_s)
        if info is None or info.si_signo == starts.SIGNAL:
            return
        if info.si_signo == signal.SIGCHLD:
            self._look_at_child()
        elif info.si_code <= _SI_USER_SENT:
            assert self._witness is not None
            if not self._witness.saw(info.si_signo):
                self._pass_on(info.si_signo)

    def _pass_on(self, number: int) -> None:
        if number in self._own:
            self._own[number]()
            return
        if self.status is None:
            _send(self.pid, number)
            return
        assert self._witness is not None
        for pid in process_table.children(os.getpid()):
            if pid not in (self.pid, self._witness.pid):
                _send(pid, number)

    def _look_at_child(self) -> None:
        while self.status is None:
            # An ended program stays a zombie until the session is closed: so the collector can always read
            # how it ended, also of a program that was gone before the collector knew of it.
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self.status = _wait_status(ended)
                return
            stopped = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
            if stopped is None:
                return
            if stopped.si_status in _TERMINAL_STOPS and _has_terminal():
                # a shell has to see us stopped too, or it would wait on; `fg` continues the whole group
                os.kill(os.getpid(), signal.SIGSTOP)


def _wait_status(ended: os.waitid_result) -> int:
    """What waitpid would give for an ended child."""
    if ended.si_code == os.CLD_EXITED:
        return ended.si_status << 8
    return ended.si_status | (_CORE_DUMPED if ended.si_code == os.CLD_DUMPED else 0)


def _has_terminal() -> bool:
    """Whether we belong to a terminal, so that there is someone to continue us."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def exit_code(status: int) -> int:
    """The exit code that a shell gives for a wait status: 128 + n when signal n ended the program."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def adopt_orphans() -> bool:
    """Make processes whose parent ends children of ours, to be waited for. False where it can't be."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended in this moment
    except PermissionError:
        pass  # it became another user's (set-uid): not ours to signal, as in a shell
