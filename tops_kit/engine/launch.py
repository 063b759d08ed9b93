"""Launching programs: on the C machine, or on the oracle where there is none.

result = launch(program, [GlobalArray.of(x, F32), 4096], grid=(1,), block=(24,), mode="counted")
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import numpy as np

from tops_kit import extension, gcu
from tops_kit.engine import printing, timing, timing_parameters
from tops_kit.engine.c_engine import INTERFACE, CEngine
from tops_kit.engine.fault import RawFault, fault_error
from tops_kit.engine.findings import Report, unchecked
from tops_kit.engine.limits import MAX_THREADS, check_limits
from tops_kit.engine.options import Mode, Options, three, usable_cores
from tops_kit.engine.packing import Argument, GlobalArray, pack_arguments
from tops_kit.engine.result import LaunchResult
from tops_kit.errors import UserError
from tops_kit.gcu import Specification
from tops_kit.isa.program import Program
from tops_kit.isa.table import OPCODES

if TYPE_CHECKING:
    from tops_kit.engine.oracle import Oracle

__all__ = ["Engines", "GlobalArray", "LaunchResult", "launch"]

_ORACLES_KEPT = 64  # decoded programs, the last used


class Engines:
    """The engines of a process: made when first asked for."""

    def __init__(self) -> None:
        self.cores = usable_cores()
        self._c: CEngine | None = None
        self.why_not = ""  # why there is no C engine
        self._warned = False
        self._oracles: OrderedDict[Program, Oracle] = OrderedDict()  # each holds its program

    def c(self) -> CEngine | None:
        """The C machine, or None where the extension isn't built or TOPSKIT_PURE is set.

        Raises UserError where TOPSKIT_TILES names what this machine does not have.
        """
        if self._c is None and not self.why_not:
            module, self.why_not = extension.load("tops_kit.engine._engine", INTERFACE)
            if module:
                _check_tiles(module)
            self._c = CEngine(module) if module else None
        return self._c

    def oracle(self, program: Program) -> Oracle:
        """The oracle of a program."""
        from tops_kit.engine.oracle import Oracle

        oracle = self._oracles.pop(program, None) or Oracle(program)
        self._oracles[program] = oracle
        while len(self._oracles) > _ORACLES_KEPT:
            self._oracles.popitem(last=False)
        return oracle

    def warn(self) -> None:
        """Say once that kernels run slowly, and why."""
        if not self._warned:
            self._warned = True
            text = f"kernels run on the Python oracle, slowly, for want of the C engine ({self.why_not})"
            warnings.warn(text, stacklevel=_callers_level())


def _callers_level() -> int:
    """The `stacklevel` that leads from the caller to the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tops_kit."):
        frame, level = frame.f_back, level + 1
    return level


def _check_tiles(module: ModuleType) -> None:
    """That TOPSKIT_TILES, where it is set, names what is in use. UserError."""
    wanted = os.environ.get("TOPSKIT_TILES")
    if not wanted or wanted == module.TILES:
        return
    usable = []
    for name in ("generic", "avx2", "avx512"):
        with contextlib.suppress(ValueError):
            module.tile_path(name)
            usable.append(name)
    module.tile_path(module.TILES)
    raise UserError(f"TOPSKIT_TILES is {wanted!r}: this machine has {', '.join(usable)}")


ENGINES = Engines()  # what a process keeps between launches: programs made ready, memories, host threads


def launch(
    program: Program,
    arguments: Sequence[Argument],
    *,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    spec: Specification | None = None,
    mode: Mode = "fast",
    host_threads: int | None = None,
    budget_s: float = 60.0,
    pipeline: bool = False,
    events: bool = False,
    defer: bool = False,
    engine: Literal["c", "oracle"] | None = None,
) -> LaunchResult:
    """Run a program with arguments in the order of its parameters; arrays are changed in place.

    `grid` (blocks) and `block` (threads) have 1 to 3 axes, x first. Results depend neither on
    `host_threads` (default: the cores of this process) nor on `mode`. `spec` is the part (default: the
    one that the program was compiled for) whose times the timed mode gives; `pipeline` adds what each
    unit did when, `events` the events that times follow from. `budget_s`: a launch that takes longer
    faults (0: no limit). `defer` (debug and sanitized modes): transfers move when they complete. The
    sanitized mode gives a report of what is wrong with the kernel (`faults`), and goes on where it can.
    `engine`: None takes the C machine where there is one, else the oracle, with a warning.

    Raises KernelFault; ValueError for arguments or a grid that the kernel can't have; KeyboardInterrupt.
    """
    c_engine = None if engine == "oracle" else ENGINES.c()
    if engine == "c" and c_engine is None:
        raise ValueError(f"the C engine: {ENGINES.why_not}")
    threads = ENGINES.cores if host_threads is None else host_threads
    options = Options(
        three(grid), three(block), mode, threads, budget_s, defer, spec, intervals=pipeline, events=events
    )
    if c_engine is not None:
        return c_engine.launch(program, arguments, options)
    if engine is None:
        ENGINES.warn()
    return _on_oracle(program, arguments, options)


def _on_oracle(program: Program, arguments: Sequence[Argument], options: Options) -> LaunchResult:
    # the same complaints about arguments, threads and part
    if not 1 <= math.prod((*options.grid, *options.block)) <= MAX_THREADS:
        raise ValueError(f"a launch has 1 to {MAX_THREADS} threads")
    pack_arguments(program.parameters, arguments)
    names = set(program.code[:, 0].tolist())
    timed = options.mode == "timed" or OPCODES["clock"] in names
    spec = options.spec or (gcu.load(program.arch) if timed else None)
    if spec is not None:
        cooperative = OPCODES["gridbarrier"] in names
        check_limits(program, spec, options.grid, options.block, cooperative=cooperative)
    outcome = ENGINES.oracle(program).run(
        arguments,
        grid=options.grid,
        block=options.block,
        defer=options.defer and options.mode in ("debug", "sanitized"),
        budget_s=options.budget_s or None,
        timed_on=timing_parameters.parameters(spec) if spec and timed else None,
    )
    output = printing.lines(outcome.prints, program.strings)
    if outcome.fault is not None:
        f = outcome.fault
        raw = RawFault(f.kind, f.pc, f.thread, f.block, f.object, f.space, f.values, f.shapes)
        raise fault_error(program, raw, outcome.prints)
    counts = None if options.mode == "fast" else np.array(outcome.counts, np.int64)
    report = unchecked(program.name) if options.mode == "sanitized" else Report()
    times = None
    if spec and outcome.events is not None and options.mode == "timed":
        times = timing.times(
            program, spec, outcome.events, block_threads=math.prod(options.block), intervals=options.intervals
        )
    return LaunchResult(
        options.mode,
        options.grid,
        options.block,
        "oracle",
        output,
        outcome.dropped,
        counts,
        outcome.events if options.events and options.mode == "timed" else None,
        times,
        faults=report,
        printed_by=printing.places(outcome.prints),
    )
