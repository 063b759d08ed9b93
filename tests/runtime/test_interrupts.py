"""A handler of a signal raises at any moment of any call: afterwards all goes on, and nothing is lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tops_kit as tops
from tops_kit import deferral
from tops_kit.runtime.host_memory import PINNED
from tops_kit.runtime.process import RUNTIME

pytestmark = pytest.mark.skipif(deferral._module is None, reason="needs the extension _deferral")
OURS = str(Path(tops.__file__).parent)
EVERY = 29  # of the moments: a number that has nothing in common with the length of a loop


@tops.kernel
def add_one(x: tops.ptr(tops.f32)) -> None:  # type: ignore[valid-type]
    tops.store(x[0:32], tops.load(x[0:32]) + 1.0)


class Shot(BaseException):
    """What the handler raises."""


@contextmanager
def _handler() -> Iterator[None]:
    def shoot(*_: object) -> None:
        raise Shot

    outer = signal.signal(signal.SIGUSR1, shoot)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, outer)


def _shot_at(moment: int, script: Callable[[], object]) -> tuple[bool, bool]:
    """Runs a script with a signal at the n-th instruction of ours: whether it came, and whether it raised."""
    left = moment
    came = False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left, came
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not came:
            left -= 1
            if not left:
                came = True
                signal.raise_signal(signal.SIGUSR1)
        return trace

    outer = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # 3.12 asks when tracing begins whether any frame wants them
    sys.settrace(trace)
    try:
        script()
    except Shot:
        return came, True
    finally:
        sys.settrace(outer)
    return came, False


def _every_moment(script: Callable[[], object], check: Callable[[], None], first: int) -> int:
    """How often the script was shot at; `check` after each."""
    moment, shots = first, 0
    with _handler():
        while True:
            came, raised = _shot_at(moment, script)
            check()
            if not came:
                return shots
            assert raised, f"the signal of moment {moment} was lost"
            shots += 1
            moment += EVERY


def _goes_on(x: tops.Array) -> None:
    """The device does what it is given, as ever."""
    x.fill(0)
    add_one[1](x)
    tops.synchronize()
    assert x.numpy()[0] == 1
    simulation = RUNTIME.contexts[0].simulation
    assert not simulation.pending
    for engine in simulation.engines.values():
        assert engine.free == engine.capacity
        assert not engine.waiting


@pytest.mark.parametrize("first", (1, 11))
def test_launches_and_waits(first: int) -> None:
    tops.device_reset()
    x = tops.zeros(64)
    stream = tops.Stream()
    add_one[1](x)
    tops.synchronize()

    def script() -> None:
        add_one[1](x)
        add_one.options(stream=stream)[1](x)
        stream.synchronize()
        tops.synchronize()

    assert _every_moment(script, lambda: _goes_on(x), first) > 20


@pytest.mark.parametrize("first", (1, 11))
def test_memory_and_copies(first: int) -> None:
    tops.device_reset()
    x = tops.zeros(64)
    held: list[Any] = []

    def script() -> None:
        pointer = tops.malloc(4096)
        held.append(pointer)
        tops.memcpy(pointer, b"abc", 3)

    def check() -> None:
        _goes_on(x)
        while held:
            tops.free(held.pop())

    assert _every_moment(script, check, first) > 20


@pytest.mark.parametrize("first", (1, 11))
def test_memory_that_nobody_got_is_given_back(first: int) -> None:
    tops.device_reset()
    context = RUNTIME.contexts[0]
    stream = tops.Stream()
    names = ("device", "stream", "pinned")
    got: dict[str, Any] = {}

    def script() -> None:
        got["device"] = tops.malloc(4096)
        got["stream"] = tops.malloc_async(4096, stream)
        got["pinned"] = tops.host_malloc(4096)

    def check() -> None:
        assert len(context.blocks) == len({"device", "stream"} & got.keys())
        assert (PINNED.in_use_bytes > 0) == ("pinned" in got)
        for name, give in zip(names, (tops.free, tops.free_async, tops.host_free), strict=True):
            if name in got:
                give(got.pop(name))

    assert _every_moment(script, check, first) > 20


def test_a_graph_and_an_event() -> None:
    tops.device_reset()
    x = tops.zeros(64)
    stream = tops.Stream()
    graph = tops.Graph()
    after: list[Any] = []
    for _ in range(3):
        after = [graph.add_kernel(add_one[1], (x,), after=after)]
    ready = graph.instantiate()

    def script() -> None:
        event = tops.Event()
        ready.launch(stream)
        event.record(stream)
        event.synchronize()

    assert _every_moment(script, lambda: _goes_on(x), 3) > 20


def test_a_host_function_is_interrupted_and_what_follows_is_done() -> None:
    tops.device_reset()
    x = tops.zeros(64)
    with _handler():
        tops.launch_host_func(signal.raise_signal, signal.SIGUSR1)
        with pytest.raises(Shot):
            tops.synchronize()
    add_one[1](x)
    assert x.numpy()[0] == 1
    _goes_on(x)


def test_handlers_wait_for_the_end_of_the_outermost_section() -> None:
    seen: list[int] = []
    outer = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    try:
        deferral.enter()
        deferral.enter()
        signal.raise_signal(signal.SIGUSR1)
        deferral.leave()
        assert not seen
        deferral.outside(lambda: None)
        assert len(seen) == 1
        signal.raise_signal(signal.SIGUSR1)
        assert len(seen) == 1
        deferral.leave()
        assert len(seen) == 2
        signal.raise_signal(signal.SIGUSR1)
        assert len(seen) == 3
    finally:
        signal.signal(signal.SIGUSR1, outer)


def test_the_recursion_limit_is_met_before_a_call_or_not_at_all() -> None:
    tops.device_reset()
    x = tops.zeros(64)
    add_one[1](x)
    tops.synchronize()

    def deep(frames: int) -> None:
        if frames:
            deep(frames - 1)
        else:
            add_one[1](x)
            tops.synchronize()

    limit = sys.getrecursionlimit()
    too_deep = 0
    for frames in range(limit - 150, limit):
        try:
            deep(frames)
        except RecursionError:
            too_deep += 1
    assert too_deep
    _goes_on(x)
