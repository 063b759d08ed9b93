"""The runtime in a session that is being recorded: its session time is shared, and activities become rows.

Nothing of it is there while topstx is in no session. Which rows are wanted, the kernel filter, call stacks
and counters are what the session's control file says when this process enters it.
"""

from __future__ import annotations

import json
import os
import re
import struct
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import topstx
from topstx.recorder import cuts, layout, rows
from topstx.recorder.row_sink import SAMPLED, make_sink, reckoned_ns
from topstx.recorder.rows import RowWriter

from tops_kit import extension
from tops_kit.gcu.clock import LocalTimeBase, TimeBase
from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_table import RUNTIME_API, RUNTIME_IDS
from tops_kit.runtime.counters import Counters
from tops_kit.runtime.recorded_rows import kernel_body, packings
from tops_kit.runtime.saving import Request, Saver, read_request
from tops_kit.runtime.stacks import Stacks
from tops_kit.runtime.told_memory import ToldMemory

if TYPE_CHECKING:
    from tops_kit.runtime.graph.executable import GraphExec
    from tops_kit.runtime.hooks import Hooks, Sink
    from tops_kit.runtime.plan import Plan
    from tops_kit.runtime.process import Runtime

QUICK_INTERFACE: Final = 5  # of runtime/_quick.c

# Row kinds of the activities that we ask for.
_ROWS: Final = {
    acts.API: rows.KIND_API,
    acts.DRIVER: rows.KIND_DRIVER_API,
    acts.KERNEL: rows.KIND_KERNEL,
    acts.MEMCPY: rows.KIND_MEMCPY,
    acts.MEMSET: rows.KIND_MEMSET,
    acts.MEMORY: rows.KIND_MEMORY,
    acts.SYNCHRONIZATION: rows.KIND_SYNC,
    acts.GRAPH: rows.KIND_GRAPH,
    acts.GCU_EVENT: rows.KIND_GCU_EVENT,
    acts.EXTERNAL_CORRELATION: rows.KIND_EXTERNAL,
    acts.OVERHEAD: rows.KIND_RUNTIME_OVERHEAD,
    acts.STREAM_RACE: rows.KIND_STREAM_RACE,
    acts.PRINT: rows.KIND_PRINT,
    acts.HOST_FUNCTION: rows.KIND_HOST_FUNCTION,
}


@dataclass(frozen=True)
class Wanted:
    """What the session asks of the runtime. `metrics`: METRICS_* of the layout, bits; `backtrace`: frames."""

    rows_off: int = 0
    backtrace: int = 0
    metrics: int = 0
    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None

    @property
    def kinds(self) -> int:
        """Activities, as a mask."""
        return sum(kind for kind, number in _ROWS.items() if not self.rows_off >> number & 1)

    def kernel(self, name: str) -> bool:
        """Whether launches of a kernel are wanted."""
        if self.include is not None and not self.include.search(name):
            return False
        return self.exclude is None or not self.exclude.search(name)


def read_wanted(folder: str) -> Wanted:
    """What the control file of a session says. Raises OSError, or ValueError: it makes no sense."""
    data = Path(folder, "control").read_bytes()
    try:
        values = struct.unpack_from(layout.CONTROL_FORMAT, data)
    except struct.error as error:
        raise ValueError(f"the control file of {folder}: {error}") from None
    control = dict(zip(layout.CONTROL_FIELDS, values, strict=True))

    def pattern(name: str) -> re.Pattern[str] | None:
        text = control[name].partition(b"\0")[0].decode("utf-8", "replace")
        try:
            return re.compile(text) if text else None
        except re.error as error:
            raise ValueError(f"{name} {text!r}: {error}") from None

    return Wanted(
        control["rows_off"], control["backtrace"], control["metrics"],
        pattern("kernel_include"), pattern("kernel_exclude"),
    )  # fmt: skip


