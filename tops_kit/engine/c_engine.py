"""The C machine from Python: programs prepared once, memories and host threads kept between launches."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tops_kit import gcu
from tops_kit.engine import printing, timing_parameters
from tops_kit.engine.fault import fault_error, raw_fault
from tops_kit.engine.findings import Report
from tops_kit.engine.limits import check_limits
from tops_kit.engine.options import MODES, Options
from tops_kit.engine.packing import Argument, pack_arguments, pack_program
from tops_kit.engine.result import EVENT, LaunchResult
from tops_kit.engine.timing_result import SIP_COLUMNS, TimingResult
from tops_kit.gcu import Specification
from tops_kit.isa.program import Program
from tops_kit.isa.table import OPCODES
from tops_kit.isa.verify import verify

_RAN = {0: "in order", 1: "in parallel", 3: "again"}
INTERFACE = 5  # of the C module: as in module.c


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program made ready: the C module's kernel, and what the cost model has to know of the program."""

    kernel: Any
    flags: bytes
    has_clock: bool
    cooperative: bool


class CEngine:
    """The C machine with what it keeps.

    One launch at a time has the memories; another that begins meanwhile (in a signal's handler) gets its own.
    """

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self._engine = module.engine()
        self._prepared: weakref.WeakKeyDictionary[Program, Prepared] = weakref.WeakKeyDictionary()
        self._parts: dict[str, Specification] = {}
        self._figures: weakref.WeakKeyDictionary[Specification, bytes] = weakref.WeakKeyDictionary()

    @property
    def tiles(self) -> str:
        """Which instructions of the processor the tile library uses: "generic", "avx2", "avx512"."""
        return str(self.module.TILES)

    def prepared(self, program: Program) -> Prepared:
        """The program ready for the machine. Raises BinaryError where it can't be run."""
        ready = self._prepared.get(program)
        if ready is None:
            verify(program)
            has_clock, cooperative = (
                bool(np.any(program.code[:, 0] == OPCODES[name])) for name in ("clock", "gridbarrier")
            )
            kernel = pack_program(self.module, program)
            flags = timing_parameters.flags(program).tobytes()
            ready = Prepared(kernel, flags, has_clock, cooperative)
            self._prepared[program] = ready
        return ready

    def times_wanted(self, program: Program, options: Options) -> tuple[bytes, bytes, bool] | None:
        """What the cost model needs, where times (or a clock) are asked for.

        Of the program's part when no other is given. ValueError: the part can't run the launch.
        """
        ready = self.prepared(program)
        wanted = options.mode == "timed" or ready.has_clock
        spec = options.spec or (self._part(program.arch) if wanted else None)
        if spec is not None:
            check_limits(program, spec, options.grid, options.block, cooperative=ready.cooperative)
        if spec is None or not wanted:
            return None
        figures = self._figures.get(spec)
        if figures is None:
            figures = self._figures[spec] = timing_parameters.parameters(spec).packed()
        return figures, ready.flags, options.intervals

    def _part(self, name: str) -> Specification:
        if name not in self._parts:
            self._parts[name] = gcu.load(name)
        return self._parts[name]

    def launch(self, program: Program, arguments: Sequence[Argument], options: Options) -> LaunchResult:
        """Run a program; see launch.launch."""
        ready = self.prepared(program)
        wanted = self.times_wanted(program, options)
        arrays, scalars = pack_arguments(program.parameters, arguments)
        raw = self.run(ready, options, arrays, scalars, wanted)
        report = None if raw[7] is None else _report(program, arguments, options, raw[7])
        return result_of(program, options, raw, report)

    def run(
        self,
        ready: Prepared,
        options: Options,
        arrays: bytes,
        scalars: bytes,
        wanted: tuple[bytes, bytes, bool] | None,
    ) -> tuple[Any, ...]:
        """Run a prepared program on packed arguments: what the C module gives, for `result_of`."""
        raw: tuple[Any, ...] = self.module.launch(
            self._engine,
            ready.kernel,
            MODES.index(options.mode),
            arrays,
            scalars,
            options.grid,
            options.block,
            options.host_threads,
            options.budget_s,
            options.defer,
            options.events,
            wanted,
        )
        return raw


def quick_of(engine: CEngine, ready: Prepared, options: Options, wanted: Any) -> Any:
    """A prepared program with all of a launch but its arguments; `module.quick_run` runs it."""
    return engine.module.quick(
        engine._engine, ready.kernel, MODES.index(options.mode), options.grid, options.block,
        options.host_threads, options.budget_s, options.defer, wanted,
    )  # fmt: skip


def result_of(
    program: Program, options: Options, raw: tuple[Any, ...], report: Report | None = None
) -> LaunchResult:
    """The result of a launch from what the C module gave. Raises KernelFault and KeyboardInterrupt."""
    fault, prints, dropped, counts, traces, times, ran, _ = raw
    output = printing.lines(prints, program.strings) if prints else []
    if report is None:
        report = Report()  # (one without findings is false)
    if fault is not None:
        raise fault_error(program, raw_fault(fault), prints or b"", report)
    return LaunchResult(
        options.mode,
        options.grid,
        options.block,
        "c",
        output,
        dropped,
        None if counts is None else np.frombuffer(counts, np.int64),
        None if traces is None else [np.frombuffer(events, EVENT) for events in traces],
        None if times is None else TimingResult.of_bytes(times, _sips(times)),
        faults=report,
        ran=_RAN[ran],
        printed_by=printing.places(prints) if prints else [],
    )


def _report(program: Program, arguments: Sequence[Argument], options: Options, found: Any) -> Report:
    from tops_kit.engine.findings_reading import Reader

    return Reader(program, arguments, math.prod(options.block)).report(found)


def _sips(times: tuple[Any, ...]) -> int:
    """How many rows the table of SIPs has."""
    return len(times[1]) // (8 * len(SIP_COLUMNS))
