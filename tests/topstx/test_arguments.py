"""What is no text where one is wanted, and objects that can't be printed."""

from __future__ import annotations

from typing import Any

import pytest
from topstx.recorder import layout

pytestmark = pytest.mark.smoke

ODD = """
import topstx

class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text")
    __str__ = __repr__
    def __call__(self):
        return 7

class OddInt(int):
    def __index__(self):
        raise ValueError
    __int__ = __index__
    __repr__ = __index__

class OddStr(str):
    def encode(self, *_):
        raise ValueError

HUGE = 10**5000
ODD = [5, None, b"\\xff", 1.5, HUGE, Unprintable(), OddInt(5), OddStr("text"), [Unprintable()], "\\ud800", {}]
"""


@pytest.mark.parametrize("env", [{}, {"TOPSTX_SESSION": ""}], ids=["recorded", "alone"])
def test_no_type_or_value_is_refused(program: Any, env: dict[str, str]) -> None:
    code = """
for odd in ODD:
    for call in (topstx.mark, topstx.push_range, topstx.start_range):
        call(odd, color=odd, domain=odd, category=odd, payload=odd)
    with topstx.annotate("a", color=odd, domain=odd, category=odd, payload=odd):
        pass
    topstx.pop_range(odd)
    topstx.set_thread_name(odd, odd)
    topstx.set_process_name(odd)
    topstx.counter(odd, odd, odd).sample(1)
    domain = topstx.get_domain(odd)
    domain.mark("m")
    domain.counter(odd, odd).sample(2)
    assert isinstance(domain.get_category_id(odd), int)
    assert isinstance(domain.get_registered_string(odd), str)
"""
    program(ODD + code, env=env)


def test_what_cannot_be_printed_is_named_by_its_type(program: Any) -> None:
    code = """
assert topstx.get_domain(HUGE).name == "<unprintable int>"
assert topstx.counter(Unprintable(), 5).name == "<unprintable Unprintable>"
assert topstx.counter("c", 5).unit == "5"
assert topstx.counter("c", None).unit == ""
assert topstx.counter(5) is topstx.counter("5")
topstx.mark(Unprintable())
"""
    recording = program(ODD + code)
    assert recording.only.names(layout.KIND_MARK) == ["<unprintable Unprintable>"]


def test_what_cannot_be_called_is_not_decorated(program: Any) -> None:
    code = """
for thing in (5, property(lambda self: 1)):
    try:
        topstx.annotate("x")(thing)
    except TypeError as error:
        assert "decorates functions" in str(error)
    else:
        raise AssertionError(thing)
assert topstx.annotate()(Unprintable())() == 7
"""
    program(ODD + code)
