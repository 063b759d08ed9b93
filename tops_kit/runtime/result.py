"""What a launch gives to who launched it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.findings import Report
from tops_kit.engine.launch import LaunchResult
from tops_kit.engine.timing_result import TimingResult
from tops_kit.gcu import Specification
from tops_kit.isa.program import Program
from tops_kit.runtime.errors import LaunchError

if TYPE_CHECKING:
    from tops_kit.engine.report import LaunchTiming


class Launch:
    """A launch that went well.

    `output` are the lines the kernel printed, `faults` what the sanitizer found, `counts` how often each
    instruction ran; `result` is all that the engine gives. `launch["y"]` is the array given for parameter y,
    `arrays` all of them; where the kernel stores to one only, the launch serves as it:
    `numpy.asarray(launch)`.
    """

    def __init__(
        self, program: Program, part: Specification, result: LaunchResult, arrays: Mapping[str, Any]
    ) -> None:
        self.program = program
        self.part = part
        self.result = result
        self.arrays = arrays

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

    @cached_property
    def report(self) -> LaunchTiming:
        """Where the time went, by SIP, unit, cause and line, and what bounds it.

        `print(launch.report.text())` shows the most important of it. LaunchError: the launch was not timed.
        """
        from tops_kit.engine.report import launch_timing

        times, counts = self._times(), self.result.counts
        assert counts is not None
        threads = math.prod(self.result.block)
        return launch_timing(self.program, self.part, times, counts, block_threads=threads)

    def _times(self) -> TimingResult:
        if self.result.times is None and self.result.mode == "timed":
            raise LaunchError(
                f"{self.program.name}: no times: the kernel ran on the Python oracle, which has none; "
                "install with a C compiler"
            )
        if self.result.times is None:
            raise LaunchError(
                f"{self.program.name}: this launch was not timed (mode {self.result.mode}): "
                'launch kernel.options(mode="timed")[...]'
            )
        return self.result.times

    def __getitem__(self, name: str) -> Any:
        """The array given for a parameter. LaunchError: there is none of that name."""
        if name not in self.arrays:
            known = ", ".join(self.arrays) or "none"
            raise LaunchError(f"{self.program.name} has no array {name!r}: {known}")
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
        out = np.asarray(self.arrays[stored[0]], dtype)
        return out.copy() if copy else out

    def __repr__(self) -> str:
        """`<Launch of softmax on s60: 2 x 12 threads, 81,920 cycles>`."""
        grid, block = self.result.grid, self.result.block
        shape = f"{_extents(grid)} x {_extents(block)} threads"
        timed = f", {self.cycles:,} cycles" if self.result.times is not None else ""
        faults = f", {len(self.faults)} faults" if len(self.faults) else ""
        return f"<Launch of {self.program.name} on {self.part.name}: {shape}{timed}{faults}>"


def _extents(extents: tuple[int, ...]) -> str:
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return str(kept[0]) if len(kept) == 1 else f"({', '.join(map(str, kept))})"
