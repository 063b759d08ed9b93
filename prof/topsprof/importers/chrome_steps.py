"""`--steps A:B`: which part of a trace the steps span. Costs one quick look at the whole file before the
import.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tops_kit.errors import TraceError
from topsprof.importers.kineto_tables import STEP, table_of
from topsprof.importers.scan import Bools, Int64s, Strings, batches, scanner_class
from topsprof.importers.scan_columns import GIVEN
from topsprof.importers.source import Source

_ROWS = 1 << 18


@dataclass(frozen=True)
class StepWindow:
    """Host rows are kept by their start; device rows by the call that launched them, where there is one."""

    start_ns: int
    end_ns: int
    launched: npt.NDArray[np.int64]  # correlation ids of the calls inside, sorted

    @classmethod
    def find(cls, source: Source, steps: tuple[int, int], shift_ns: int = 0) -> StepWindow:
        """The span of the steps from `steps[0]` to `steps[1]`. TraceError when the trace has none of them.

        `shift_ns` is added to all times, as in the import that follows.
        """
        strings = Strings()
        quiet = Source(source.path)
        first, last = steps
        bounds: list[tuple[int, int, int]] = []
        calls: list[tuple[Int64s, Int64s]] = []
        number_of = np.full(0, -1, np.int64)
        is_call = np.zeros(0, np.bool_)
        for batch in batches(quiet, scanner_class()([("correlation", "i")]), strings, _ROWS, shift_ns):
            new = [strings.text(number) for number in range(len(number_of), len(strings))]
            matches = [STEP.match(text) for text in new]
            number_of = np.concatenate(
                (number_of, np.array([int(m[1]) if m else -1 for m in matches], np.int64))
            )
            is_call = np.concatenate((is_call, np.array([table_of(text) == "api" for text in new], np.bool_)))
            slices = (batch.column("ph") == ord("X")) & (batch.column("ts_state") == GIVEN)
            name, category, ts = batch.column("name"), batch.column("cat"), batch.column("ts")
            number = np.append(number_of, -1)[name]
            for at in np.flatnonzero(slices & (number >= first) & (number <= last)).tolist():
                bounds.append((int(ts[at]), int(ts[at] + batch.column("dur")[at]), int(number[at])))
            call = np.flatnonzero(slices & np.append(is_call, False)[category])
            correlation, there = batch.values("correlation", call)
            calls.append((ts[call][there], correlation[there]))
        if not bounds:
            raise TraceError(
                f"{source.path}: no step from {first} to {last} in it (ProfilerStep#N); "
                "leave --steps out to import all"
            )
        # a step is also seen on the device, later: the host's, which come first, say when it is
        start = min(bound[0] for bound in bounds)
        host = [
            min((b for b in bounds if b[2] == number), key=lambda b: b[0])
            for number in {b[2] for b in bounds}
        ]
        end = max(bound[1] for bound in host)
        inside = [ids[(ts >= start) & (ts < end)] for ts, ids in calls]
        return cls(start, end, np.unique(np.concatenate(inside)) if inside else np.empty(0, np.int64))

    def host(self, ts: Int64s) -> Bools:
        """Which rows that begin at `ts` are inside."""
        inside: Bools = (ts >= self.start_ns) & (ts < self.end_ns)
        return inside

    def device(self, ts: Int64s, correlation: Int64s, there: Bools) -> Bools:
        """Which device rows belong to the steps."""
        launched: Bools = np.isin(correlation, self.launched)
        return np.where(there & (correlation != 0), launched, self.host(ts))
