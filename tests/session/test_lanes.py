"""Lanes and pyramids: what holds for all of them, and that the C extension and its twin agree to the bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tops_kit.session import _lanes_py
from tops_kit.session.backend import backend

pytestmark = pytest.mark.smoke

Event = tuple[int, int, int, int]
small = st.tuples(st.integers(0, 2), st.integers(-20, 40), st.integers(0, 20), st.integers(0, 4))
extreme = st.tuples(
    st.just(0),
    st.sampled_from([-(2**63), -1, 0, 2**62, 2**63 - 2, 2**63 - 1]),
    st.sampled_from([-(2**63), -5, 0, 1, 2**62, 2**63 - 1]),
    st.just(0),
)
events_strategy = st.one_of(st.lists(small, max_size=60), st.lists(extreme, max_size=12))


def _order(
    module: Any, events: list[Event], recorded: bool
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    table = np.array(events, np.int64).reshape(-1, 4)
    order, depth = np.empty(len(events), np.uint32), np.empty(len(events), np.int32)
    module.lane_order(
        table[:, 0].astype(np.int32),
        3,
        table[:, 1].copy(),
        table[:, 2].copy(),
        table[:, 3].astype(np.int32) if recorded else None,
        order,
        depth,
    )
    return order, depth


def _end(event: Event) -> int:
    return min(event[1] + max(event[2], 0), 2**63 - 1)


@settings(max_examples=300, deadline=None)
@given(events=events_strategy, recorded=st.booleans())
def test_the_extension_and_the_twin_agree_on_lanes(events: list[Event], recorded: bool) -> None:
    first, second = _order(backend(), events, recorded), _order(_lanes_py, events, recorded)
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])


@settings(max_examples=200, deadline=None)
@given(events=events_strategy, recorded=st.booleans())
def test_events_of_a_lane_do_not_overlap(events: list[Event], recorded: bool) -> None:
    order, depth = _order(backend(), events, recorded)
    assert sorted(order.tolist()) == list(range(len(events)))
    lanes: dict[tuple[int, int], list[Event]] = {}
    for row, level in zip(order.tolist(), depth.tolist(), strict=True):
        assert level >= (events[row][3] if recorded else 0)
        lanes.setdefault((events[row][0], level), []).append(events[row])
    for lane in lanes.values():
        for before, after in pairwise(lane):
            assert _end(before) <= after[1]


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Properly nested (start, duration, depth)."""
    found: list[tuple[int, int, int]] = []

    def grow(begin: int, end: int, depth: int) -> None:
        at = begin
        while at < end and len(found) < 60:
            start = at + draw(st.integers(0, 3))
            length = draw(st.integers(1, 12))
            if start + length > end:
                return
            found.append((start, length, depth))
            if depth < 5 and length > 2 and draw(st.booleans()):
                grow(start + 1, start + length - 1, depth + 1)
            at = start + length

    grow(0, 80, 0)
    return found


@given(trees(), st.randoms())
def test_nested_events_lie_at_their_nesting_depth(tree: list[tuple[int, int, int]], random: Any) -> None:
    random.shuffle(tree)
    events = [(0, start, length, 0) for start, length, _ in tree]
    order, depth = _order(backend(), events, False)
    assert {int(row): int(level) for row, level in zip(order, depth, strict=True)} == {
        row: level for row, (_, _, level) in enumerate(tree)
    }


def test_who_overlaps_spills_and_who_is_enclosed_lies_below(lanes_module: Any) -> None:
    events = [(0, 0, 10, 0), (0, 5, 10, 0), (0, 12, 2, 0), (0, 20, 0, 0), (0, 20, 5, 0), (0, 25, 0, 0)]
    order, depth = _order(lanes_module, events, False)
    assert dict(zip(order.tolist(), depth.tolist(), strict=True)) == {0: 0, 1: 1, 2: 2, 3: 1, 4: 0, 5: 0}


def test_many_overlapping_events(lanes_module: Any) -> None:
    events = [(0, i, 1000, 0) for i in range(700)]
    _, depth = _order(lanes_module, events, False)
    assert sorted(depth.tolist()) == list(range(700))


@pytest.mark.parametrize("wrong", ["track", "size"])
def test_arguments_are_checked(wrong: str) -> None:
    module = backend()
    if module is _lanes_py:
        pytest.skip("the twin is given arrays")
    track = np.array([5 if wrong == "track" else 0], np.int32)
    out = np.empty(1 if wrong == "track" else 2, np.int32)
    with pytest.raises(ValueError):
        module.lane_order(
            track, 1, np.zeros(1, np.int64), np.zeros(1, np.int64), None, np.empty(1, np.uint32), out
        )


@st.composite
def lanes(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], ...]:
    gaps = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 90)), min_size=1, max_size=80))
    start, end, at = [], [], draw(st.sampled_from([-(2**40), -1000, 0]))
    for gap, length in gaps:
        start.append(at + gap)
        end.append(at + gap + length)
        at = end[-1]
    cut = draw(st.integers(0, len(start)))
    names = draw(st.lists(st.integers(0, 3), min_size=len(start), max_size=len(start)))
    return np.array([0, cut, len(start)]), np.array(start), np.array(end), np.array(names, np.int32)


@settings(max_examples=200, deadline=None)
@given(lanes(), st.sampled_from([(1, 100, 100), (1, 40, 60), (8, 16, 35)]))
def test_pyramids(lane: tuple[np.ndarray[Any, Any], ...], rule: tuple[int, int, int]) -> None:
    bounds, start, end, name = lane
    least, first_percent, percent = rule
    results = [
        module.pyramid(bounds, start, end, name, 4, 2, 12, least, first_percent, percent)
        for module in (backend(), _lanes_py)
    ]
    for one, other in zip(*results, strict=True):
        assert bytes(one) == bytes(other)
    columns = [np.frombuffer(part, np.int32 if i == 2 else np.int64) for i, part in enumerate(results[0][:6])]
    for number, shift, begin, count in np.frombuffer(results[0][6], np.int64).reshape(-1, 4).tolist():
        rows = slice(bounds[number], bounds[number + 1])
        first, last, _, events, busy, longest = (column[begin : begin + count] for column in columns)
        assert events.sum() == rows.stop - rows.start
        assert busy.sum() == (end[rows] - start[rows]).sum()
        assert longest.max() == (end[rows] - start[rows]).max()
        assert (first[1:] >= last[:-1]).all()
        assert (last - first)[events > 1].max(initial=0) < 2 << shift


def test_the_busiest_name_speaks_for_a_run(lanes_module: Any) -> None:
    start = np.array([0, 10, 20, 30])
    out = lanes_module.pyramid(
        np.array([0, 4]),
        start,
        start + np.array([3, 2, 4, 5]),
        np.array([0, 1, 2, 1], np.int32),
        3,
        6,
        6,
        1,
        100,
        100,
    )
    assert np.frombuffer(out[2], np.int32).tolist() == [1]
    assert np.frombuffer(out[3], np.int64).tolist() == [4]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)), max_size=50))
def test_values_by_group(rows: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in rows], np.int32)
    values = np.array([value for _, value in rows], np.int64)
    for module in (backend(), _lanes_py):
        out = np.empty(len(rows), np.int64)
        module.scatter(codes, values, np.bincount(codes, minlength=6).astype(np.int64), out)
        assert out.tolist() == [value for _, value in sorted(rows, key=lambda row: row[0])]
        if rows:
            with pytest.raises(ValueError, match="counts"):
                module.scatter(codes, values, np.zeros(6, np.int64), out)
