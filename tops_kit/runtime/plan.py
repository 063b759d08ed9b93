"""A kernel made ready for a shape and types of arguments: what all its launches have in common."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from tops_kit.engine.c_engine import CEngine, quick_of, result_of
from tops_kit.engine.fault import KernelFault, interrupted_output
from tops_kit.engine.findings import Report
from tops_kit.engine.launch import ENGINES, launch
from tops_kit.engine.options import Options, three
from tops_kit.engine.result import LaunchResult
from tops_kit.errors import UserError
from tops_kit.gcu import Specification
from tops_kit.gcu.simulation import Operation
from tops_kit.isa.program import Program
from tops_kit.isa.table import OPCODES
from tops_kit.runtime import costs
from tops_kit.runtime.driver import PROGRAM_LOAD
from tops_kit.runtime.errors import LaunchError

if TYPE_CHECKING:
    from tops_kit.engine.report import LaunchTiming
    from tops_kit.runtime.settings import Settings
    from tops_kit.runtime.stream import Stream

PACKED = struct.Struct("=Q5q5iiii")  # an array, as packing.py lays it out: extents beyond 31 bits do not fit
_RESTS = tuple((0,) * (5 - axes) for axes in range(6))
_MOVED = struct.Struct("=16q")  # from and to: none, L1, L2, L3
# by type, numbers that are packed as they are: of those that have to be rounded none
_NONE = (math.inf, -math.inf)
_SMALL = {"f16": _NONE, "bf16": _NONE, "i16": (-(1 << 15), (1 << 15) - 1), "i8": (-128, 127), "u8": (0, 255)}


class Planner(Protocol):
    """What makes plans: a kernel with its threads."""

    def plan_for(
        self, args: tuple[Any, ...], keywords: dict[str, Any], stream: Stream | None
    ) -> tuple[Plan, tuple[Any, ...], bool]:
        """The plan for arguments, those in order, and whether arrays of a device are among them."""


class Plan:
    """A program with the grid, part and settings it is launched with; `run` launches it on the engine.

    `arrays` and `scalars` are the places of its parameters among the arguments. Raises LaunchError: the part
    can't run it.
    """

    def __init__(
        self,
        program: Program,
        part: Specification,
        settings: Settings,
        *,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        positions: Sequence[int],
        names: Sequence[str],
        launcher: Planner,
        pack: Callable[[Sequence[Any]], list[Any]],
        holds: Callable[[], bool],
    ) -> None:
        self.program = program
        self.part = part
        self.settings = settings
        self.grid = grid
        self.block = block
        self.name = program.name
        self.names = tuple(names)  # of all arguments
        self.launcher = launcher  # that made it
        self.pack = pack  # the general way: what the engine takes of arguments
        self.holds = holds  # whether what was compiled is still what the source says
        self.blocks = math.prod(grid)
        self.threads = math.prod(block)  # of a block
        self.clusters = min(part.clusters, self.blocks)
        self.sips = min(part.sips, self.blocks * math.prod(block))  # that it keeps busy
        pointers: list[tuple[int, int]] = []
        scalars: list[tuple[int, int]] = []
        form = "="
        self.small: list[tuple[int, float, float]] = []  # numbers of 8 and 16 bits: place, range
        for parameter, position in zip(program.parameters, positions, strict=True):
            if parameter.kind == "pointer":
                pointers.append((parameter.index, position))
                continue
            scalars.append((parameter.index, position))
            form += "if" if parameter.dtype.is_float else "ii"
            if parameter.dtype.name in _SMALL:
                self.small.append((position, *_SMALL[parameter.dtype.name]))
        pointers.sort()
        self.arrays = tuple(position for _, position in pointers)
        self.scalars = tuple(scalars)
        self.form = struct.Struct(form)
        parameters = program.pointers
        at = dict(zip(self.arrays, parameters, strict=True))
        self.loaded = tuple(p for p in self.arrays if at[p].loaded or at[p].atomic)
        self.stored = tuple(p for p in self.arrays if at[p].stored or at[p].atomic)
        try:
            shapes = three(grid), three(block)
        except ValueError as reason:
            raise LaunchError(f"{self.name}: {reason}") from None
        self.options = Options(
            *shapes, settings.mode, ENGINES.cores if settings.host_threads is None else settings.host_threads,
            settings.budget_s, settings.defer, part, intervals=settings.pipeline,
        )  # fmt: skip
        self.engine: CEngine | None = None if settings.engine == "oracle" else ENGINES.c()
        # of each array: where it is given, axes, its type's number and bytes, whether it is stored to
        self._forms = tuple(
            (p, at[p].ndim, at[p].dtype.code, at[p].dtype.size_bytes, at[p].stored or at[p].atomic)
            for p in self.arrays
        )
        self.quick = self.engine is not None and settings.mode in ("fast", "counted", "timed")
        codes = set(program.code[:, 0].tolist())
        self.cooperative = OPCODES["gridbarrier"] in codes
        if self.engine is not None:
            try:
                self.ready = PROGRAM_LOAD.call(self.engine.prepared, program)
                self.wanted = self.engine.times_wanted(program, self.options)
                if self.quick:
                    self.launch = quick_of(self.engine, self.ready, self.options, self.wanted)
                    self.run_engine = self.engine.module.quick_run
            except ValueError as reason:
                raise LaunchError(f"{self.name}: {reason}") from None
        self.untimed_ns = costs.launch_ns(part)

    @cached_property
    def full_name(self) -> str:
        """The kernel with what it was compiled for: "softmax(x: f32[2], n: i32, COLS=512)"."""
        types = [
            f"{p.name}: {p.dtype}[{p.ndim}]" if p.kind == "pointer" else f"{p.name}: {p.dtype}"
            for p in self.program.parameters
        ]
        return (
            f"{self.name}({', '.join([*types, *(f'{k}={v}' for k, v in self.program.constexprs.items())])})"
        )

    def done(self, operation: Operation) -> None:
        """It stands for launches that nobody wants to hear of."""

    def run(self, values: Sequence[Any]) -> Outcome:
        """Run it on arrays of a device (quick) or anything; shows what it prints.

        Raises LaunchError, KernelFault, and what a signal's handler raises.
        """
        try:
            if self.quick:
                assert self.engine is not None
                try:
                    arrays = b"".join(
                        [
                            _packed_host(values[form[0]], form)
                            if type(values[form[0]]) is np.ndarray
                            else values[form[0]].packed
                            for form in self._forms
                        ]
                    )
                    numbers: list[Any] = []
                    for register, position in self.scalars:
                        numbers += (register, values[position])
                    scalars = self.form.pack(*numbers)
                    for position, low, high in self.small:
                        if not low <= values[position] <= high:
                            raise OverflowError
                except (AttributeError, struct.error, OverflowError):
                    arrays, scalars = self._packed(values)
                return self.outcome(self.run_engine(self.launch, arrays, scalars))
            settings, options = self.settings, self.options
            result = launch(
                self.program, self.pack(values), grid=options.grid, block=options.block, spec=self.part,
                mode=settings.mode, host_threads=settings.host_threads, budget_s=settings.budget_s,
                pipeline=settings.pipeline, defer=settings.defer, engine=settings.engine,
            )  # fmt: skip
        except BaseException as error:
            self._failed(error)
        self._show(result)
        return Outcome(self, None, result)

    def outcome(self, raw: tuple[Any, ...]) -> Outcome:
        """What the C engine gave; shows what was printed. Raises KernelFault."""
        if raw[0] is not None or raw[1] or raw[2]:
            self._show(result_of(self.program, self.options, raw))
        return Outcome(self, raw)

    def ended(self, given: tuple[Any, ...] | BaseException) -> Outcome:
        """A run that C made (_quick.c): what the engine gave, or what it raised; as `run`."""
        try:
            if isinstance(given, BaseException):
                raise given
            return self.outcome(given)
        except BaseException as reason:
            self._failed(reason)

    def _failed(self, error: BaseException) -> NoReturn:
        """Shows what was printed before, and raises what the caller of `run` is to get."""
        if isinstance(error, KernelFault):
            self._print(error.output)
            if error.report is not None and len(error.report) > 1:
                self._tell(error.report)  # more than the fault itself says
            raise error.with_traceback(None) from None
        if isinstance(error, UserError):
            raise error
        if isinstance(error, ValueError):
            raise LaunchError(f"{self.name}: {error}") from None
        self._print(interrupted_output(self.program, error))
        raise error

    def _packed(self, values: Sequence[Any]) -> tuple[bytes, bytes]:
        """The general way: numbers out of range are told, infinite ones are taken."""
        from tops_kit.engine.packing import pack_arguments

        return pack_arguments(self.program.parameters, self.pack(values))

    def _show(self, result: LaunchResult) -> None:
        self._print(result.output)
        if result.dropped_prints:
            text = f"{self.name}: {result.dropped_prints} printed lines were dropped: a thread has 1 MB"
            if sys.stderr is not None:
                print(text, file=sys.stderr)

        if self.settings.mode == "sanitized" and not result.faults.clean:
            self._tell(result.faults)

    def _tell(self, report: Report) -> None:
        if not self.settings.quiet:
            print(report.short(), file=sys.stderr)

    def _print(self, lines: Any) -> None:
        out = sys.stdout
        if not lines or self.settings.quiet or out is None:
            return
        text = "".join(f"{line}\n" for line in lines)
        try:
            out.write(text)
        except UnicodeEncodeError as error:  # the kernel has run: what a terminal can't show costs no more
            out.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))


def _packed_host(value: np.ndarray[Any, Any], form: tuple[int, int, int, int, bool]) -> bytes:
    """A host's array as the engine takes it. OverflowError: it needs a closer look."""
    _, ndim, code, size, stored = form
    shape, strides = value.shape, value.strides
    address = value.__array_interface__["data"][0]
    writable = value.flags.writeable
    odd = address
    for stride in strides:
        odd |= stride
    if len(shape) != ndim or odd % size or (stored and not writable):
        raise OverflowError
    rest = _RESTS[ndim]
    return PACKED.pack(address, *strides, *rest, *shape, *rest, ndim, code, writable)


