"""Streams of a graph's nodes: which ones, against a plain way to choose them; and what large graphs need."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tops_kit as tops
from tops_kit.runtime.graph.lanes import lanes_of

Lanes = tuple[dict[int, int], list[Any]]


def plainly(after: list[tuple[int, ...]], devices: list[Any]) -> Lanes:
    """The same choice, by all that comes before each node."""
    lane_of: dict[int, int] = {}
    last, lanes = [-1], [devices[0]]
    known: list[set[int]] = []
    for number, waits in enumerate(after):
        known.append(set(waits).union(*(known[k] for k in waits)))
        own = [lane for lane in range(len(lanes)) if lanes[lane] is devices[number]]
        fitting = [lane for lane in own if last[lane] in waits]
        fitting += [lane for lane in own if last[lane] in known[number] or last[lane] < 0]
        if not fitting:
            last.append(-1)
            lanes.append(devices[number])
        lane_of[number] = fitting[0] if fitting else len(last) - 1
        last[lane_of[number]] = number
    return lane_of, lanes


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_lanes_are_the_lowest_that_fit(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 30))
    far = data.draw(st.sampled_from((2, 5, 30)))
    after = [
        tuple(data.draw(st.lists(st.integers(max(0, k - far), k - 1), max_size=4, unique=True))) if k else ()
        for k in range(count)
    ]
    kinds = data.draw(st.sampled_from(("a", "ab", "abc")))
    devices: list[Any] = [data.draw(st.sampled_from(kinds)) for _ in range(count)]
    assert lanes_of(range(count), after, devices, devices[0]) == plainly(after, devices)


def edges(shape: str, count: int) -> list[tuple[int, ...]]:
    """What each node of a large graph waits for."""
    if shape == "chain":
        return [(), *((k - 1,) for k in range(1, count))]
    if shape == "wide":
        half = count // 2
        first = [(), *[(0,)] * (half - 2), tuple(range(1, half - 1))]
        return [*first, *[(half - 1,)] * (count - half - 1), tuple(range(half, count - 1))]
    # diamonds, one after the other
    out: list[tuple[int, ...]] = [()]
    for k in range(0, count - 3, 3):
        out += [(k,), (k,), (k + 1, k + 2)]
    return out


@pytest.mark.parametrize(("shape", "lanes"), [("chain", 1), ("wide", 9999), ("diamonds", 2)])
def test_large_graphs_need_memory_of_their_size(shape: str, lanes: int) -> None:
    after = edges(shape, 20_000)
    devices: list[Any] = ["a"] * len(after)
    tracemalloc.start()
    try:
        lane_of, found = lanes_of(range(len(after)), after, devices, devices[0])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(lane_of) == len(after)
    assert len(found) == lanes
    assert peak_bytes < 1000 * len(after)


def test_a_long_chain_runs(model_clock: None) -> None:
    x = tops.zeros(16, tops.u8)
    graph = tops.Graph()
    node = graph.add_memset(x, 0)
    for k in range(1, 5000):
        node = graph.add_memset(x, k % 7, after=[node])
    run = graph.instantiate()
    assert "5000 nodes on 1 streams" in repr(run)
    run.launch()
    tops.synchronize()
    assert (x.numpy() == 4999 % 7).all()


def test_edges_that_are_added_make_no_circle() -> None:
    graph = tops.Graph()
    a, b, c = (graph.add_empty() for _ in range(3))
    graph.add_dependency(a, b)
    graph.add_dependency(c, a)  # against the order they were added in
    with pytest.raises(tops.TopsError, match="circle"):
        graph.add_dependency(b, c)
    assert graph.order() == [c, a, b]
