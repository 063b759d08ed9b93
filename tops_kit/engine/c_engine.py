"""The C machine from Python: programs prepared once, memories and host threads kept between launches."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tops_kit.engine import printing
from tops_kit.engine.fault import RawFault, fault_error
from tops_kit.engine.options import MODES, Options
from tops_kit.engine.packing import Argument, pack_arguments, pack_program
from tops_kit.engine.result import EVENT, LaunchResult
from tops_kit.isa.program import Program
from tops_kit.isa.verify import verify

_RAN = {0: "in order", 1: "in parallel", 3: "again"}
INTERFACE = 1  # of the C module: as in launch_module.c


class CEngine:
    """The C machine with what it keeps.

    One launch at a time has the memories; another that begins meanwhile (in a signal's handler) gets its own.
    """

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self._engine = module.engine()
        self._kernels: weakref.WeakKeyDictionary[Program, Any] = weakref.WeakKeyDictionary()

    @property
    def tiles(self) -> str:
        """Which instructions of the processor the tile library uses: "generic", "avx2", "avx512"."""
        return str(self.module.TILES)

    def kernel(self, program: Program) -> Any:
        """The program prepared for the machine. Raises BinaryError where it can't be run."""
        kernel = self._kernels.get(program)
        if kernel is None:
            verify(program)
            kernel = self._kernels[program] = pack_program(self.module, program)
        return kernel

    def launch(self, program: Program, arguments: Sequence[Argument], options: Options) -> LaunchResult:
        """Run a program; see launch.launch."""
        kernel = self.kernel(program)
        arrays, scalars = pack_arguments(program.parameters, arguments)
        raw, prints, dropped, counts, traces, ran = self.module.launch(
            self._engine,
            kernel,
            MODES.index(options.mode),
            arrays,
            scalars,
            options.grid,
            options.block,
            options.host_threads,
            options.budget_s,
            options.defer,
        )
        output = printing.lines(prints, program.strings) if prints else []
        if raw is not None:
            raise fault_error(program, raw_fault(raw), output)
        return LaunchResult(
            options.mode,
            options.grid,
            options.block,
            "c",
            output,
            dropped,
            None if counts is None else np.frombuffer(counts, np.int64),
            None if traces is None else [np.frombuffer(events, EVENT) for events in traces],
            ran=_RAN[ran],
        )


def raw_fault(raw: tuple[Any, ...]) -> RawFault:
    """A fault as the C module gives it."""
    kind, pc, thread, block, _, object_, space, values, shape, other = raw
    return RawFault(kind, pc, thread, block, object_, space, values, (shape, other))
