"""`@tops.kernel`: a function that is compiled for the GCU, and launched on arrays of the host.

@tops.kernel
def double(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32, BLOCK: tops.constexpr = 4096):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(y[i:j], tops.load(x[i:j]) * 2.0)

double[24](x, y, len(x))
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, overload

from tops_kit.errors import UserError
from tops_kit.gcu import Specification
from tops_kit.isa.program import Program
from tops_kit.runtime import activity as acts
from tops_kit.runtime.arguments import Arguments
from tops_kit.runtime.errors import LaunchError
from tops_kit.runtime.examples import Examples
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.launch_shape import shape_of_threads
from tops_kit.runtime.launcher import Launcher
from tops_kit.runtime.parts import PARTS, target_of
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.settings import Settings, check_options, check_together
from tops_kit.topscc.python.build import build, too_deep
from tops_kit.topscc.python.captures import Captures
from tops_kit.topscc.python.signature import Parameter, read_signature
from tops_kit.topscc.python.source import FunctionSource, source_lines, source_of

if TYPE_CHECKING:
    from tops_kit.topscc.tree import Kernel as Tree

_MOST_KEPT = 256  # compiled variants of a kernel; a constexpr that changes at every launch fills no memory
_MOST_LAUNCHERS = 64  # each with plans, which keep what launches gave; nor does a grid that always changes


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel compiled for types, constexprs and a part. `types`: what was compiled for, by parameter."""

    program: Program
    types: dict[str, Any]
    captures: Captures


@dataclass(eq=False)
class Definition:
    """The function behind a kernel, its parameters, and what was compiled of it so far."""

    function: FunctionType
    examples: Examples = field(default_factory=Examples)
    compiled: dict[tuple[Any, ...], Compiled] = field(default_factory=dict)
    # the lines of its file when it was imported, and when that was: somebody may edit it while it runs
    lines: Sequence[str] = ()
    read_s: float = math.inf

    @cached_property
    def source(self) -> FunctionSource:
        """Its source."""
        return source_of(self.function, self.lines, self.read_s)

    def helper(self, function: FunctionType) -> FunctionSource:
        """The source of a function that it calls."""
        same = function.__code__.co_filename == self.function.__code__.co_filename
        return source_of(function, self.lines if same else (), self.read_s)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters."""
        return read_signature(self.source)

    @cached_property
    def arguments(self) -> Arguments:
        """What matches arguments with them."""
        return Arguments(self.parameters)

    def get(
        self, args: tuple[Any, ...], keywords: dict[str, Any], part: Specification
    ) -> tuple[Any, Compiled]:
        """The arguments in order, and the kernel compiled for them."""
        try:
            values = self.arguments.ordered(args, keywords)
        except LaunchError as reason:
            raise self.named(reason) from None
        return values, self.compiled_for(values, part)

    def compiled_for(self, values: Sequence[Any], part: Specification) -> Compiled:
        """The kernel compiled for arguments in order."""
        try:
            key = (part, *self.arguments.key(values))
            found = self.compiled.get(key)
        except LaunchError as reason:
            raise self.named(reason) from None
        except TypeError as reason:
            raise LaunchError(f"{self.function.__name__}: a constexpr can't be compared: {reason}") from None
        if found is None or not found.captures.hold():
            found = self.compile(values, part)
            if len(self.compiled) >= _MOST_KEPT:
                self.compiled.pop(next(iter(self.compiled)))
            self.compiled[key] = found
        return found

    def named(self, reason: LaunchError) -> LaunchError:
        """An error with the kernel's name."""
        return LaunchError(f"{self.function.__name__}: {reason}")

    def build(self, values: Any, part: Specification) -> tuple[Tree, dict[str, Any], Captures]:
        """The kernel's tree for arguments."""
        try:
            types = self.arguments.described(values)
        except LaunchError as reason:
            raise self.named(reason) from None
        tree, captures = build(self.source, self.parameters, types, target_of(part), self.helper)
        return tree, types, captures

    def compile(self, values: Any, part: Specification) -> Compiled:
        """The program for arguments. Raises KernelError, LaunchError."""
        from tops_kit.topscc.lower import lower

        begin_ns = HOOKS.now_ns() if HOOKS.kinds & acts.OVERHEAD else 0
        tree, types, captures = self.build(values, part)
        try:
            compiled = Compiled(lower(tree), types, captures)
        except RecursionError:
            raise too_deep(tree.where) from None
        if HOOKS.kinds & acts.OVERHEAD:
            thread = HOOKS.thread
            took = acts.OverheadActivity(
                acts.OVERHEAD_COMPILE, begin_ns, HOOKS.now_ns(), thread.thread_id, thread.correlation_id,
                self.function.__name__,
            )  # fmt: skip
            HOOKS.emit(acts.OVERHEAD, took)
        return compiled


