"""Calls of Python functions, for the Python twin: see `calls` and crec_calls.h, whose equal this is.

It is by far slower, a microsecond or two each. Code that was traced is kept alive. On 3.11 threads that ran
before are not traced, and a program that sets a profile function of its own, or exhausts its stack, ends it
in that thread.
"""

from __future__ import annotations

import sys
import threading
from dis import opmap
from time import monotonic_ns

from topstx.recorder import layout
from topstx.recorder.twin_session import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from topstx.recorder.twin_process import Process
    from topstx.recorder.twin_ring import Writer

_RESUMED, _YIELDED, _C, _ERROR = layout.CALL_RESUMED, layout.CALL_YIELDED, layout.CALL_C, layout.FLAG_ERROR
_CO_SLICED = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
_SKIPPED_MAX = 4096  # calls not recorded, of one function, that a kill may keep from being told
_WINDOW_NS = 1_000_000_000
_FLAGS_SHIFT, _DEPTH_SHIFT = 56, 32
_HIDDEN = -3  # slot of a call that is not recorded
_HOOKED = sys.version_info < (3, 12)
_RESUME, _YIELD, _RETURN = (opmap.get(name, -1) for name in ("RESUME", "YIELD_VALUE", "RETURN_VALUE"))


class _Site:
    """A function: whether it is traced, what it is called, how often it was called of late."""

    __slots__ = (
        "attr",
        "calls",
        "instructions",
        "name",
        "open",
        "skipped",
        "skipped_ns",
        "sliced",
        "throttled",
        "traced",
        "what",
        "window_ns",
    )

    def __init__(self, what: Any) -> None:
        self.what = what
        flags = getattr(what, "co_flags", 0)
        self.sliced = bool(flags & _CO_SLICED)
        self.instructions: bytes = getattr(what, "co_code", b"") if _HOOKED else b""
        self.name = self.attr = self.open = self.calls = self.window_ns = self.skipped = self.skipped_ns = 0
        self.traced = self.throttled = False


class _Entry:
    """A call that runs. `key` tells it from others: its code, its frame, or its function in C."""

    __slots__ = ("at", "begin", "flags", "key", "site", "slot", "tail", "task", "writer")

    def __init__(self, key: object, site: _Site) -> None:
        self.key, self.site = key, site
        self.slot, self.begin, self.flags, self.tail, self.task = _HIDDEN, 0, 0, 0, 0
        self.at = -2  # 3.11: the instruction at which it went on
        self.writer: Writer | None = None