class Outcome:
    """What the engine gave for a launch. `result` and `report` are made when they are asked for."""

    __slots__ = ("_raw", "_report", "_result", "plan")

    def __init__(self, plan: Plan, raw: tuple[Any, ...] | None, result: LaunchResult | None = None) -> None:
        self.plan = plan
        self._raw = raw
        self._result = result
        self._report: LaunchTiming | None = None

    @property
    def result(self) -> LaunchResult:
        """All that the engine gives."""
        if self._result is None:
            assert self._raw is not None
            self._result = result_of(self.plan.program, self.plan.options, self._raw)
            self._raw = None
        return self._result

    @property
    def printed(self) -> Sequence[tuple[str, tuple[int, int]]]:
        """Lines that it printed, and (block, thread) of each."""
        if self._raw is not None and not self._raw[1]:
            return ()
        return list(zip(self.result.output, self.result.printed_by, strict=False))

    @property
    def duration_ns(self) -> int:
        """How long it takes on the part alone; where it was not timed, what any launch takes."""
        raw = self._raw
        if raw is not None:
            times = raw[5]
            return self.plan.untimed_ns if times is None else self.plan.part.nanoseconds(times[0])
        result = self.result
        return (
            self.plan.untimed_ns if result.times is None else self.plan.part.nanoseconds(result.times.cycles)
        )

    @property
    def l3_bytes(self) -> int:
        """What it moved from and to L3."""
        raw = self._raw
        if raw is not None:
            times = raw[5]
            if times is None:
                return 0
            m = _MOVED.unpack(times[4])
            return int(m[3] + m[7] + m[11] + m[12] + m[13] + m[14] + 2 * m[15])
        times = self.result.times
        return 0 if times is None else int(times.moved[3].sum() + times.moved[:, 3].sum())

    @property
    def report(self) -> LaunchTiming:
        """Where the time went. LaunchError: the launch was not timed."""
        if self._report is None:
            from tops_kit.engine.report import launch_timing

            result = self.result
            if result.times is None or result.counts is None:
                raise LaunchError(untimed(self.plan.name, result))
            threads = math.prod(result.block)
            self._report = launch_timing(
                self.plan.program, self.plan.part, result.times, result.counts, block_threads=threads
            )
        return self._report


def untimed(name: str, result: LaunchResult) -> str:
    """Why a launch has no times."""
    return f'{name}: this launch was not timed (mode {result.mode}): launch kernel.options(mode="timed")[...]'