class Kernel:
    """A kernel, with the settings it is launched with.

    `kernel[threads](...)` runs that many threads, each on a SIP core of the part; `kernel[grid, block](...)`
    blocks of threads that share L2 and barriers (each an int or up to 3 of them). Arguments are arrays and
    numbers, by position or name; the result is a Launch. On arrays of a device (`tops.array`) it is
    asynchronous; numpy arrays and CPU torch tensors are used in place, and the launch waits for the end.
    """

    __kernel__ = True

    def __init__(self, definition: Definition, settings: Settings | None = None) -> None:
        self._definition = definition
        self._settings = settings or Settings()
        self._launchers: dict[Any, Launcher] = {}
        self.__doc__ = definition.function.__doc__
        self.__name__ = self.name
        self.__module__ = definition.function.__module__
        self.__wrapped__ = definition.function

    # what it is

    @property
    def name(self) -> str:
        """The function's name."""
        return self._definition.function.__name__

    @property
    def function(self) -> FunctionType:
        """The Python function."""
        return self._definition.function

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters. Raises KernelError."""
        return self._definition.parameters

    @property
    def part(self) -> Specification:
        """The part that it is compiled for: that of `on`, else of the thread's device."""
        return self._settings.part or RUNTIME.default_part()

    @property
    def source_hash(self) -> str:
        """16 hex digits that change with its source."""
        text = self._definition.source.file.text
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    # settings

    def on(self, part: str | Path | Specification) -> Kernel:
        """The kernel for another part: "s60", "i20", "t20", or a file. Raises LaunchError."""
        return Kernel(self._definition, replace(self._settings, part=PARTS.chosen(part)))

    def options(self, **settings: Any) -> Kernel:
        """The kernel with other settings.

        mode: "timed" (default: cycles, and a report), "fast" (results only), "counted", "sanitized", "debug".
        pipeline: what each unit did when, in a timed launch. host_threads: of this machine (default: its
        cores); results don't depend on it. budget_s: a launch that takes longer is a fault (60; 0: none).
        defer: transfers move when they complete (sanitized, debug). quiet: what the kernel prints goes to
        `Launch.output` only, what the sanitizer finds to `Launch.faults`. engine: "c", or "oracle" (Python;
        slow). stream: that launches go to (default: the thread's). cooperative: all blocks have to be there
        at once. Raises LaunchError.
        """
        check_options(self.name, settings)
        return Kernel(self._definition, replace(self._settings, **settings))

    # compiling

    def compile(self, /, *args: Any, **keywords: Any) -> Program:
        """The program for arguments; nothing runs. In place of an array, `tops.ArrayType(dtype, ndim)` does.

        Raises KernelError, LaunchError.
        """
        return self._definition.get(args, keywords, self.part)[1].program

    def tree(self, /, *args: Any, **keywords: Any) -> Tree:
        """The kernel's tree for arguments: what the compiler made of the source."""
        try:
            values = self._definition.arguments.ordered(args, keywords)
        except LaunchError as reason:
            raise self._definition.named(reason) from None
        return self._definition.build(values, self.part)[0]

    # examples, for `topscc run`

    @property
    def examples(self) -> Examples:
        """What `topscc run` launches it with, and checks it against."""
        return self._definition.examples

    def example(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: a function that makes arguments, for `topscc run` and tests; see Examples.example."""
        return self._definition.examples.example(function)

    def reference(self, function: Callable[..., Any] | None = None, **tolerances: float) -> Any:
        """Decorator: a function that computes what the kernel should; see Examples.reference."""
        return self._definition.examples.reference(function, **tolerances)

    # launching

    def __getitem__(self, threads: Any) -> Launcher:
        """`kernel[threads]` or `kernel[grid, block]`. Raises LaunchError."""
        # True is equal to 1, and 1.0 too: only ints and tuples are looked up
        kind = type(threads)
        key = threads if kind is int else _text(threads) if kind is tuple else None
        if key is not None and self._settings.part is None:
            key = (key, RUNTIME.local.device)  # devices may be of several parts
        found = None if key is None else self._launchers.get(key)
        if found is None:
            check_together(self.name, self._settings)
            grid, block = self.shape(threads)
            found = Launcher(self._definition, self._settings, grid, block)
            if key is not None:
                if len(self._launchers) >= _MOST_LAUNCHERS:
                    self._launchers.pop(next(iter(self._launchers)))
                self._launchers[key] = found
        return found

    def shape(self, threads: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Grid and block of `kernel[threads]`: a number of threads is split over the part's clusters."""
        return shape_of_threads(self.name, threads, self.part)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise LaunchError(
            f"{self.name} is a kernel: say how many threads run it: {self.name}[{self.part.sips}](...)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes and copies: by its name in its module, with its settings."""
        function = self._definition.function
        return _kernel_again, (function.__module__, function.__qualname__, self._settings)

    def __repr__(self) -> str:
        return f"<kernel {self.name} for {self.part.name}>"


def _text(threads: tuple[Any, ...]) -> str | None:
    """What a grid and block are looked up by; None: they can't be."""
    try:
        return repr(threads)
    except Exception:  # whatever the representation of a program's class raises
        return None


def _kernel_again(module: str, name: str, settings: Settings) -> Kernel:
    """A kernel that came from another process."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Kernel):
        raise UserError(f"{name} is no kernel of module {module}: other processes find kernels by name only")
    return Kernel(found._definition, settings)


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel() -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(function: Callable[..., Any] | None = None, /) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel: `@tops.kernel`, or `@tops.kernel()`. It is compiled at its first launch, from
    its source. Settings of a launch are options: `kernel.options(mode="fast")[24](...)`.

    @tops.kernel
    def softmax(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), rows: tops.i32, COLS: tops.constexpr): ...

    softmax[24](x, y, rows=4096, COLS=4096)
    """
    if function is None:
        return kernel
    if isinstance(function, Kernel):
        return function
    if not isinstance(function, FunctionType):
        raise UserError(f"@tops.kernel stands above a function, not {type(function).__name__}: @tops.kernel")
    if next(iter(inspect.signature(function).parameters), "") == "self":
        raise UserError(
            f"{function.__qualname__} is a method: kernels are functions that take arrays and numbers; "
            "move it out of the class, or leave out self under @staticmethod"
        )
    return Kernel(Definition(function, lines=source_lines(function), read_s=time.time()))
