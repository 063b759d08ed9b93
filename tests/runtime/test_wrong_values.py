"""What functions of the runtime are given by mistake: a TopsError of one line with the vendor's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.errors import UserError

WRONG: list[Any] = [
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
}
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


@pytest.mark.parametrize("name", ALL_WRONG)
def test_wrong_values_are_refused(name: str) -> None:
    for value in WRONG:
        if name == "zeros dtype" and value is np.float64:
            continue
        text = refusal(ALL_WRONG[name], value)
        assert text is not None, value
        assert text.startswith("topsError")
        assert "\n" not in text


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
    with pytest.raises(UserError) as caught:
        tops.saved_launch(value)
    assert "\n" not in str(caught.value)