class Recording:
    """What a process's runtime has in a session: its time base, and the sink that writes rows."""

    def __init__(self, runtime: Runtime, hooks: Hooks, folder: str) -> None:
        """Enter the session in `folder`. Raises OSError, ValueError."""
        self._runtime = runtime
        self._hooks = hooks
        self._writer = topstx.row_writer()
        self.wanted = read_wanted(folder)
        self._request: Request | None = read_request(folder)
        self._folder = folder
        now_ns = runtime.clock.now_ns() if runtime.started else None
        self.base = cuts.open_base(self._writer.backend, folder, now_ns=now_ns)
        found = Path(folder, cuts.FILE).stat() if self.base is not None else None
        self.identity = 0 if found is None else (found.st_dev << 40 ^ found.st_ino) & (1 << 62) - 1
        # rows that are always wanted: so recording is on, and not only armed
        self._on = partial(self._writer.wanted, rows.KIND_RUNTIME_OVERHEAD)
        self._begin()
        own = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forked(own))
        self._sink: Sink = hooks.add_sink(self._rows.take, self.wanted.kinds, self._on)
        self._sink.quick = self._quick_rows()

    def _begin(self) -> None:
        """What this process has told so far: nothing."""
        writer, wanted = self._writer, self.wanted
        self._rows = make_sink(writer.backend, self._slow, packings())
        self._devices: set[int] = set()
        self._stacks = Stacks(writer, wanted.backtrace) if wanted.backtrace else None
        self._counters = Counters(writer, wanted.metrics) if wanted.metrics else None
        self._shift_ns = self.base.offset_ns if self.base is not None else 0
        self._runtime.told_memory = ToldMemory(writer, self._shift_ns)
        self._runtime.saver = None
        if self._request is not None:
            self._runtime.saver = Saver(self._folder, self._request, self._on)
        slow = acts.STREAM_RACE | acts.PRINT
        if self._stacks is not None:
            slow |= acts.API | acts.MEMORY
        if self._counters is not None:
            slow |= acts.KERNEL
        self._rows.slow_kinds = acts.ALL if self._shift_ns else slow

    def _quick_rows(self) -> Any:
        """What writes a launch's rows in C, where both extensions are there and rows need nothing special."""
        backend = self._writer.backend
        if self._stacks is not None or self._counters is not None or not hasattr(backend, "rows"):
            return None
        module, _ = extension.load("tops_kit.runtime._quick", QUICK_INTERFACE)
        if module is None:
            return None
        name = "topsLaunchKernel"
        return module.Rows(
            self._kernel_row, self._on, self._shift_ns, self._writer.intern(name),
            RUNTIME_IDS[name], RUNTIME_API,
        )  # fmt: skip

    def _kernel_row(self, plan: Plan, device_id: int) -> tuple[bytes, int] | None:
        """What rows of a kernel have in common: body and name id. None: they are not wanted."""
        if device_id not in self._devices:
            self._tell_device(device_id)
        if not self.wanted.kernel(plan.name):
            return None
        return kernel_body(self._writer.intern, plan), self._writer.intern(plan.name)

    def leave(self) -> None:
        """The session ends for this process: what is in flight is told as if nothing came after it."""
        self._runtime.saver = self._runtime.told_memory = None
        self._sink.close()
        self.tell_cost()
        if self.base is not None:
            self.base.close()
            self.base = None

    def _slow(self, kind: int, activity: Any) -> None:
        """Write an activity's row where there is more to do than to pack it."""
        if self._shift_ns:
            activity = _shifted(activity, self._shift_ns)
        if kind in _WITH_TEXT:
            _WITH_TEXT[kind](self._writer, activity)
            return
        extra = 0
        if kind == acts.KERNEL:
            name = activity.name
            wanted = self._rows.known.get(name)
            if wanted is None:
                wanted = self._rows.known[name] = self.wanted.kernel(name)
            if not wanted:
                return
            extra = self._counters.of(activity) if self._counters is not None else 0
        elif kind & (acts.API | acts.MEMORY) and self._stacks is not None:
            extra = self._stacks.here()
        if kind & _ON_DEVICES and activity.device_id not in self._devices:
            self._tell_device(activity.device_id)
        self._rows.pack(kind, activity, extra)

    def tell_devices(self) -> None:
        """Rows of all devices that the process sees, whether recording is on now or later: what is recorded
        of them by itself, a launching call say, may come from C, which tells none.
        """
        for context in self._runtime.contexts:
            if context.device_id not in self._devices:
                self._tell_device(context.device_id)

    def tell_graph(self, graph: GraphExec) -> None:
        """Rows of the nodes of a graph that was made executable, whether recording is on now or later."""
        kind, writer = rows.KINDS[rows.KIND_GRAPH_NODE], self._writer
        late = kind.number | layout.ROW_LATE
        if not writer.wanted(late):
            return
        for number, (label, node_kind, device_id, after) in enumerate(graph.described(), 1):
            body = kind.body.pack(graph.graph_id, graph.id, number, writer.intern(node_kind), device_id)
            text = json.dumps([k + 1 for k in after], separators=(",", ":")).encode()
            if len(text) > rows.TEXT_MAX:
                text = b"[]"  # thousands of them: the node joins what came before
            writer.write(late, 0, 0, label, body + text)

    def _tell_device(self, device_id: int) -> None:
        """A row of the device, with its specification, before the first one that names it."""
        context = self._runtime.known_context(device_id)
        if context is None:
            return
        from tops_kit.engine.timing import COST_MODEL_VERSION

        spec, device, intern = context.spec, context.device, self._writer.intern
        kind = rows.KINDS[rows.KIND_DEVICE]
        slice_name = "" if device is None or device.slice is None else f"{device.slice}/{device.slices}"
        part = spec.name if device is None else device.part
        body = kind.body.pack(
            intern(part),
            intern(spec.hash),
            intern(slice_name) if slice_name else 0,
            COST_MODEL_VERSION,
            device_id,
        )
        figures = spec.figures()
        told = {
            "heading": spec.heading,
            "uuid": "" if device is None else device.uuid,
            "figures": {figure.name: figure.value for figure in figures},
            "assumed": [figure.name for figure in figures if figure.assumed],
        }
        text = json.dumps(told, separators=(",", ":")).encode()[: layout.PAYLOAD_MAX - 3 - len(body)]
        name = spec.title if device is None else device.name
        late = kind.number | layout.ROW_LATE
        if self._writer.write(late, 0, 0, name, body + text) or not self._writer.wanted(late):
            self._devices.add(device_id)
            self._rows.see_device(device_id)

    def tell_cost(self) -> None:
        """One row of what writing rows cost this process, reckoned from a sample."""
        sink, quick = self._rows, self._sink.quick
        count, cost_ns = quick.spent() if quick is not None else (0, 0)
        cost_ns = reckoned_ns(count, cost_ns) + reckoned_ns(sink.count, sink.cost_ns)
        count += sink.count
        self._tell_slow(sink)
        if not cost_ns:
            return
        kind = rows.KINDS[rows.KIND_RUNTIME_OVERHEAD]
        note = self._writer.intern(
            f"{count} activities, spread over the run: processor time, one of {SAMPLED} was timed"
        )
        now_ns = self._hooks.now_ns() - self._shift_ns
        body = kind.body.pack(note)
        # recording may be off by now: it cost what it did
        late = kind.number | layout.ROW_LATE
        self._writer.write(late, now_ns - cost_ns, now_ns, "recording activities", body)
        sink.cost_ns = 0

    def _tell_slow(self, sink: Any) -> None:
        """A row of what the rows cost that were no mere packing: each of them was timed."""
        if not sink.slow_ns:
            return
        asked = [
            name
            for name, one in (("call stacks", self._stacks), ("counters", self._counters))
            if one is not None
        ]
        kind = rows.KINDS[rows.KIND_RUNTIME_OVERHEAD]
        what = f"recording {' and '.join(asked)}" if asked else "recording what is new"
        note = f"{sink.slow_count} activities, spread over the run: processor time, each was timed"
        now_ns = self._hooks.now_ns() - self._shift_ns
        body = kind.body.pack(self._writer.intern(note))
        self._writer.write(kind.number | layout.ROW_LATE, now_ns - sink.slow_ns, now_ns, what, body)
        sink.slow_count = sink.slow_ns = 0


