"""What a launch gives to who launched it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.findings import Report
from tops_kit.engine.launch import LaunchResult
from tops_kit.engine.timing_result import TimingResult
from tops_kit.gcu import Specification
from tops_kit.gcu.simulation import Operation
from tops_kit.isa.program import Program
from tops_kit.runtime.array import tensor_array
from tops_kit.runtime.arrays import is_tensor
from tops_kit.runtime.errors import LaunchError, TopsError, shown
from tops_kit.runtime.plan import Outcome, Plan, untimed

if TYPE_CHECKING:
    from tops_kit.engine.report import LaunchTiming
    from tops_kit.runtime.context import Context


class Launch:
    """A launch.

    `output` are the lines the kernel printed, `faults` what the sanitizer found, `counts` how often each
    instruction ran; `result` is all that the engine gives. `launch["y"]` is the array given for parameter y,
    `arrays` all of them; where the kernel stores to one only, the launch serves as it:
    `numpy.asarray(launch)`. On arrays of a device a launch has its result before the device is done with it;
    what waits for a host function has it only then, and asking waits.
    """

    __slots__ = (
        "__weakref__", "_arrays", "_context", "_error", "_operation", "_outcome", "_plan", "_values"
    )  # fmt: skip

    def __init__(self, plan: Plan, values: Sequence[Any]) -> None:
        self._plan = plan
        self._arrays: dict[str, Any] | None = None
        self._values = values
        self._outcome: Outcome | None = None
        self._operation: Operation | None = None
        self._context: Context | None = None
        self._error: TopsError | None = None

    @property
    def program(self) -> Program:
        """What ran."""
        return self._plan.program

    @property
    def part(self) -> Specification:
        """What it ran on."""
        return self._plan.part

    @property
    def arrays(self) -> Mapping[str, Any]:
        """The arrays that it was given, by parameter."""
        if self._arrays is None:
            plan = self._plan
            self._arrays = {plan.names[position]: self._values[position] for position in sorted(plan.arrays)}
        return self._arrays

    @property
    def result(self) -> LaunchResult:
        """All that the engine gives. Raises TopsError: the kernel failed, or one before it did."""
        return self._done().result

    def _done(self) -> Outcome:
        if self._outcome is None and self._error is None and self._operation is not None:
            from tops_kit.runtime.process import RUNTIME

            RUNTIME.wait(self._operation)
        if self._outcome is None:
            if self._error is None:
                raise LaunchError(f"{self.program.name}: did not run: the device had failed before")
            raise self._error.again()
        return self._outcome

    def wait(self) -> Launch:
        """Wait until the device is done with it. Raises TopsError: also for what went wrong on the device."""
        if self._context is not None:
            self._context.wait(self._operation)
        return self

    @property
    def output(self) -> list[str]:
        """What the kernel printed, line by line."""
        return self.result.output

    @property
    def faults(self) -> Report:
        """What the sanitizer found (mode "sanitized"): `print(launch.faults)`; it is empty in other modes."""
        return self.result.faults

    @property
    def counts(self) -> npt.NDArray[np.int64] | None:
        """How often each instruction ran, in all modes but "fast"."""
        return self.result.counts

    @property
    def cycles(self) -> int:
        """How long the launch took on the part, in cycles. LaunchError: it was not timed."""
        return self._times().cycles

    @property
    def ns(self) -> int:
        """How long the launch took on the part, in ns. LaunchError: it was not timed."""
        return self.part.nanoseconds(self._times().cycles)

    @property
    def report(self) -> LaunchTiming:
        """Where the time went, by SIP, unit, cause and line, and what bounds it.

        `print(launch.report.text())` shows the most important of it. LaunchError: the launch was not timed.
        """
        return self._done().report

    def _times(self) -> TimingResult:
        result = self.result
        if result.times is None:
            raise LaunchError(untimed(self.program.name, result))
        return result.times

    def __getitem__(self, name: str) -> Any:
        """The array given for a parameter. LaunchError: there is none of that name."""
        if not isinstance(name, str) or name not in self.arrays:
            known = ", ".join(self.arrays) or "none"
            raise LaunchError(f"{self.program.name} has no array {shown(name)}: {known}")
        return self.arrays[name]

    @property
    def stored(self) -> tuple[str, ...]:
        """The parameters that the kernel stores to."""
        return tuple(p.name for p in self.program.pointers if p.stored or p.atomic)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The array that the kernel stored to. LaunchError: there are several, or none."""
        stored = self.stored
        if not stored:
            raise LaunchError(f"{self.program.name} stores nothing")
        if len(stored) > 1:
            raise LaunchError(
                f"{self.program.name} stores to {', '.join(stored)}: take one: launch[{stored[0]!r}]"
            )
        array = self.arrays[stored[0]]
        if is_tensor(array):
            array = tensor_array(array)
        out = np.asarray(array, dtype)
        return out.copy() if copy else out

    def __repr__(self) -> str:
        """`<Launch of softmax on s60: 2 x 12 threads, 81,920 cycles>`."""
        grid, block = self._plan.options.grid, self._plan.options.block
        if self._outcome is None:
            state = "failed" if self._error is not None else "waits"
            return f"<Launch of {self.program.name} on {self.part.name}, {state}>"
        shape = f"{_extents(grid)} x {_extents(block)} threads"
        timed = f", {self.cycles:,} cycles" if self.result.times is not None else ""
        faults = f", {len(self.faults)} faults" if len(self.faults) else ""
        return f"<Launch of {self.program.name} on {self.part.name}: {shape}{timed}{faults}>"


def _extents(extents: tuple[int, ...]) -> str:
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return str(kept[0]) if len(kept) == 1 else f"({', '.join(map(str, kept))})"
