"""Launches in C and in Python: the same results, times, records in the same order, and errors."""

from __future__ import annotations

import io
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tops_kit as tops
from tests.runtime.programs import add, picky, scale, spin
from tops_kit.errors import UserError
from tops_kit.runtime import activity as acts
from tops_kit.runtime import launcher as launcher_module
from tops_kit.runtime import quick_launches
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.quick_launches import Caller, extension_module

pytestmark = pytest.mark.usefixtures("needs_c")

ARRAYS = 3
STREAMS = 3  # the default one, one that waits for it, one that does not

needs_quick = pytest.mark.skipif(extension_module()[0] is None, reason=f"needs C: {extension_module()[1]}")


@tops.kernel
def shown(x: tops.ptr(tops.f32), n: tops.i32):
    if n > 2:
        tops.print("n is", n)
    tops.store(x[0:1], 1.0)


@tops.kernel
def small(x: tops.ptr(tops.f32), n: tops.i8, WIDE: tops.constexpr = 64):
    t = tops.load(x[0:WIDE])
    for _ in range(n):
        t = t + 1.0
    tops.store(x[0:WIDE], t)


KERNELS = (scale, add, spin, small, shown, picky)


@dataclass
class Seen:
    """What a program was seen to do."""

    told: list[Any] = field(default_factory=list)
    launches: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    printed: str = ""
    errors: list[str] = field(default_factory=list)
    device: tuple[Any, ...] = ()


def without(activity: Any) -> Any:
    """An activity as a tuple; of a launch what its result says."""
    # where the memory of two runs lies is no one's doing
    fields = tuple("address" if type(v) is int and v > 1 << 40 else v for v in activity)
    if isinstance(activity, acts.KernelActivity):
        result = activity.launch.result if activity.launch is not None else None
        said = None if result is None else (result.ran, result.times and result.times.cycles, result.output)
        fields = (*fields[:-1], said)
    return type(activity).__name__, fields


@contextmanager
def long_way(on: bool) -> Iterator[None]:
    """Launches go the way of Python."""
    patch = pytest.MonkeyPatch()
    if on:
        for module in (launcher_module, quick_launches):
            patch.setattr(module, "described", lambda *_: None)
    try:
        yield
    finally:
        patch.undo()


Step = tuple[Any, ...]
_kernels = st.one_of(
    st.tuples(st.just("scale"), st.integers(1, 30), st.sampled_from([2.0, 0.5, 3, 1e39])),
    st.tuples(st.just("add"), st.integers(1, 30)),
    st.tuples(st.just("spin"), st.integers(0, 40)),
    st.tuples(st.just("small"), st.sampled_from([0, 1, 127, 300]), st.sampled_from([64, 32])),
    st.tuples(st.just("shown"), st.integers(0, 4)),
)
_steps = st.one_of(
    st.tuples(st.just("launch"), st.integers(0, STREAMS - 1), _kernels),
    st.tuples(st.just("launch"), st.just(0), _kernels),
    st.tuples(st.just("burst"), st.integers(0, STREAMS - 1), st.integers(1, 12), _kernels),
    st.tuples(st.just("copy"), st.integers(0, STREAMS - 1), st.integers(0, ARRAYS - 1)),
    st.tuples(st.just("record"), st.integers(0, STREAMS - 1)),
    st.tuples(st.just("wait"), st.integers(0, STREAMS - 1)),
    st.tuples(st.just("host"), st.integers(0, STREAMS - 1)),
    st.tuples(st.just("sync"), st.integers(-1, STREAMS - 1)),
    st.tuples(st.just("work"), st.integers(0, 20_000)),
    st.tuples(st.just("graph"), st.integers(1, STREAMS - 1), _kernels),
    st.tuples(st.just("fault"), st.integers(0, STREAMS - 1)),
    st.tuples(st.just("listen"), st.sampled_from([0, acts.ALL, acts.KERNEL, acts.ALL & ~acts.DRIVER])),
)


