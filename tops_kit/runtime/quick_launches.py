"""Launches like an earlier one: in C where that is built (_quick.c), which does what launching.py does.

A launcher is a Caller. The one in C remembers launches it was told of (`_learn`) and, called with arguments
of the same types, launches without a frame of Python; what is not usual goes to the launcher's `_slow`.
Results, times, records and errors are the same either way.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from topstx.recorder import rows

from tops_kit import extension
from tops_kit.gcu.clock import Clock, LocalTimeBase
from tops_kit.gcu.simulation import DeviceSimulation, Engine, Operation, StreamQueue, Timeline
from tops_kit.gcu.simulation.bandwidth import Bandwidth
from tops_kit.gcu.simulation.sharing import Resource
from tops_kit.gcu.state import claims, layout, usage
from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_point import ApiPoint, ThreadState, status_of
from tops_kit.runtime.array import _PACKED, Array
from tops_kit.runtime.blocks import Block
from tops_kit.runtime.context import Context
from tops_kit.runtime.driver import QUEUE_SUBMIT
from tops_kit.runtime.hooks import HOOKS, Hooks, Sink
from tops_kit.runtime.launching import LAUNCH, finish
from tops_kit.runtime.plan import Outcome, Plan
from tops_kit.runtime.process import RUNTIME, Runtime
from tops_kit.runtime.recording import QUICK_INTERFACE
from tops_kit.runtime.records import Call, KernelTag
from tops_kit.runtime.result import Launch
from tops_kit.runtime.stream import MOST_QUEUED, Stream
from tops_kit.topscc.python.captures import Captures

_I32 = (-(1 << 31), (1 << 31) - 1)
_CLASSES = (
    Operation, StreamQueue, Timeline, Engine, DeviceSimulation, Bandwidth, Resource, LocalTimeBase, Stream,
    Block, Array, ApiPoint, ThreadState, Launch, Outcome, KernelTag, Call, usage.Usage, claims.Claim, Context,
    Plan, Hooks, Clock, Runtime, Sink,
)  # fmt: skip
_NUMBERS = (
    acts.STREAM_RACE, acts.KERNEL, acts.API, rows.KIND_KERNEL, rows.KIND_API,
    rows.KINDS[rows.KIND_KERNEL].body.size, rows.KINDS[rows.KIND_API].body.size, MOST_QUEUED, _PACKED.size,
    layout.S_NOW, layout.S_WALL, layout.S_FROZEN, layout.S_KERNELS,
    layout.S_BUSY, layout.S_HEAT_AT, layout.S_ACTIVE,
    layout.S_ENDED, layout.S_TIMED, layout.S_UNTIL, layout.S_BUCKETS, layout.BUCKETS, layout.BUCKET_WORDS,
    layout.BUCKET_SHIFT, usage.HEAT_STEP_NS,
)  # fmt: skip


class Caller:
    """The twin: every launch goes to `_slow`, nothing is remembered."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        cls.__call__ = cls._slow  # type: ignore[method-assign]  # itself: tracebacks have a frame less

    def __call__(self, /, *args: Any, **keywords: Any) -> Launch:
        return self._slow(*args, **keywords)

    def _slow(self, /, *args: Any, **keywords: Any) -> Launch:
        raise NotImplementedError

    def _choose(self, stream: Stream | None, part: Any) -> None:
        """What the options say of stream and part."""

    def _learn(self, about: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
        """Launches with such arguments are like what `described` says. False: they go the long way still."""
        return False

    def _forget(self) -> None:
        """Nothing is remembered any more."""


@cache
def extension_module() -> tuple[ModuleType | None, str]:
    """The extension, ready for use; else None and why. Raises ImportError as extension.load does."""
    module, why_not = extension.load("tops_kit.runtime._quick", QUICK_INTERFACE)
    if module is None:
        return None, why_not
    try:
        if module.numbers() != _NUMBERS:
            raise ImportError("_quick was built from other sources: pip install -e . again")
        module.setup(
            {kind.__name__: kind for kind in _CLASSES},
            {
                "runtime": RUNTIME, "hooks": HOOKS, "launch": LAUNCH, "submit": QUEUE_SUBMIT,
                "monotonic_ns": time.monotonic_ns, "sink": Context._sink, "heappush": heapq.heappush,
                "heappop": heapq.heappop, "finish": finish, "failed": status_of,
            },
        )  # fmt: skip
    except (ImportError, AttributeError) as error:
        if extension.flag("TOPSKIT_REQUIRE_C"):
            raise
        return None, str(error)
    return module, ""


def caller_type() -> Any:
    """What launchers are made from."""
    module, _ = extension_module()
    return Caller if module is None else module.Caller


def described(plan: Plan, args: Sequence[Any], constexprs: Sequence[int]) -> tuple[Any, ...] | None:
    """What `_learn` wants to know of a plan; None: its launches go the long way."""
    captures = getattr(plan.holds, "__self__", None)
    if any(isinstance(low, float) for _, low, _ in plan.small):
        return None  # numbers that have to be rounded
    if not plan.quick or plan.settings.cooperative or not isinstance(captures, Captures):
        return None
    watched = captures.watched()
    if watched is None:
        return None
    ranges = {position: (low, high) for position, low, high in plan.small}
    kinds = plan.form.format[2::2]  # "=", and for each one a register's letter and its own
    scalars = tuple(
        (position, register, kinds[k] == "f", *ranges.get(position, _I32))
        for k, (register, position) in enumerate(plan.scalars)
    )
    return (
        plan.part, plan, plan.launch, plan.clusters, plan.sips, plan.holds, watched, plan.arrays, scalars,
        tuple(constexprs),
    )  # fmt: skip


def node_of(plan: Plan, values: Sequence[Any], lane: int, number: int) -> Any:
    """What `launch_nodes` launches a kernel node of a graph by; None: it goes the long way."""
    module, _ = extension_module()
    about = None if module is None else described(plan, values, ())
    return None if module is None or about is None else module.node(about, tuple(values), lane, number)


def launch_nodes(
    nodes: list[Any],
    first: int,
    done: list[Any],
    streams: tuple[Stream, ...],
    *,
    listening: bool,
    graph_id: int,
) -> int:
    """Launches nodes that `node_of` made, from the first on; the place of the next one that Python launches.

    Operations are put into `done` by the nodes' numbers. Under the timeline's lock, in a cut.
    """
    module, _ = extension_module()
    if module is None:
        return first
    at: int = module.launch_nodes(nodes, first, done, streams, listening, graph_id)
    return at
