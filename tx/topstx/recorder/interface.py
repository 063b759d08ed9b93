"""What a recorder back end (`_crec` in C, `twin` in Python) offers. Both have the same tests; `topstx`
re-exports the names.

Rules that hold for every function here
- Nothing raises because recording fails: a full disk, a removed folder or too many names drop and count
  (see the `lost_*` fields of topstx_names_header and `dropped` of a ring). Wrong argument *types* never
  raise either: a message that is no str is recorded as str(message); a payload of another type as its
  repr. What such code of the program raises is forgotten, unless it is no Exception: a KeyboardInterrupt or
  SystemExit of a signal handler that ran meanwhile reaches the program.
- While control.recording is off, or no session is attached, each call does nothing but look at that switch.
- What a call returns never steers the program: push, pop, mark return None; `start_range` returns an int
  that is only good for `end_range` (0 when nothing was recorded; `end_range(0)` and `end_range(None)` do
  nothing).
- `domain` is None (the default domain), a str, or a Domain. `category` is None, a str or an int. `color`
  is None, a name ("blue"), "#rrggbb"/"#aarrggbb"/"#rgb", or an int 0xAARRGGBB (0xRRGGBB gets alpha
  0xFF). An unknown colour is no colour.
- A payload is an int (64 bits; a wider one becomes a str), float, bool (as int), str, bytes/bytearray,
  or dict (as JSON text).

Ranges
- An open range belongs to (thread, context), context being the identity of the current
  contextvars.Context: asyncio tasks of one thread never mix. `pop_range` closes the innermost range that
  was *pushed* in the same domain by the same thread in the same context (else one pushed outside any
  context); it never closes one that `annotate` opened. None left: `unbalanced` counts.
- `task` of a record is 0 for the first context that a thread records in and for no context; else a
  nonzero 32-bit id of the context.
- `depth` is the number of open ranges (pushed or annotated) of the same thread and context at the begin.
- A range that began while recording was on is recorded at its end although recording went off meanwhile.
  Pushes made while recording is off and their pops cancel out: they close nothing that was pushed
  before.
- `annotate` objects close the very slot they opened, in any order, in any thread or task (a finish in
  another thread goes to the shared ring). An `annotate` object may be entered again while open
  (recursion, threads): each entry has its own slot. `__exit__` with an exception sets TOPSTX_FLAG_ERROR
  and MORE_ERROR (type name, no module), and returns None. GeneratorExit is no error.
  `contextlib.ExitStack` calls `type(x).__enter__(x)`: that works as well.
- Arguments are checked alike while recording is on and off: an unknown keyword or one too many is a
  TypeError always.
- start/end ranges live in the process's shared ring (`ring_header.shared == 1`), a THREAD record before
  each change of thread there; the record's thread is the one that began it, MORE_END_TID the one that
  ended it when it differs.
- Armed recording (control.recording == ARMED): a range whose message equals capture_name, in domain
  capture_domain, switches recording on and, at its end, does what control.capture_end says.
- Domains filtered out by control.domain_include/_exclude record nothing. There the default domain is
  called "default".

Life of a process
- `attach` opens the session, writes the names file with PROCESS entries, and arranges for fork (a child
  gets a new serial, a names file that starts at (parent serial, parent's count), no rings, no open
  ranges), for the end of a thread (ring -> IDLE, back to a pool of the process) and for exit
  (exit_status by note_exit; rings -> RETIRED).
- The header's `backend` says who wrote the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Annotate(Protocol):
    """`annotate(message, color, domain, category, payload)`: a context manager, and a decorator.

    As a decorator without a message it takes the function's `__qualname__`. It calls
    `topstx._wrap.wrap(func, make, each)` for what is no plain function, with `make() -> Annotate` a fresh
    object per call and `each` one that decorates a class's methods; a plain function gets the back end's
    own fast wrapper. `staticmethod` and `classmethod` objects are unwrapped and rewrapped.

    Called with nothing but a function, method, class, or what else is callable and has a `__qualname__` of
    its own, it decorates that (`@annotate` without parentheses); `Domain.annotate` too. Other callable
    objects are messages.
    """

    def __init__(
        self,
        message: object = None,
        color: object = None,
        domain: object = None,
        category: object = None,
        payload: object = None,
    ) -> None: ...
    def __enter__(self) -> Annotate: ...
    def __exit__(self, kind: type[BaseException] | None, value: object, traceback: object) -> None: ...
    def __call__(self, func: F) -> F: ...


class Counter(Protocol):
    """A counter of a domain: `sample(value)` records one value (int or float) at the present time."""

    name: str
    unit: str

    def sample(self, value: float) -> None: ...


class Domain(Protocol):
    """One domain; `get_domain(name)` returns the same object each time. `get_domain(None)` is the default
    one (name "").
    """

    name: str

    def __init__(self, name: str | None = None) -> None: ...
    def push_range(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> None: ...
    def pop_range(self) -> None: ...
    def mark(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> None: ...
    def start_range(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> int: ...
    def end_range(self, range_id: int | None) -> None: ...
    def annotate(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> Annotate: ...
    def counter(self, name: str, unit: str = "") -> Counter: ...
    def get_registered_string(self, string: str) -> str:
        """`string`, interned (sys.intern): the quickest message to pass."""
        ...

    def get_category_id(self, name: str) -> int:
        """A number for the category `name` in this domain, usable as `category`: 1, 2, ... in order of
        first use.
        """
        ...


DomainType = Domain  # inside Backend those names are its own attributes
CounterType = Counter


class Backend(Protocol):
    """Attributes of the modules `topstx.recorder._crec` and `topstx.recorder.twin`."""

    NAME: str  # "c" or "twin"
    annotate: type[Annotate]
    Domain: type[DomainType]
    Counter: type[CounterType]

    def push_range(
        self,
        message: object = None,
        color: object = None,
        domain: object = None,
        category: object = None,
        payload: object = None,
    ) -> None: ...
    def pop_range(self, domain: object = None) -> None: ...
    def mark(
        self,
        message: object = None,
        color: object = None,
        domain: object = None,
        category: object = None,
        payload: object = None,
    ) -> None: ...
    def start_range(
        self,
        message: object = None,
        color: object = None,
        domain: object = None,
        category: object = None,
        payload: object = None,
    ) -> int: ...
    def end_range(self, range_id: int | None) -> None: ...
    def get_domain(self, name: str | None = None) -> DomainType: ...
    def counter(self, name: str, unit: str = "", domain: object = None) -> CounterType: ...
    def set_thread_name(self, name: str, tid: int = 0) -> None:
        """THREAD entry for kernel thread `tid` (0: the calling one)."""
        ...

    def process_entry(self, key: str, value: str) -> None:
        """PROCESS entry; topstx writes argv, executable, cwd, python, name, backend_reason through it, also
        in fork children.
        """
        ...

    def attach(self, folder: str) -> bool:
        """Attach to the session being recorded in `folder`. False when it has no valid `control` or can't
        be written.

        A second call with another folder leaves the first one in order. Never raises.
        """
        ...

    def detach(self) -> None:
        """Leave the session in order: open ranges stay (unfinished), rings are RETIRED, end_tick is set."""
        ...

    def session(self) -> str | None:
        """The folder attached to, or None."""
        ...

    def listen(self, function: Callable[[int, int, Any, str], object] | None, /) -> None:
        """Call `function(what, key, message, domain)` at each mark and at the beginning and end of each
        range, whether or not anything is recorded; None: no more. `what`: 0 mark, 1 push, 2 pop, 3 enter and
        4 exit of an annotate, 5 start, 6 end. `key` tells open ranges of `annotate` and `start_range` apart,
        0 for others. While there is one, `start_range` gives an id also where nothing is recorded. What it
        raises is forgotten.
        """
        ...

    def is_recording(self) -> bool:
        """True when attached and control.recording is not off."""
        ...

    def profiler_start(self) -> None:
        """Switch control.recording on for the whole session, where it is off, no range is waited for, and
        the session is not over (control.shutdown_request, or as many captures as control.capture_end
        allows).
        """
        ...

    def profiler_stop(self) -> None:
        """Switch control.recording off, count a capture, and do what control.capture_end says: NONE and
        REPEAT let it be started again, STOP and STOP_SHUTDOWN don't.
        """
        ...

    def row(  # noqa: PLR0917 - the order of a record
        self,
        kind: int,
        begin_ns: int,
        end_ns: int,
        name: object,
        body: bytes,
        correlation_id: int = 0,
        /,
    ) -> bool:
        """Record a row of another table (topstx.recorder.rows); whether it is in the ring.

        Times are session ns (ticks from KIND_TICKS_FIRST on); `name` is a text, or an id that `intern` gave.
        Nothing is recorded while recording is off or armed, or when control.rows_off has the kind; with
        ROW_LATE added to the kind only the latter: of something that began while recording was on. The record
        also says, as `attr`, the name of the innermost open range of the calling thread and task. TypeError
        or ValueError for arguments that no row can have.
        """
        ...

    def row_wanted(self, kind: int, /) -> bool:
        """Whether `row` would record a row of this kind (also with ROW_LATE) now."""
        ...

    def intern(self, text: object, /) -> int:
        """The id of a name, for bodies of rows: good until the session ends, also in fork children. 0
        without a session.
        """
        ...

    def process_serial(self) -> int:
        """This process's number in the session (the one in the names of its files); 0 without a session."""
        ...

    def trace_calls(
        self, decide: Callable[[Any, Any], Any], disable: object, limit: int, c_calls: bool, /
    ) -> dict[str, Callable[..., object]] | int:
        """Begin to record calls of functions. `decide(code, globals)` is asked once for each code object
        (and, with `c_calls`, `decide(function, None)` for each in C): (name, module, file, line), or None: it
        is not traced. `limit`: calls of a function in a second past which its calls are only counted; 0:
        none.

        On 3.12 and later the result is what sys.monitoring is to call, by the names of its events; `disable`
        is its DISABLE. On 3.11 it is the number of threads that have a profile function already, and are
        not traced. RuntimeError when nothing can be traced.
        """
        ...

    def untrace_calls(self) -> int:
        """Record no more calls. On 3.11 how many places somebody else had taken from us."""
        ...

    def tell_calls(self) -> None:
        """Record how many calls were only counted so far."""
        ...

    def trace_memory(self, rate: int, seed: int, /) -> None:
        """Begin to sample allocations, one in `rate` bytes on average. RuntimeError where that is not
        possible.
        """
        ...

    def trace_numpy(self, module: object, /) -> bool:
        """Sample the data of numpy's arrays, too; `module` is numpy's in C. False: it is of an unknown
        version.
        """
        ...

    def untrace_memory(self) -> tuple[int, int]:
        """Sample no more. How many of Python's allocators another tool took from us, and how many records
        were lost for other reasons than a full ring.
        """
        ...

    def note_exit(self, known: int, status: int) -> None:
        """Store exit_known and exit_status: (1, status) before exit, (2, 0) before exec, (0, 0) when the
        exec failed.
        """
        ...