class Program:
    """A program of steps, and what is seen of it."""

    def __init__(self, seen: Seen, kinds: int) -> None:
        self.seen = seen
        self.arrays = [tops.array(np.linspace(k, k + 1, 256, dtype=np.float32)) for k in range(ARRAYS)]
        self.streams: list[Any] = [
            tops.default_stream(), tops.Stream(priority=-1), tops.Stream(non_blocking=True)
        ]  # fmt: skip
        self.events: list[Any] = []
        self.sink = HOOKS.add_sink(lambda kind, activity: seen.told.append((kind, without(activity))), kinds)

    def do(self, step: Step) -> None:
        """One step; what it raises is seen."""
        try:
            getattr(self, f"_{step[0]}")(*step[1:])
        except UserError as error:
            self.seen.errors.append(f"{type(error).__name__}: {error}")

    def _launch(self, stream: int, kernel: tuple[Any, ...]) -> None:
        x, y, z = self.arrays
        name, *numbers = kernel
        with self.streams[stream]:
            if name == "scale":
                done = scale[1, numbers[0] % 4 + 1](x, y, numbers[1])
            elif name == "add":
                done = add[2, numbers[0] % 3 + 1](x, y, z)
            elif name == "spin":
                done = spin[1, 1](z, numbers[0])
            elif name == "small":
                done = small[1, 1](x, numbers[0], numbers[1])
            else:
                done = shown[1, 1](y, numbers[0])
        self.seen.launches.append(done)

    def _burst(self, stream: int, count: int, kernel: tuple[Any, ...]) -> None:
        for _ in range(count):
            self._launch(stream, kernel)

    def _copy(self, stream: int, array: int) -> None:
        self.arrays[array].assign(np.full(256, 2.5, np.float32), self.streams[stream])

    def _record(self, stream: int) -> None:
        self.events.append(self.streams[stream].record())

    def _wait(self, stream: int) -> None:
        if self.events:
            self.streams[stream].wait_event(self.events[-1])

    def _host(self, stream: int) -> None:
        tops.launch_host_func(lambda: None, stream=self.streams[stream])

    def _sync(self, stream: int) -> None:
        if stream < 0:
            tops.synchronize()
        else:
            self.streams[stream].synchronize()

    def _work(self, ns: int) -> None:
        tops.host_work(ns)

    def _graph(self, stream: int, kernel: tuple[Any, ...]) -> None:
        other = self.streams[STREAMS - stream]
        self.streams[stream].begin_capture()
        for _ in range(3):
            self._launch(stream, kernel)
        forked = self.streams[stream].record()
        other.wait_event(forked)
        for _ in range(2):
            self._launch(STREAMS - stream, kernel)
        self._launch(stream, kernel)
        self.streams[stream].wait_event(other.record())
        self._launch(stream, kernel)
        graph = self.streams[stream].end_capture().instantiate()
        for _ in range(2):
            graph.launch(self.streams[stream])

    def _fault(self, stream: int) -> None:
        with self.streams[stream]:
            picky[1, 1](self.arrays[0], 2)

    def _listen(self, kinds: int) -> None:
        self.sink.set_kinds(kinds)

    def end(self) -> None:
        """All that was queued is done; what is left is looked at."""
        self.do(("sync", -1))
        for done in self.seen.launches:
            try:
                outcome = done.result
                self.seen.values.append((outcome.counts is not None, outcome.times and outcome.times.cycles))
            except UserError as error:
                self.seen.values.append(str(error))
        self.seen.launches.clear()
        context = RUNTIME.current()
        if not context.trouble:
            self.seen.values += [array.numpy().tobytes() for array in self.arrays]
        assert context.device is not None
        simulation = context.simulation
        self.seen.device = (
            RUNTIME.clock.now_ns(), simulation.use(), simulation.moved_bytes(), simulation.pending,
            simulation.last_end_ns, context.device.usage.totals(), next(context.grid_ids),
        )  # fmt: skip
        self.sink.close()


def seen_of(steps: Sequence[Step], kinds: int, *, python: bool) -> Seen:
    """What a program is seen to do, from the beginning of a runtime to its end."""
    RUNTIME.end()
    seen = Seen()
    HOOKS.serials, RUNTIME.graph_ids, RUNTIME.exec_ids = (itertools.count(1) for _ in range(3))
    out = io.StringIO()
    for kernel in KERNELS:
        kernel._launchers.clear()
    with long_way(python), redirect_stdout(out), redirect_stderr(out):
        program = Program(seen, kinds)
        for step in steps:
            program.do(step)
        program.end()
        RUNTIME.end()
    for kernel in KERNELS:
        kernel._launchers.clear()
    seen.printed = out.getvalue()
    return seen


