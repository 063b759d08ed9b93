"""Rows of bytes: which a view has, and whether two meet, against sets of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tops_kit.gcu.strided import Bytes, Rows, Undecided, bytes_of, meeting

AXIS = st.tuples(st.integers(-40, 40), st.integers(0, 5))
VIEW = st.builds(
    lambda address, axes, size: (address, [n for _, n in axes], [step for step, _ in axes], size),
    st.integers(500, 560), st.lists(AXIS, max_size=3), st.integers(1, 6),
)  # fmt: skip


def every_byte(address: int, shape: list[int], strides: list[int], size_bytes: int) -> set[int]:
    places = np.array([address])
    for extent, stride in zip(shape, strides, strict=True):
        places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
    return {int(place) + k for place in places for k in range(size_bytes)}


@given(VIEW, VIEW)
def test_bytes_meet_where_sets_of_them_do(a: tuple, b: tuple) -> None:
    ours, theirs = bytes_of(*a), bytes_of(*b)
    all_a, all_b = every_byte(*a), every_byte(*b)
    if all_a:
        assert (ours.begin, ours.end) == (min(all_a), max(all_a) + 1)
    found = meeting(ours, theirs)
    assert (found is not None) == bool(all_a & all_b)
    if found is not None:
        assert found[0] < found[1]
        assert set(range(*found)) <= all_a & all_b


@given(st.integers(1, 9), st.integers(1, 50), st.integers(1, 50), st.integers(-300, 300), st.data())
def test_rows_of_one_distance_are_never_looked_at_one_by_one(
    extent: int, run: int, other_run: int, apart: int, data: st.DataObject
) -> None:
    step = data.draw(st.integers(max(run, other_run) + 1, 80))
    a, b = (500, [extent, run], [step, 1], 1), (500 + apart, [7, other_run], [step, 1], 1)
    found = meeting(bytes_of(*a), bytes_of(*b))
    assert (found is not None) == bool(every_byte(*a) & every_byte(*b))
    many = (0, [1 << 40, 4], [8, 1], 1)
    assert meeting(bytes_of(*many), bytes_of(4, *many[1:])) is None
    assert meeting(bytes_of(*many), bytes_of(8 * 500 + 3, *many[1:])) is not None


def test_too_many_rows_are_said() -> None:
    many = Rows(4, ((16, 1 << 10), (1 << 20, 1 << 10)))
    with pytest.raises(Undecided):
        meeting(Bytes(0, 1 << 31, many), Bytes(8, 1 << 31, Rows(4, ((24, 1 << 10), (1 << 20, 1 << 10)))))
