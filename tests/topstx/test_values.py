"""Colours and payloads as the slow path converts them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topstx.recorder.values import COLORS, color_argb, json_text, plain


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("color", "argb"),
    [
        ("blue", 0xFF0000FF), (" Blue ", 0xFF0000FF), ("rapids", 0xFF7400FF), ("#f00", 0xFFFF0000),
        ("#123456", 0xFF123456), ("#80123456", 0x80123456), ("0x123456", 0xFF123456), (0x123456, 0xFF123456),
        (0x7F123456, 0x7F123456), (0, 0xFF000000), (-1, 0xFFFFFFFF),
        ("123456", 0), ("#12345", 0), ("#gggggg", 0), ("", 0), (None, 0), (1.5, 0), ((1, 2), 0),
    ],
)  # fmt: skip
def test_colors(color: object, argb: int) -> None:
    assert color_argb(color) == argb


def test_nvtx_names_are_known() -> None:
    nvtx = {"green", "blue", "yellow", "purple", "rapids", "cyan", "red", "white", "darkgreen", "orange"}
    assert nvtx <= set(COLORS)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary()))
def test_any_color_is_a_number(color: object) -> None:
    assert 0 <= color_argb(color) <= 0xFFFFFFFF


@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
)
def test_json_round_trip(payload: dict[object, object]) -> None:
    text = json_text(payload)
    assert text is not None and json.loads(text) == payload


def test_json_of_odd_dicts() -> None:
    assert json.loads(json_text({(1, 2): object}) or "") == {"(1, 2)": repr(object)}
    assert json_text({"a": {1, 2}}) is not None


def test_plain_numbers_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    assert plain(numpy.int64(5)) == 5 and plain(numpy.float32(0.5)) == 0.5 and plain(numpy.array(3)) == 3
    assert plain([1]) == "[1]"
