"""The recorder in Python: interface.py's functions and topstx_layout.h's files, without a compiler.

It writes the same rings as the C extension; a range costs one or two microseconds. The clock is always
CLOCK_MONOTONIC. Where it differs:
- A context is told by the interpreter's own pointer where `ctypes` can find it, else by the running asyncio
  task.
- Records made by a signal handler in the midst of another record are kept, but may come under the wrong
  thread when both are start/end ranges.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

from topstx.recorder import layout, twin_values
from topstx.recorder.twin_process import EXCLUDED, categories_of
from topstx.recorder.twin_ranges import (
    ALONE,
    END,
    ENTER,
    EXIT,
    MARK,
    POP,
    PUSH,
    attr_of,
    begin,
    finish,
    listen,
    listening,
    name_of,
    pop,
    push,
)
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

    from topstx.recorder.twin_ring import Open, Writer

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
    "intern",
    "is_recording",
    "listen",
    "mark",
    "note_exit",
    "pop_range",
    "process_entry",
    "process_serial",
    "profiler_start",
    "profiler_stop",
    "push_range",
    "row",
    "row_wanted",
    "session",
    "set_thread_name",
    "start_range",
    "tell_calls",
    "trace_calls",
    "trace_memory",
    "trace_numpy",
    "untrace_calls",
    "untrace_memory",
]

NAME = "twin"

_ON = layout.RECORDING_ON
_PUSHED, _CAPTURE = layout.FLAG_PUSHED, layout.FLAG_CAPTURE
_CO_WRAPPED = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
_BODY_MAX = layout.PAYLOAD_MAX - 3
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
    if listening.on:
        listening.hear(PUSH, 0, message, "" if domain is None else _domain_name(domain))
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
    push(process, message, color, "" if domain is None else _domain_name(domain), category, payload)


def pop_range(domain: object = None) -> None:
    """End the innermost range that push_range began in this domain, thread and task."""
    process = current.process
    if listening.on:
        listening.hear(POP, 0, None, "" if domain is None else _domain_name(domain))
    if process is not None:
        pop(process, "" if domain is None else _domain_name(domain))


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
        if listening.on:
            listening.hear(ENTER, id(self), self._message, self._domain)
        if process is not None:
            self._open.append(
                begin(process, self._message, self._color, self._domain, self._category, self._payload, 0)
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, traceback: object) -> None:
        if listening.on:
            listening.hear(EXIT, id(self), None, self._domain)
        if self._open:
            opened = self._open.pop() if len(self._open) == 1 else self._mine()
            if opened is not None:
                finish(opened, kind)

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
            if listening.on:
                with annotate(message, color, domain, category, payload):
                    return func(*args, **kwargs)
            process = current.process
            if process is None:
                return func(*args, **kwargs)
            opened = begin(process, message, color, domain, category, payload, 0)
            if opened is None:
                return func(*args, **kwargs)
            try:
                result = func(*args, **kwargs)
            except BaseException as error:
                finish(opened, type(error))
                raise
            finish(opened, None)
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
    if listening.on:
        listening.hear(MARK, 0, message, "" if domain is None else _domain_name(domain))
    if process is None or process.recording[0] != _ON:
        return
    attr = attr_of(process, color, "" if domain is None else _domain_name(domain), category)
    if attr == EXCLUDED:
        return
    more, flags = twin_values.payload(payload) if payload is not None else (b"", 0)
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        writer = process.new_writer()
    writer.mark(name_of(process, message), attr, more, flags)


def start_range(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> int:
    """Begin a range that any thread or task may end. Returns an int for end_range."""
    handle = _start(message, color, domain, category, payload)
    if listening.on:
        return listening.start(handle, message, "" if domain is None else _domain_name(domain))
    return handle


def _start(message: object, color: object, domain: object, category: object, payload: object) -> int:
    process = current.process
    if process is None:
        return 0
    name_of_domain, flags = "" if domain is None else _domain_name(domain), 0
    if process.recording[0] != _ON:
        if not process.begins_capture(message, name_of_domain):
            return 0
        flags = _CAPTURE
    attr = attr_of(process, color, name_of_domain, category)
    if attr == EXCLUDED:
        return 0
    more, cut = twin_values.payload(payload) if payload is not None else (b"", 0)
    return process.start(name_of(process, message), attr, name_of_domain, flags | cut, more)


def end_range(range_id: int | None) -> None:
    """End a range by the id that start_range returned."""
    process = current.process
    if isinstance(range_id, int) and range_id:
        if listening.on:
            listening.hear(END, range_id, None, "")
        if ALONE <= range_id < 2 * ALONE:
            return
    if process is None or range_id is None:
        return
    if isinstance(range_id, int):
        number = twin_values.integer(range_id)
        if number:  # 0: nothing was recorded when it began
            process.end_start(number)
    elif process.recording[0] == _ON:
        process.count_bad("bad_ends")


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
            process.count_bad("bad_samples")  # no number
            return
        try:
            writer: Writer = process.local.writer
        except AttributeError:
            writer = process.new_writer()
        name = process.counter(self._domain, self.name, self.unit)
        writer.sample(name, bits)


# -- rows of other tables -----------------------------------------------------------------------------------


def row(  # noqa: PLR0917 - as in C
    kind: int, begin_ns: int, end_ns: int, name: object, body: bytes, correlation_id: int = 0, /
) -> bool:
    """Record a row of another table; whether it was."""
    process = current.process
    if process is None or (process.recording[0] != _ON and not kind & layout.ROW_LATE):
        return False
    if len(body) > _BODY_MAX:
        raise ValueError(f"row(): a body has {_BODY_MAX} bytes at most")
    if not process.wants_row(kind):
        return False
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        writer = process.new_writer()
    number = name if type(name) is int else name_of(process, name)
    return writer.row(
        kind & ~layout.ROW_LATE, begin_ns, end_ns, number | (correlation_id & 0xFFFFFFFF) << 32, body
    )


def row_wanted(kind: int, /) -> bool:
    """Whether rows of this kind are recorded now."""
    process = current.process
    if process is None or (process.recording[0] != _ON and not kind & layout.ROW_LATE):
        return False
    return process.wants_row(kind)


def intern(text: object, /) -> int:
    """The id of a name, for bodies of rows; 0 without a session."""
    process = current.process
    return 0 if process is None else name_of(process, text)


def process_serial() -> int:
    """This process's number in the session; 0: none."""
    process = current.process
    return 0 if process is None else process.serial