@needs_quick
@given(st.lists(_steps, min_size=1, max_size=25), st.sampled_from([0, acts.ALL, acts.ALL & ~acts.DRIVER]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_c_and_python_are_the_same(model_clock: None, steps: list[Step], kinds: int) -> None:
    seen_of(steps, kinds, python=True)  # compiles, which is told, too
    quick, slow = seen_of(steps, kinds, python=False), seen_of(steps, kinds, python=True)
    for name in ("errors", "launches", "values", "printed", "device", "told"):
        assert getattr(quick, name) == getattr(slow, name), name


@needs_quick
def test_the_usual_launch_runs_no_python_of_ours(model_clock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = tops.zeros(64, "f32"), tops.zeros(64, "f32")
    launch = scale[1, 1]
    launch(x, y, 2.0)
    monkeypatch.setattr(launcher_module, "launch_kernel", None)
    for factor in (2.0, 3.0, 4):
        if isinstance(factor, int):
            with pytest.raises(TypeError):  # another type: the long way
                launch(x, y, factor)
        else:
            assert launch(x, y, factor).wait().cycles > 0


def test_a_changed_global_is_noticed(model_clock: None, tmp_path: Any) -> None:
    import importlib.util

    file = tmp_path / "changing.py"
    file.write_text(
        "import tops_kit as tops\nSTEP = 1.0\n\n\n@tops.kernel\ndef more(x: tops.ptr(tops.f32)):\n"
        "    tops.store(x[0:8], tops.load(x[0:8]) + STEP)\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location("changing", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = tops.zeros(8, "f32")
    launch = module.more[1, 1]
    for _ in range(3):
        launch(x)
    module.STEP = 10.0
    for _ in range(2):
        launch(x)
    assert x.tolist() == [23.0] * 8


def test_freed_memory_and_dead_streams_are_told(model_clock: None) -> None:
    pointer = tops.malloc(256)
    x, y = pointer.array((64,), "f32"), tops.zeros(64, "f32")
    launch = scale[1, 1]
    launch(x, y, 2.0)
    launch(x, y, 2.0)
    tops.free(pointer)
    with pytest.raises(tops.TopsError, match="freed"):
        launch(x, y, 2.0)
    stream = tops.Stream()
    with stream:
        launch(y, y, 2.0)
    onto = scale.options(stream=stream)[1, 1]
    onto(y, y, 2.0)
    onto(y, y, 2.0)
    stream.destroy()
    with pytest.raises(tops.TopsError, match="destroyed"):
        onto(y, y, 2.0)


def test_a_full_queue_makes_the_host_wait(model_clock: None) -> None:
    x = tops.zeros(64, "f32")
    launch = spin[1, 1]
    deepest = 0
    for _ in range(1300):
        launch(x, 6000)
        deepest = max(deepest, tops.default_stream().queue.depth)
    assert deepest == 1024
    tops.synchronize()
    assert tops.default_stream().queue.depth == 0


def test_threads_launch_beside_each_other() -> None:
    RUNTIME.end()
    x = [tops.zeros(64, "f32") for _ in range(4)]
    launch = scale[1, 1]

    def work(number: int) -> None:
        stream = tops.Stream(non_blocking=True)
        with stream:
            for _ in range(300):
                launch(x[number], x[number], 1.0)
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    simulation = RUNTIME.current().simulation
    assert simulation.pending == 0
    assert simulation.clusters.operations == 1200
    RUNTIME.end()


def test_the_twin_is_a_caller() -> None:
    class Says(Caller):
        def _slow(self, /, *args: Any, **keywords: Any) -> Any:
            return args, keywords

    says = Says()
    assert says(1, two=2) == ((1,), {"two": 2})
    assert says._learn((), ()) is False


@needs_quick
def test_the_usual_graph_runs_no_python_of_ours(model_clock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = tops.zeros(64, "f32"), tops.zeros(64, "f32")
    stream = tops.Stream()
    with stream:
        stream.begin_capture()
        for _ in range(5):
            scale[1, 1](x, y, 2.0)
        graph = stream.end_capture().instantiate()
    tops.synchronize()  # with zeros() on the default stream
    monkeypatch.setattr("tops_kit.runtime.graph.nodes.submit_kernel", None)
    for _ in range(3):
        graph.launch(stream)
    stream.synchronize()
    assert RUNTIME.current().simulation.clusters.operations == 15
    graph.set_arguments(0, y, x, 0.0)
    graph.launch(stream)
    before = [sys.getrefcount(value) for value in (x, y, stream, RUNTIME.current())]
    for _ in range(100):
        graph.launch(stream)
    stream.synchronize()
    assert [sys.getrefcount(value) for value in (x, y, stream, RUNTIME.current())] == before


def test_a_graph_waits_for_room_in_its_stream(model_clock: None) -> None:
    x = tops.zeros(64, "f32")
    stream = tops.Stream()
    with stream:
        stream.begin_capture()
        for _ in range(50):
            spin[1, 1](x, 6000)
        graph = stream.end_capture().instantiate()
    for _ in range(40):
        graph.launch(stream)
        assert stream.queue.depth < 1024 + 50
    stream.synchronize()
    assert stream.queue.depth == 0
