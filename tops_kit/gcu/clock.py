"""The session's time, as a process sees it: cuts, jumps, waits, and what API calls cost.

`virtual`: session time is CLOCK_MONOTONIC, but stands still in a *cut* (arithmetic of the device, done on the
CPU) and *jumps* ahead over a wait for the device where nobody else would be charged for it. `model`: it moves
only by what API calls cost, by waits and by `host_work`, and begins at 0.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from tops_kit import deferral
from tops_kit.errors import UserError
from tops_kit.gcu.specification import Specification

MODES = ("virtual", "model")


def clock_mode(environ: Mapping[str, str]) -> str:
    """What TOPS_CLOCK says: "virtual" (also where it is not set) or "model"; raises UserError."""
    mode = environ.get("TOPS_CLOCK") or "virtual"
    if mode not in MODES:
        raise UserError(f"TOPS_CLOCK={mode}: has to be {' or '.join(MODES)}")
    return mode


class TimeBase(Protocol):
    """Where session time comes from: of this process alone, or shared by all processes of a recording."""

    @property
    def mode(self) -> str:
        """ "virtual" or "model"."""

    def now_ns(self) -> int:
        """Session time; it stands still while any process of the base is in a cut."""

    def begin_cut(self) -> None:
        """From here to `end_cut` no session time passes; waits until no other thread or process is in one."""

    def end_cut(self) -> None:
        """The end of the innermost cut of this thread."""

    def advance(self, ns: int) -> None:
        """Session time moves ahead at once."""

    def alone(self) -> bool:
        """Whether no other process uses this base."""


class LocalTimeBase:
    """A time base of one process. `raw` is the clock beneath it, in ns."""

    # runtime/_quick.c reads and writes these, too
    __slots__ = ("_depth", "_frozen", "_lock", "_model", "_raw", "_shift", "mode")

    def __init__(self, mode: str = "virtual", *, raw: Callable[[], int] = time.monotonic_ns) -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r}: has to be {' or '.join(MODES)}")
        self.mode = mode
        self._model = mode == "model"
        self._raw = raw
        # what session time is behind raw time; None where it does not follow it: in a cut, and in model mode
        self._shift: int | None = None if self._model else 0
        self._frozen = 0  # session time while there is no shift; -1: not known yet
        self._lock = threading.RLock()
        self._depth = 0

    def now_ns(self) -> int:
        while True:
            shift = self._shift
            if shift is None:
                frozen = self._frozen
                if frozen >= 0:
                    return frozen
                time.sleep(0)  # another thread is just beginning a cut
                continue
            now = self._raw() - shift
            if self._shift is shift:  # no other thread's cut in between, not even one that came to nothing
                return now

    def begin_cut(self) -> None:
        if self._model:
            return
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            shift = self._shift
            assert shift is not None
            # no thread may see a later time than that at which this stops
            self._frozen = -1
            self._shift = None
            self._frozen = self._raw() - shift

    def end_cut(self) -> None:
        if self._model:
            return
        if not self._depth:
            raise RuntimeError("end_cut without begin_cut")
        self._depth -= 1
        if not self._depth:
            self._shift = self._raw() - self._frozen
        self._lock.release()

    def advance(self, ns: int) -> None:
        with self._lock:
            if self._shift is None:
                self._frozen += ns
            else:
                self._shift -= ns

    def alone(self) -> bool:
        return True


class _Cut:
    """`with clock.cut():`"""

    __slots__ = ("_base", "_depth", "_thread")

    def __init__(self, base: TimeBase) -> None:
        self._base = base
        self._thread = 0  # that is in it
        self._depth = 0

    def __enter__(self) -> None:
        deferral.enter()
        self._base.begin_cut()
        if self._base.mode != "model":
            self._thread = threading.get_ident()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if self._base.mode != "model":
            self._depth -= 1
            if not self._depth:
                self._thread = 0
        self._base.end_cut()
        deferral.leave()

    @property
    def own(self) -> bool:
        """Whether the calling thread is in it."""
        return self._thread == threading.get_ident()


def host_threads() -> int:
    """Threads of this process that run Python, also those that `threading` knows nothing of."""
    return max(threading.active_count(), _thread._count() + threading.main_thread().is_alive())


class Clock:
    """Session time of a process over a time base, with the host's costs of a part.

    `sleep` (seconds) and `threads` (how many Python threads there are) are for tests. `beside()`: whether
    other processes use the devices that this one uses. Raises UserError where nothing keeps other threads
    from running in a cut.
    """

    __slots__ = (
        "_beside", "_costs", "_cut", "_sleep", "_thread", "_threads", "base", "model", "now_ns",
        "order_measured", "waited_ns",
    )  # fmt: skip

    def __init__(
        self,
        base: TimeBase,
        spec: Specification,
        *,
        sleep: Callable[[float], None] = time.sleep,
        threads: Callable[[], int] = host_threads,
        beside: Callable[[], bool] = lambda: False,
    ) -> None:
        if base.mode != "model" and not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise UserError(
                "this Python runs without a global lock, so other threads would go on in a cut: "
                "set PYTHON_GIL=1, or TOPS_CLOCK=model"
            )
        self.base = base
        self.model = base.mode == "model"
        self.now_ns = base.now_ns  # called at every API call: no frame in between
        self.waited_ns = 0  # session time that went by in wait_until, of all threads
        self.order_measured = False  # model mode, and more than one thread moved the clock
        self._costs = {"api": spec.host_api_ns, "launch": spec.host_launch_ns}
        self._sleep = sleep
        self._threads = threads
        self._beside = beside
        self._thread: int | None = None
        self._cut = _Cut(base)

    def use(self, base: TimeBase) -> None:
        """Go on over another base of the same mode, whose time is this one's; not within a cut."""
        self.base = base
        self.now_ns = base.now_ns
        self._cut = _Cut(base)

    def cut(self) -> _Cut:
        """A context in which session time stands still; may be nested."""
        return self._cut

    @property
    def in_cut(self) -> bool:
        """Whether the calling thread is in a cut."""
        return self._cut.own

    def charge_api(self, kind: str = "api") -> None:
        """What a call costs in model mode: "api", or "launch" of a kernel. Else it costs what it takes."""
        if self.model:
            self._move(self._costs[kind])

    def host_work(self, ns: int) -> None:
        """The host works for so long: session time passes, and other threads can run. In a cut of its own
        thread it passes at once: there it stands still for everybody. Raises ValueError.
        """
        if ns < 0:
            raise ValueError(f"host_work({ns}): nanoseconds are at least 0")
        if self.model:
            self._move(ns)
        else:
            self._pass(self.now_ns() + ns)

    def jumps(self) -> bool:
        """Whether a wait takes no real time: nobody else would be charged for the jump."""
        return self.model or (self._threads() == 1 and self.base.alone() and not self._beside())

    def wait_until(self, time_ns: int) -> int:
        """Waits for the device until a session time, by a jump or by sleeping; returns the time it is then.

        A sleep lets other threads run and ends with an exception that a signal's handler raises.
        """
        begin_ns = self.now_ns()
        if begin_ns >= time_ns:
            return begin_ns
        now_ns = self._pass(time_ns)
        self.waited_ns += now_ns - begin_ns
        return now_ns

    def _pass(self, time_ns: int) -> int:
        """Until a session time has come; cuts of others in between make a sleep too short: once more."""
        while (now_ns := self.now_ns()) < time_ns:
            if self.model:
                self._move(time_ns - now_ns)
            elif self.jumps() or self._cut.own:
                self.base.advance(time_ns - now_ns)
            else:
                deferral.outside(self._sleep, (time_ns - now_ns) / 1e9)
        return now_ns

    def _move(self, ns: int) -> None:
        thread = threading.get_ident()
        if thread != self._thread:
            self.order_measured |= self._thread is not None
            self._thread = thread
        self.base.advance(ns)