# -- calls of functions; what does it is loaded only by programs that are traced -----------------------------


def trace_calls(
    decide: Callable[[Any, Any], Any], disable: object, limit: int, c_calls: bool, /
) -> dict[str, Callable[..., object]] | int:
    """Begin to record calls of functions; see `interface.Backend`."""
    from topstx.recorder import twin_calls

    return twin_calls.trace_calls(decide, disable, limit, c_calls)


def untrace_calls() -> int:
    """Record no more of them."""
    from topstx.recorder import twin_calls

    return twin_calls.untrace_calls()


def trace_memory(rate: int, seed: int, /) -> None:
    """Not here: see `interface.Backend`."""
    raise RuntimeError(
        "memory of Python is sampled by the recorder in C only, which is not built for this Python: install "
        "tops-kit where there is a C compiler"
    )


def trace_numpy(module: object, /) -> bool:
    """As above."""
    return False


def untrace_memory() -> tuple[int, int]:
    """As above."""
    return 0, 0


def tell_calls() -> None:
    """Record how many were only counted so far."""
    from topstx.recorder import twin_calls

    twin_calls.tell_calls()


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
        if listening.on:
            listening.hear(PUSH, 0, message, self.name)
        if process is not None:
            push(process, message, color, self.name, category, payload)

    def pop_range(self) -> None:
        process = current.process
        if listening.on:
            listening.hear(POP, 0, None, self.name)
        if process is not None:
            pop(process, self.name)

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
