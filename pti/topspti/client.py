"""A tool that takes activity records: its kinds, its buffers, its period."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from tops_kit.runtime.activity import MEMORY_ALLOC, Activity, KernelActivity, MarkerActivity, MemoryActivity
from tops_kit.runtime.hooks import HOOKS, Hooks, Sink
from topspti.buffers import Buffers, Complete, Request
from topspti.errors import PtiError, shown
from topspti.kinds import HOOK_KINDS, ActivityKind
from topspti.layouts import NEWEST, Layout
from topspti.metrics import METRICS, metric_values
from topspti.packing import PACKERS, Values
from topspti.sampling import pc_samples
from topspti.strings import STRINGS

_COUNTERS = frozenset({ActivityKind.KERNEL_METRIC, ActivityKind.KERNEL_LINE, ActivityKind.PC_SAMPLING})


class ActivityClient:
    """One of possibly several tools in a process, each with its own kinds and buffers.

    `request()` gives a buffer (a bytearray; None: no memory); `complete(buffer, valid_bytes, dropped)`
    gets it back with records in its first valid_bytes; `dropped` records were lost since the last one.
    """

    def __init__(self, request: Request, complete: Complete, hooks: Hooks = HOOKS) -> None:
        for name, function in (("request", request), ("complete", complete)):
            if not callable(function):
                raise PtiError(f"{name} is a function, not {shown(function)}")
        self._hooks = hooks
        self._buffers = Buffers(request, complete, hooks.untraced)
        self._plain: dict[int, tuple[Layout, Callable[[Any], Values]]] = {}  # by bit of the activity
        self._kinds: frozenset[ActivityKind] = frozenset()
        self._filter: Callable[[str], bool] | None = None
        self._metrics: tuple[str, ...] = tuple(METRICS)
        self._sample_cycles = 1024
        self._period_s: float | None = None
        self._flushed_s = time.monotonic()
        self._sink: Sink | None = hooks.add_sink(self._take, 0)

    def enable(self, kind: ActivityKind | int) -> None:
        """Records of a kind from now on. Raises PtiError: there is no such kind, or the client is closed."""
        self._set(self._kinds | {known(kind)})

    def disable(self, kind: ActivityKind | int) -> None:
        """No more records of a kind."""
        self._set(self._kinds - {known(kind)})

    @property
    def kinds(self) -> frozenset[ActivityKind]:
        """What is enabled."""
        return self._kinds

    def filter_kernels(self, wanted: Callable[[str], bool] | None) -> None:
        """Records of those kernels only for whose full name `wanted` is true; None: of all."""
        if wanted is not None and not callable(wanted):
            raise PtiError(f"a filter is a function of a kernel's name, not {shown(wanted)}")
        self._filter = wanted

    def choose_metrics(self, names: Iterable[str]) -> None:
        """Which counters KERNEL_METRIC has. Raises PtiError: there is none of that name."""
        if not isinstance(names, Iterable):
            raise PtiError(f"metrics are a list of names, not {shown(names)}")
        chosen = tuple(names)
        for name in chosen:
            if not isinstance(name, str) or name not in METRICS:
                raise PtiError(f"no metric {shown(name)}: topspti.METRICS has them all")
        self._metrics = chosen

    def sample_every(self, cycles: int) -> None:
        """The period of PC_SAMPLING, in cycles of a SIP (1024 at first). Raises PtiError: not positive."""
        if not isinstance(cycles, int) or not 0 < cycles < 1 << 32:
            raise PtiError(f"a sampling period is a positive number of cycles, not {shown(cycles)}")
        self._sample_cycles = cycles

    def flush_all(self, forced: bool = False) -> None:
        """Hand over what there is, with what devices have finished by now; `forced`: an empty buffer, too."""
        if self._hooks.poll is not None:
            self._hooks.poll()
        self._flushed_s = time.monotonic()
        self._buffers.flush(forced)

    def flush_period(self, period_ms: float | None) -> None:
        """Hand over at least every so often (wall time) while records come; None or 0: only full buffers.

        There is no thread of ours in the program: the next record after the period hands over.
        """
        if period_ms is not None and (not isinstance(period_ms, int | float) or not 0 <= period_ms < 1e15):
            raise PtiError(f"a period is a number of ms, not {shown(period_ms)}")
        self._period_s = period_ms / 1000 if period_ms else None

    def num_dropped_records(self) -> int:
        """How many records found no place since this was asked last."""
        return self._buffers.num_dropped()

    def close(self) -> None:
        """Hand over what there is, and take no more. Harmless when it is closed."""
        if self._sink is not None:
            self.flush_all(forced=True)
            self._sink.close()
            self._sink = None

    def __enter__(self) -> ActivityClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set(self, kinds: frozenset[ActivityKind]) -> None:
        if self._sink is None:
            raise PtiError("this client is closed: register callbacks again")
        self._kinds = kinds
        self._plain = {
            HOOK_KINDS[kind]: (NEWEST[kind], PACKERS[kind]) for kind in kinds if kind not in _COUNTERS
        }
        mask = 0
        for kind in kinds:
            mask |= HOOK_KINDS[kind]
        self._sink.set_kinds(mask)

    def _take(self, bit: int, activity: Activity) -> None:
        if self._buffers.own_code and _is_own(activity):
            return
        if isinstance(activity, KernelActivity):
            wanted = self._filter
            if wanted is not None and not self._hooks.untraced(wanted, activity.full_name):
                return
            if self._kinds & _COUNTERS:
                self._store_counters(activity, self._kinds)
        plain = self._plain.get(bit)
        if plain is not None:
            self._buffers.add(plain[0], plain[1](activity))
        if self._period_s is not None and time.monotonic() - self._flushed_s >= self._period_s:
            self._flushed_s = time.monotonic()
            self._buffers.flush(False)

    def _store_counters(self, activity: KernelActivity, kinds: frozenset[ActivityKind]) -> None:
        timing = activity.timing
        if timing is None:
            return
        add, intern, grid_id = self._buffers.add, STRINGS.intern, activity.grid_id
        if ActivityKind.KERNEL_METRIC in kinds:
            for name, value in metric_values(timing, self._metrics).items():
                add(NEWEST[ActivityKind.KERNEL_METRIC], (grid_id, intern(name), value))
        if ActivityKind.KERNEL_LINE in kinds:
            for line in timing.lines:
                values: tuple[Any, ...] = (
                    grid_id, intern(line.place.path), line.place.line, line.issued, line.scalar_cycles,
                    sum(line.stalls.values()), line.blamed, line.unit_cycles, line.bytes,
                )  # fmt: skip
                add(NEWEST[ActivityKind.KERNEL_LINE], values)
        if ActivityKind.PC_SAMPLING in kinds:
            period = self._sample_cycles
            for s in pc_samples(timing, period):
                values = (grid_id, intern(s.path), s.line, intern(s.reason), s.samples, period)
                add(NEWEST[ActivityKind.PC_SAMPLING], values)


def _is_own(activity: Activity) -> bool:
    """Of what comes while a tool's code runs for a buffer: whether the tool did it. It would go on for ever.

    What is not traced has no correlation; of what is freed it says nothing: that is the program's, mostly.
    """
    if isinstance(activity, MemoryActivity):
        return activity.operation == MEMORY_ALLOC and not activity.correlation_id
    return isinstance(activity, MarkerActivity) or getattr(activity, "correlation_id", None) == 0


def known(kind: ActivityKind | int) -> ActivityKind:
    """A kind by its number. Raises PtiError: there is none, or no activity of it."""
    try:
        out = ActivityKind(kind)
    except (ValueError, TypeError):
        raise PtiError(f"no activity kind {shown(kind)}: topspti.ActivityKind has them all") from None
    if out not in HOOK_KINDS:
        raise PtiError(f"{out.name}: no activity of this kind is recorded")
    return out
