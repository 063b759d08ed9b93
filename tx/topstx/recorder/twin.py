"""The recorder in Python: interface.py's functions and topstx_layout.h's files, without a compiler.

It writes the same rings as the C extension; a range costs one or two microseconds. The clock is always
CLOCK_MONOTONIC. Where it differs:
- A context is told by the interpreter's own pointer where `ctypes` can find it, else by the running asyncio
  task.
- Records made by a signal handler in the midst of another record are kept, but may come under the wrong
  thread when both are start/end ranges.
"""

# `pathlib` is too heavy for `import topstx`, and calls spell out what an annotation is made of.
# ruff: noqa: PLR0917

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

from topstx.recorder import layout, twin_values
from topstx.recorder.twin_process import EXCLUDED, categories_of
from topstx.recorder.twin_ring import HIDDEN
from topstx.recorder.twin_session import (
    attach,
    current,
    detach,
    is_recording,
    note_exit,
    profiler_start,
    profiler_stop,
    session,
)

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from topstx.recorder.twin_process import Process
    from topstx.recorder.twin_ring import Open, Stack, Writer

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "NAME",
    "Counter",
    "Domain",
    "annotate",
    "attach",
    "counter",
    "detach",
    "end_range",
    "get_domain",
    "is_recording",
    "mark",
    "note_exit",
    "pop_range",
    "process_entry",
    "profiler_start",
    "profiler_stop",
    "push_range",
    "session",
    "set_thread_name",
    "start_range",
]

NAME = "twin"

_ON = layout.RECORDING_ON
_PUSHED, _CAPTURE, _ERROR = layout.FLAG_PUSHED, layout.FLAG_CAPTURE, layout.FLAG_ERROR
_KEPT_FLAGS = 0xFF & ~(_PUSHED | _CAPTURE)  # of an open range, in its record
_CO_WRAPPED = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
_DOUBLE, _WORD = Struct("<d"), Struct("<Q")


# -- ranges of a thread -------------------------------------------------------------------------------------