def _forked(of: weakref.ref[Recording]) -> None:
    recording = of()
    if recording is not None:
        recording._begin()  # what its parent told is not the child's
        recording._sink.take = recording._rows.take
        recording._sink.quick = recording._quick_rows()


_ON_DEVICES: Final = (
    acts.API
    | acts.DRIVER
    | acts.KERNEL
    | acts.MEMCPY
    | acts.MEMSET
    | acts.MEMORY
    | acts.SYNCHRONIZATION
    | acts.GRAPH
)
_TIMES: Final = ("start_ns", "end_ns", "queued_ns", "submit_ns")


def _shifted(activity: Any, shift_ns: int) -> Any:
    """An activity in the session's time, where the process's own began before the session."""
    return activity._replace(
        **{name: getattr(activity, name) - shift_ns for name in _TIMES if hasattr(activity, name)}
    )


def _stream_race(writer: RowWriter, a: acts.StreamRaceActivity) -> None:
    kind, intern = rows.KINDS[rows.KIND_STREAM_RACE], writer.intern
    body = kind.body.pack(
        a.address & _U64, a.size_bytes, intern(a.second), a.second_correlation_id & _U32,
        *(intern(stack) if stack else 0 for stack in (a.first_stack, a.second_stack)), a.device_id,
    )  # fmt: skip
    writer.write(kind.number, a.start_ns, a.start_ns, a.first, body, a.first_correlation_id)