class _Tracer:
    """One tracing, from trace_calls to untrace_calls."""

    def __init__(self, decide: Callable[[Any, Any], Any], disable: object, limit: int, c_calls: bool) -> None:
        self.decide, self.disable, self.limit, self.c_calls = decide, disable, limit, c_calls
        self.sites: dict[int, _Site] = {}
        self.local = threading.local()

    # -- what is called -------------------------------------------------------------------------------------

    def site(self, what: Any, frame: FrameType | None = None) -> _Site:
        """The function that a code object (with its frame) or an object of C is."""
        found = self.sites.get(id(what))
        if found is None:
            found = self.sites[id(what)] = _Site(what)
            try:
                answer = self.decide(what, None if frame is None else frame.f_globals)
            except Exception:  # odd objects of the program
                answer = None
            process = current.process
            if answer is not None and process is not None:
                name, module, file, line = answer
                found.name, found.attr = process.name(name), process.code(line, file, module)
                found.traced = True
        return found

    def skip(self, site: _Site) -> None:
        """Count a call that is not recorded."""
        if not site.skipped:
            site.skipped_ns = monotonic_ns()
        site.skipped += 1
        if site.skipped >= _SKIPPED_MAX:
            self.tell(site)

    @staticmethod
    def tell(site: _Site) -> None:
        """Record how many calls were not."""
        process, count = current.process, site.skipped
        site.skipped = 0
        if process is not None and count:
            _writer(process).skipped_calls(site.skipped_ns, site.name, site.attr, count)

    # -- begin and end --------------------------------------------------------------------------------------

    def stack(self) -> list[_Entry]:
        """The calls that run in this thread."""
        try:
            found: list[_Entry] = self.local.stack
        except AttributeError:
            found = self.local.stack = []
        return found

    def begin(self, site: _Site, key: object, instance: int, flags: int) -> None:
        """A call begins or goes on; `instance` tells generators apart."""
        process = current.process
        if process is None:
            return
        stack = self.stack()
        recorded = process.recording[0] == layout.RECORDING_ON
        if recorded and not site.throttled:
            self.look_at_rate(site)
        if not recorded or site.throttled:
            if recorded and not flags & _RESUMED:
                self.skip(site)
            if site.open:  # so that its end is not taken for that of another
                stack.append(_Entry(key, site))
                site.open += 1
            return
        entry = _Entry(key, site)
        entry.writer = writer = _writer(process)
        task = ((instance >> 4) & 0xFFFFFFFF or 1) if site.sliced else 0
        depth = min(len(stack), 0xFFFF)
        entry.flags, entry.task = flags, task
        entry.tail = site.attr | depth << _DEPTH_SHIFT
        stack.append(entry)
        site.open += 1
        entry.slot, entry.begin = writer.begin_call(site.name, site.attr, task, depth, flags)

    def look_at_rate(self, site: _Site) -> None:
        """Whether the function was called more than `limit` times within a second."""
        site.calls += 1
        if site.calls == 1:
            site.window_ns = monotonic_ns()
        elif self.limit and (site.calls == self.limit + 1 or not site.calls & 16383):
            if monotonic_ns() - site.window_ns >= _WINDOW_NS:
                site.calls = 0
            elif site.calls > self.limit:
                site.throttled = True

    def end(self, key: object, flags: int) -> bool:
        """A call ends or pauses; whether there was one."""
        stack = self.stack()
        if not stack or stack[-1].key is not key:
            if all(entry.key is not key for entry in stack):
                return False
            while stack[-1].key is not key:
                self.drop(stack.pop())
        entry = stack.pop()
        entry.site.open -= 1
        writer = entry.writer
        if writer is not None and writer.process is current.process:
            tail = entry.tail | (entry.flags | flags) << _FLAGS_SHIFT
            writer.end_call(entry.slot, entry.begin, entry.site.name | entry.task << 32, tail)
        return True

    def drop(self, entry: _Entry) -> None:
        """Forget a call whose end never came."""
        entry.site.open -= 1
        writer = entry.writer
        if writer is not None and writer.process is current.process:
            writer.forget_call(entry.slot)
            self.skip(entry.site)

    # -- sys.monitoring -------------------------------------------------------------------------------------

    def on_start(self, code: CodeType, offset: int) -> object:
        site = self.site(code, sys._getframe(1))
        if not site.traced:
            return self.disable
        self.begin(site, code, id(sys._getframe(1)) if site.sliced else 0, 0)
        return None

    def on_resume(self, code: CodeType, offset: int, *_: object) -> object:
        site = self.site(code, sys._getframe(1))
        if not site.traced:
            return self.disable
        self.begin(site, code, id(sys._getframe(1)), _RESUMED)
        return None

    def on_throw(self, code: CodeType, offset: int, error: object) -> None:
        site = self.site(code, sys._getframe(1))
        if site.traced:
            self.begin(site, code, id(sys._getframe(1)), _RESUMED)

    def on_return(self, code: CodeType, offset: int, value: object) -> object:
        return None if self.end(code, 0) else self._uninteresting(code)

    def on_yield(self, code: CodeType, offset: int, value: object) -> object:
        return None if self.end(code, _YIELDED) else self._uninteresting(code)

    def on_unwind(self, code: CodeType, offset: int, error: object) -> None:
        self.end(code, _ERROR)

    def on_call(self, code: CodeType, offset: int, function: object, first: object) -> object:
        if not self.site(code, sys._getframe(1)).traced:
            return self.disable
        self.begin_c(function)
        return None

    def on_c_return(self, code: CodeType, offset: int, function: object, first: object) -> None:
        self.end_c(function, 0)

    def on_c_raise(self, code: CodeType, offset: int, function: object, first: object) -> None:
        self.end_c(function, _ERROR)

    def _uninteresting(self, code: CodeType) -> object:
        """DISABLE, unless an end at this place may come to matter."""
        site = self.site(code, sys._getframe(2))
        return self.disable if not site.traced or (site.throttled and not site.open) else None

    def events(self) -> dict[str, Callable[..., object]]:
        """What sys.monitoring is to call."""
        found: dict[str, Callable[..., object]] = {
            "PY_START": self.on_start,
            "PY_RESUME": self.on_resume,
            "PY_RETURN": self.on_return,
            "PY_YIELD": self.on_yield,
            "PY_UNWIND": self.on_unwind,
            "PY_THROW": self.on_throw,
        }
        if self.c_calls:
            found |= {"CALL": self.on_call, "C_RETURN": self.on_c_return, "C_RAISE": self.on_c_raise}
        return found

    # -- functions in C -------------------------------------------------------------------------------------

    def begin_c(self, function: Any) -> None:
        definition = _definition(function)
        if definition is not None:
            site = self.site(definition)
            if site.traced:
                self.begin(site, definition, 0, _C)

    def end_c(self, function: Any, flags: int) -> None:
        definition = _definition(function)
        stack = self.stack()
        if definition is not None and stack and stack[-1].key is definition:
            self.end(definition, flags)

    # -- the profile function of 3.11 -----------------------------------------------------------------------

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """What sys.setprofile calls."""
        code = frame.f_code
        if event == "call":
            site = self.site(code, frame)
            if site.traced:
                flags = 0
                if site.sliced:
                    at = max(frame.f_lasti, 0)
                    if site.instructions[at] != _RESUME or site.instructions[at + 1] & 3:
                        flags = _RESUMED
                self.begin(site, frame, id(frame), flags)
                if flags and (stack := self.stack()) and stack[-1].key is frame:
                    stack[-1].at = frame.f_lasti
        elif event == "return":
            site = self.site(code, frame)
            if site.traced:
                instruction = site.instructions[frame.f_lasti]
                ended = 0 if instruction == _RETURN else _ERROR
                if site.sliced and instruction == _YIELD and not self._thrown(frame, argument):
                    ended = _YIELDED
                self.end(frame, ended)
        elif self.c_calls and self.site(code, frame).traced:
            if event == "c_call":
                self.begin_c(argument)
            else:
                self.end_c(argument, 0 if event == "c_return" else _ERROR)

    def _thrown(self, frame: FrameType, argument: object) -> bool:
        """Whether a generator at a yield was left by what was thrown into it there: a profile function gets
        None then, as for a yield of None.
        """
        stack = self.stack()
        return argument is None and bool(stack) and stack[-1].key is frame and stack[-1].at == frame.f_lasti