def push_range(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> None:
    """Begin a range of this thread and task; pop_range ends it."""
    process = current.process
    if process is None:
        return
    if color is domain is category is payload is None and process.recording[0] == _ON:
        try:  # the usual case, without a further call
            name, writer = process.names[message], process.local.writer
        except Exception:  # a new name, a new thread, a message that can't be a key: the long way
            pass
        else:
            if not process.default_attr:
                writer.begin(name, 0, "", _PUSHED, b"")
                return
    _push(process, message, color, "" if domain is None else _domain_name(domain), category, payload)


def pop_range(domain: object = None) -> None:
    """End the innermost range that push_range began in this domain, thread and task."""
    process = current.process
    if process is not None:
        _pop(process, "" if domain is None else _domain_name(domain))


def _push(
    process: Process, message: object, color: object, domain: str, category: object, payload: object
) -> None:
    flags = _PUSHED
    if process.recording[0] == _ON:
        pass
    elif process.begins_capture(message, domain):
        flags |= _CAPTURE
    else:
        # Not recorded. Above an open range it is noted, so that its pop does not close that one.
        writer: Writer | None = getattr(process.local, "writer", None)
        if writer and any(writer.stacks.values()) and process.allowed(domain):
            stack = writer.stack()
            stack.append((HIDDEN, 0, 0, 0, domain, _PUSHED, b"", stack, writer))
            stack.hidden += 1
        return
    _begin(process, message, color, domain, category, payload, flags)


def _pop(process: Process, domain: str) -> None:
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        if process.recording[0] == _ON and process.allowed(domain):
            process.new_writer().unbalanced()
        return
    context = writer.cell[0]
    stack: Stack | None = writer.stacks.get(context)
    opened: Open
    if stack and (opened := stack[-1])[5] & _PUSHED and opened[4] == domain:
        stack.pop()
    else:
        found = _take_pushed(stack, domain)
        if found is None and context:
            found = _take_pushed(writer.stacks.get(0), domain)
        if found is None:
            if process.recording[0] == _ON and process.allowed(domain):
                writer.unbalanced()
            return
        opened = found
    flags = opened[5]
    if opened[0] == HIDDEN:
        opened[7].hidden -= 1
        return
    writer.end(opened, flags & _KEPT_FLAGS, opened[6])
    if flags & _CAPTURE:
        process.end_capture()


def _take_pushed(stack: Stack | None, domain: str) -> Open | None:
    """Take the innermost range of `domain` that was pushed off the stack."""
    if stack:
        for index in range(len(stack) - 1, -1, -1):
            opened: Open = stack[index]
            if opened[5] & _PUSHED and opened[4] == domain:
                del stack[index]
                return opened
    return None


def _attr(process: Process, color: object, domain: str, category: object) -> int:
    """Id of an ATTR entry, or EXCLUDED when the domain is filtered out."""
    if color is None and category is None and not domain:
        return process.default_attr
    key = (domain, category, color)
    try:
        known = process.attrs.get(key)
        if known is None:
            known = process.attrs[key] = process.attr(domain, category, color)
    except Exception:  # a colour or category that can't be a key
        return process.attr(domain, category, color)
    return known


def _name(process: Process, message: object) -> int:
    try:
        known = process.names.get(message)
    except Exception:  # a message that can't be a key
        known = None
    return known or process.name(message)


def _begin(
    process: Process,
    message: object,
    color: object,
    domain: str,
    category: object,
    payload: object,
    flags: int,
) -> Open | None:
    """Open a range of the calling thread, or None when it is not to be recorded."""
    if process.recording[0] != _ON:
        if not process.begins_capture(message, domain):
            return None
        flags |= _CAPTURE
    attr = _attr(process, color, domain, category)
    if attr == EXCLUDED:
        return None
    more = b""
    if payload is not None:
        more, cut = twin_values.payload(payload)
        flags |= cut
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        writer = process.new_writer()
    return writer.begin(_name(process, message), attr, domain, flags, more)


def _finish(opened: Open, error: type[BaseException] | None) -> None:
    """End a range that `annotate` opened, wherever it is now called from."""
    writer, stack = opened[8], opened[7]
    process = writer.process
    if process is not current.process:
        return  # it belongs to the process that forked this one, or to a session that was left
    if stack and stack[-1] is opened:
        stack.pop()
    else:
        try:
            stack.remove(opened)
        except ValueError:
            return
    flags, more = opened[5] & _KEPT_FLAGS, opened[6]
    if error is not None and error is not GeneratorExit:  # the end of a generator by close() is none
        flags |= _ERROR
        more += twin_values.error(error)
    if getattr(process.local, "writer", None) is writer:
        writer.end(opened, flags, more)
    else:
        process.end_elsewhere(opened, flags, more)
    if opened[5] & _CAPTURE:
        process.end_capture()


class annotate:  # noqa: N801 - the name is part of the interface
    """A range as a context manager, or a decorator that makes one of each call. See `interface.Annotate`."""

    __slots__ = ("__weakref__", "_category", "_color", "_domain", "_message", "_open", "_payload")

    def __new__(cls, message: object = None, *more: object, **named: object) -> Any:
        """The object; `@annotate` without parentheses: what it decorated, which has no __init__ run."""
        if type(message) is not str and not more and not named and twin_values.is_decorated(message):
            return cls()(message)  # type: ignore[type-var]  # it is callable
        return object.__new__(cls)

    def __init__(
        self,
        message: object = None,
        color: object = None,
        domain: object = None,
        category: object = None,
        payload: object = None,
    ) -> None:
        self._message, self._color, self._category, self._payload = message, color, category, payload
        self._domain = "" if domain is None else _domain_name(domain)
        # One item per entry that was not left yet; None: entered while nothing was recorded.
        self._open: list[Open | None] = []

    def __enter__(self) -> annotate:
        process = current.process
        if process is not None:
            self._open.append(
                _begin(process, self._message, self._color, self._domain, self._category, self._payload, 0)
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, traceback: object) -> None:
        if self._open:
            opened = self._open.pop() if len(self._open) == 1 else self._mine()
            if opened is not None:
                _finish(opened, kind)

    def __reduce__(self) -> tuple[type[annotate], tuple[object, ...]]:
        return annotate, (self._message, self._color, self._domain or None, self._category, self._payload)

    def __repr__(self) -> str:
        return f"<topstx.annotate {self._message!r}>"

    def _mine(self) -> Open | None:
        """Of several open entries, the innermost of the calling thread and context, else the innermost."""
        process = current.process
        writer: Writer | None = getattr(process.local, "writer", None) if process is not None else None
        stack = writer.stack() if writer is not None else None
        for index in range(len(self._open) - 1, -1, -1):
            opened = self._open[index]
            if opened is None or opened[7] is stack:
                del self._open[index]
                return opened
        return self._open.pop()

    def __call__(self, func: F) -> F:
        if isinstance(func, (staticmethod, classmethod)):
            return type(func)(self(func.__func__))
        if not callable(func):
            raise TypeError(f"annotate() decorates functions, not {type(func).__name__!r}")
        message, color, payload = self._message, self._color, self._payload
        domain, category = self._domain, self._category
        if message is None:
            try:
                message = func.__qualname__
            except Exception:  # an object that is called by its class
                message = twin_values.text(func)
        if type(func).__name__ != "function" or func.__code__.co_flags & _CO_WRAPPED:
            from topstx._wrap import wrap

            def make() -> annotate:
                return annotate(message, color, domain, category, payload)

            wrapped = wrap(func, make, make())
            if wrapped is not None:
                return wrapped  # type: ignore[return-value]

        from functools import update_wrapper

        def annotated(*args: object, **kwargs: object) -> object:
            process = current.process
            if process is None:
                return func(*args, **kwargs)
            opened = _begin(process, message, color, domain, category, payload, 0)
            if opened is None:
                return func(*args, **kwargs)
            try:
                result = func(*args, **kwargs)
            except BaseException as error:
                _finish(opened, type(error))
                raise
            _finish(opened, None)
            return result

        return update_wrapper(annotated, func)  # type: ignore[return-value]


# -- marks, ranges across threads, counters -----------------------------------------------------------------


def mark(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> None:
    """Record a moment."""
    process = current.process
    if process is None or process.recording[0] != _ON:
        return
    attr = _attr(process, color, "" if domain is None else _domain_name(domain), category)
    if attr == EXCLUDED:
        return
    more, flags = twin_values.payload(payload) if payload is not None else (b"", 0)
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        writer = process.new_writer()
    writer.mark(_name(process, message), attr, more, flags)


def start_range(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> int:
    """Begin a range that any thread or task may end. Returns an int for end_range."""
    process = current.process
    if process is None:
        return 0
    name_of_domain, flags = "" if domain is None else _domain_name(domain), 0
    if process.recording[0] != _ON:
        if not process.begins_capture(message, name_of_domain):
            return 0
        flags = _CAPTURE
    attr = _attr(process, color, name_of_domain, category)
    if attr == EXCLUDED:
        return 0
    more, cut = twin_values.payload(payload) if payload is not None else (b"", 0)
    return process.start(_name(process, message), attr, name_of_domain, flags | cut, more)


def end_range(range_id: int | None) -> None:
    """End a range by the id that start_range returned."""
    process = current.process
    if process is not None and range_id and isinstance(range_id, int):
        process.end_start(range_id)


class Counter:
    """A counter of a domain; there is one object per domain, name and unit. See `interface.Counter`."""

    __slots__ = ("__weakref__", "_domain", "name", "unit")
    name: str
    unit: str
    _domain: str

    def __new__(cls, name: str, unit: str = "", domain: object = None) -> Counter:
        key = ("" if domain is None else _domain_name(domain), twin_values.text(name), twin_values.text(unit))
        found = _counters.get(key)
        if found is None:
            made = super().__new__(cls)
            made._domain, made.name, made.unit = key
            found = _counters.setdefault(key, made)
        return found

    def sample(self, value: float) -> None:
        process = current.process
        if process is None or process.recording[0] != _ON:
            return
        if not process.allowed(self._domain):
            return
        try:
            bits: int = _WORD.unpack(_DOUBLE.pack(value))[0]
        except (TypeError, ValueError, ArithmeticError, StructError):
            return  # no number
        try:
            writer: Writer = process.local.writer
        except AttributeError:
            writer = process.new_writer()
        name = process.counter(self._domain, self.name, self.unit)
        writer.sample(name, bits)


# -- domains ------------------------------------------------------------------------------------------------


class Domain:
    """One domain; there is one object per name. See `interface.Domain`."""

    __slots__ = ("__weakref__", "name")
    name: str

    def __new__(cls, name: str | None = None) -> Domain:
        text = "" if name is None else twin_values.text(name)
        found = _domains.get(text)
        if found is None:
            made = super().__new__(cls)
            made.name = text
            found = _domains.setdefault(text, made)
        return found

    def __reduce__(self) -> tuple[type[Domain], tuple[str]]:
        return Domain, (self.name,)

    def __repr__(self) -> str:
        return f"<topstx.Domain {self.name!r}>"

    def push_range(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> None:
        process = current.process
        if process is not None:
            _push(process, message, color, self.name, category, payload)

    def pop_range(self) -> None:
        process = current.process
        if process is not None:
            _pop(process, self.name)

    def mark(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> None:
        mark(message, color, self.name, category, payload)

    def start_range(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> int:
        return start_range(message, color, self.name, category, payload)

    def end_range(self, range_id: int | None) -> None:
        end_range(range_id)

    def annotate(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> annotate:
        if color is None and category is None and payload is None and twin_values.is_decorated(message):
            return annotate(None, None, self.name)(message)  # type: ignore[type-var, return-value]
        return annotate(message, color, self.name, category, payload)

    def counter(self, name: str, unit: str = "") -> Counter:
        return Counter(name, unit, self.name)

    def get_registered_string(self, string: str) -> str:
        from sys import intern

        return intern(string) if type(string) is str else twin_values.text(string)

    def get_category_id(self, name: str) -> int:
        return categories_of(self.name).number(twin_values.text(name))


_domains: dict[str, Domain] = {}
_counters: dict[tuple[str, str, str], Counter] = {}


def get_domain(name: str | None = None) -> Domain:
    """The domain of that name; None: the default one."""
    return Domain(name)


def counter(name: str, unit: str = "", domain: object = None) -> Counter:
    """The counter of that name and unit; its `sample(value)` records a value."""
    return Counter(name, unit, domain)


def _domain_name(domain: object) -> str:
    if type(domain) is str:
        return domain
    return domain.name if isinstance(domain, Domain) else twin_values.text(domain)


# -- the process --------------------------------------------------------------------------------------------


def set_thread_name(name: str, tid: int = 0) -> None:
    """Name a thread by its kernel id (0: the calling one) in the recording."""
    process = current.process
    if process is not None:
        from _thread import get_native_id

        with process.lock:
            number = twin_values.integer(tid) & 0xFFFFFFFF if isinstance(tid, int) else 0
            process.names_file.thread(number or get_native_id(), twin_values.text(name))


def process_entry(key: str, value: str) -> None:
    process = current.process
    if process is not None:
        with process.lock:
            process.names_file.process(twin_values.text(key), twin_values.text(value))