def _print(writer: RowWriter, a: acts.PrintActivity) -> None:
    kind = rows.KINDS[rows.KIND_PRINT]
    text = a.text.encode("utf-8", "replace")[: rows.TEXT_MAX]
    body = kind.body.pack(a.stream_id, a.device_id, a.block, a.thread) + text
    writer.write(kind.number | layout.ROW_LATE, a.start_ns, a.start_ns, a.kernel, body, a.correlation_id)


_U32: Final = (1 << 32) - 1
_U64: Final = (1 << 64) - 1
_WITH_TEXT: Final[dict[int, Callable[[RowWriter, Any], None]]] = {
    acts.STREAM_RACE: _stream_race,
    acts.PRINT: _print,
}


class Follower:
    """Enters and leaves sessions with topstx."""

    def __init__(self, runtime: Runtime, hooks: Hooks) -> None:
        self._runtime = runtime
        self._hooks = hooks
        self._recording: Recording | None = None
        topstx.on_session(self._told)

    def base(self, mode: str) -> TimeBase:
        """The session's time where there is one, else a time of this process alone."""
        if self._recording is not None and self._recording.base is not None:
            return self._recording.base
        return LocalTimeBase(mode)

    @property
    def identity(self) -> int:
        """A number that processes with the same session time have in common; 0: this one's is its own."""
        recording = self._recording
        return 0 if recording is None or recording.base is None else recording.identity

    def started(self) -> None:
        """The runtime has its devices."""
        if self._recording is not None:
            self._recording.tell_devices()

    def instantiated(self, graph: GraphExec) -> None:
        """A graph was made executable, or has other nodes now."""
        if self._recording is not None:
            self._recording.tell_graph(graph)

    def finish(self) -> None:
        """The process ends: the last that there is to tell."""
        if self._recording is not None:
            self._recording.tell_cost()

    def _told(self, folder: str | None) -> None:
        if self._recording is not None:
            self._leave(self._recording)
        if folder is not None:
            self._enter(folder)

    def _enter(self, folder: str) -> None:
        runtime = self._runtime
        self._recording = Recording(runtime, self._hooks, folder)
        if runtime.started and self._recording.base is not None:
            runtime.use_base(self._recording.base)
        self.started()

    def _leave(self, recording: Recording) -> None:
        runtime = self._runtime
        self._recording = None
        if not runtime.started:
            recording.leave()
            return
        runtime.run_ahead()
        local = LocalTimeBase(runtime.clock.base.mode)
        with runtime.lock:
            local.advance(runtime.clock.now_ns() - local.now_ns())
            runtime.use_base(local)
        recording.leave()