_builtin_function = type(len)
_method_descriptor = type(list.append)


def _definition(function: Any) -> object | None:
    """What stands for a function in C however it is bound; None for what is none."""
    kind = type(function)
    if kind is _method_descriptor:
        return function  # type: ignore[no-any-return]
    if kind is not _builtin_function:
        return None
    owner = function.__self__
    if owner is None or type(owner) is type(sys) or isinstance(owner, type):
        return function  # type: ignore[no-any-return]
    return getattr(type(owner), function.__name__, None)


def _writer(process: Process) -> Writer:
    try:
        found: Writer = process.local.writer
    except AttributeError:
        found = process.new_writer()
    return found


class _State:
    """The tracing of this process."""

    tracer: _Tracer | None = None


_state = _State()


def trace_calls(
    decide: Callable[[Any, Any], Any], disable: object, limit: int, c_calls: bool, /
) -> dict[str, Callable[..., object]] | int:
    """See `interface.Backend`."""
    _state.tracer = tracer = _Tracer(decide, disable, limit, c_calls)
    if sys.version_info >= (3, 12):
        return tracer.events()
    if sys.getprofile() is not None:
        return 1
    threading.setprofile(tracer.profile)
    sys.setprofile(tracer.profile)
    return 0


def untrace_calls() -> int:
    """See `interface.Backend`."""
    tracer = _state.tracer
    if tracer is None:
        return 0
    lost = 0
    if sys.version_info < (3, 12):
        lost = int(sys.getprofile() != tracer.profile)
        if not lost:
            sys.setprofile(None)
        threading.setprofile(None)
    tell_calls()
    _state.tracer = None
    return lost


def tell_calls() -> None:
    """See `interface.Backend`."""
    if _state.tracer is not None:
        for site in list(_state.tracer.sites.values()):
            _state.tracer.tell(site)
