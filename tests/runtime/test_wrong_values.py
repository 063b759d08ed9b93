"""What functions of the runtime are given by mistake: a TopsError of one line with the vendor's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tops_kit as tops


class Loud:
    """A value that can't be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text of it")


class Wordy:
    """A value whose text is long, and has several lines."""

    def __repr__(self) -> str:
        return "many\nwords " * 10_000


@tops.kernel
def double(x: tops.ptr(tops.f32)) -> None:  # type: ignore[valid-type]
    tops.store(x[0:32], tops.load(x[0:32]) * 2.0)


WRONG: list[Any] = [
    Loud(), Wordy(), (Loud(), 1), [Wordy()], list(range(100_000)), "x" * 100_000,
    5.5, "\ud800", "a\nb\nc", b"", [[]], {}, np.ones((40, 4)), np.ones((4, 4), "i8"), math.inf, -math.nan,
    object(), 2**70, -(2**63) - 1, np.float64, tops.Graph, print, np.ones((3, 3), object), ("x", None),
]  # fmt: skip
ALL_WRONG: dict[str, Callable[[Any], Any]] = {
    "set_pool": tops.set_pool,
    "GraphExec": tops.GraphExec,
    "malloc_async pool": lambda v: tops.malloc_async(64, pool=v),
    "Module.load": tops.Module.load,
    "get_pool": tops.get_pool,
    "mem_get_info": tops.mem_get_info,
    "Stream device": lambda v: tops.Stream(device=v),
    "Event device": lambda v: tops.Event(device=v),
    "Graph device": lambda v: tops.Graph(device=v),
    "MemPool device": lambda v: tops.MemPool(device=v),
    "memset bits": lambda v: tops.memset(tops.zeros(4), 0, bits=v),
    "zeros dtype": lambda v: tops.zeros(4, v),
    "kernel.on": double.on,
    "option mode": lambda v: double.options(mode=v),
    "option pipeline": lambda v: double.options(pipeline=v),
    "option engine": lambda v: double.options(engine=v),
    "option stream": lambda v: double.options(stream=v),
    "launch shape": lambda v: double[v](np.zeros(32, "f4")),
    "launch grid": lambda v: double[v, 1](np.zeros(32, "f4")),
    "result of a launch": lambda v: double[1](np.zeros(32, "f4"))[v],
    "launch limit": lambda v: tops.Stream().set_launch_limit(v, 0),
    "launch limit sips": lambda v: tops.Stream().set_launch_limit(0, v),
    "graph constant": lambda v: tops.Graph().constant("x", v),
    "graph constant key": lambda v: _executable().update_constant(v, np.zeros(32, "f4")),
    "graph constants": lambda v: _executable().load_constants(v),
    "graph constants key": lambda v: _executable().load_constants({_hashable(v): 1}),
    "module function": lambda v: _module().function(v),
    "memcpy": lambda v: tops.memcpy(tops.zeros(4), v),
    "memcpy into": lambda v: tops.memcpy(v, tops.zeros(4)),
    "saved_launch": tops.saved_launch,
}


def _executable() -> tops.GraphExec:
    graph = tops.Graph()
    graph.add_kernel(double[1], (tops.zeros(32),))
    return graph.instantiate()


def _module() -> tops.Module:
    return tops.Module.from_source("@tops.kernel\ndef f(x: tops.ptr(tops.f32)):\n    tops.store(x[0], 1.0)\n")


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value


# some of the wrong values are right ones here
SOME_WRONG: dict[str, Callable[[Any], Any]] = {
    "Stream priority": lambda v: tops.Stream(priority=v),
    "Stream non_blocking": lambda v: tops.Stream(non_blocking=v),
    "Event interprocess": lambda v: tops.Event(interprocess=v, timing=False),
    "Event timing": lambda v: tops.Event(timing=v),
    "zeros shape": tops.zeros,
    "empty shape": tops.empty,
    "full value": lambda v: tops.full(4, v),
    "array": tops.array,
    "asarray": tops.asarray,
    "empty_like": tops.empty_like,
    "zeros_like": tops.zeros_like,
    "host_malloc shape": tops.host_malloc,
    "host_malloc dtype": lambda v: tops.host_malloc(8, v),
    "host_free": tops.host_free,
    "host_work": lambda v: tops.host_work(v) if not isinstance(v, int) else None,
    "error_name": tops.error_name,
    "error_string": tops.error_string,
    "malloc": tops.malloc,
}


def refusal(call: Callable[[Any], Any], value: Any) -> str | None:
    """What a call says of a value; None: it takes it. Other errors than TopsErrors come through."""
    try:
        call(value)
    except tops.TopsError as error:
        return str(error)
    return None


OF_LAUNCHES = {name for name in ALL_WRONG if name.startswith(("kernel", "option", "launch ", "result"))} - {
    "launch limit",
    "launch limit sips",
}
RIGHT = {
    ("zeros dtype", type), ("graph constants", dict), ("memcpy", bytes), ("memcpy", np.ndarray),
    ("memcpy into", np.ndarray), ("graph constants key", np.ndarray),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL_WRONG)
def test_wrong_values_are_refused(name: str) -> None:
    for value in WRONG:
        if (name, type(value)) in RIGHT:
            continue
        text = refusal(ALL_WRONG[name], value)
        assert text is not None, type(value)
        assert name in OF_LAUNCHES or text.startswith("topsError")
        assert "\n" not in text
        assert len(text) < 400, text[:400]


@pytest.mark.parametrize("name", SOME_WRONG)
def test_no_value_brings_another_error(name: str) -> None:
    for value in WRONG:
        text = refusal(SOME_WRONG[name], value)
        assert text is None or (text.startswith("topsError") and "\n" not in text), value


@pytest.mark.parametrize("name", ["array", "asarray", "empty_like", "zeros_like"])
@pytest.mark.parametrize(
    "value",
    [
        np.ones(3, "i8"), np.ones(3, complex), np.array(["a"]), np.array([b"a"]), np.array([None]),
        np.ones(3, ">f4"), np.ones(3, "f8"), "text", b"bytes", 1j,
    ],
)  # fmt: skip
def test_types_that_devices_lack(name: str, value: Any) -> None:
    text = refusal(SOME_WRONG[name], value)
    assert text is not None
    assert text.startswith("topsErrorInvalidValue (1): ")
    assert "\n" not in text


@pytest.mark.parametrize("value", [[], None, "\ud800", "a\0b", 5])
def test_saved_launches_that_are_not_there(value: Any) -> None:
    with pytest.raises(tops.TopsError) as caught:
        tops.saved_launch(value)
    assert "\n" not in str(caught.value)
