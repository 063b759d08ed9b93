"""What holds of the cost model for any events."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.timing_traces import (
    FLAGS,
    L1,
    L2,
    L3,
    S60,
    Thread,
    bare,
    launches,
    replay,
    symmetric_launches,
)
from tops_kit import extension, gcu
from tops_kit.engine import timing
from tops_kit.engine.result import EVENT
from tops_kit.engine.timing_parameters import Parameters, parameters
from tops_kit.engine.timing_result import CAUSES, TimingResult

HAS_C = extension.load("tops_kit.engine._timing", 1)[0] is not None
needs_c = pytest.mark.skipif(not HAS_C, reason="needs the C extension")
DTE = 4

Launch = tuple[Parameters, list[Any], int]


def _same(a: TimingResult, b: TimingResult) -> bool:
    arrays = ("sip", "pc", "channel", "moved", "flops", "intervals")
    return (a.cycles, a.l1_bytes, a.transfers) == (b.cycles, b.l1_bytes, b.transfers) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays
    )


@needs_c
@pytest.mark.smoke
@given(launches(most=30))
@settings(max_examples=100, deadline=None)
def test_c_and_its_twin_agree_to_the_bit(launch: Launch) -> None:
    p, traces, block_threads = launch
    a = replay(traces, block_threads, p, intervals=True, pure=False)
    b = replay(traces, block_threads, p, intervals=True, pure=True)
    assert _same(a, b)
    assert a.solves == b.solves


@needs_c
@given(launches(), st.integers(1, 5))
@settings(max_examples=80, deadline=None)
def test_it_does_not_matter_how_events_are_fed(launch: Launch, chunk: int) -> None:
    p, traces, block_threads = launch
    whole = replay(traces, block_threads, p, intervals=True, pure=False)
    assert _same(whole, replay(traces, block_threads, p, intervals=True, pure=False, chunk=chunk))
    assert _same(whole, replay(traces, block_threads, p, intervals=True, pure=False))


@given(launches())
@settings(max_examples=40, deadline=None)
def test_every_cycle_of_a_sip_is_accounted_for(launch: Launch) -> None:
    p, traces, block_threads = launch
    r = replay(traces, block_threads, p)
    parts = [r.of_sips(name) for name in ("scalar", *CAUSES, "launch", "tail")]
    assert (sum(parts) == r.cycles).all()
    assert all((part >= 0).all() for part in parts)
    for unit in ("vector_busy", "matrix_busy", "dte_busy"):
        assert (r.of_sips(unit) <= r.cycles).all()
    assert r.of_sips("threads").sum() == len(traces)
    assert r.of_sips("scalar").sum() == sum(int(t["scalar_cycles"].sum()) for t in traces)
    for cause in CAUSES:
        assert r.of_sips(cause).sum() == r.of_instructions(cause).sum()
    assert r.of_instructions("blamed").sum() == sum(r.of_sips(cause).sum() for cause in CAUSES)
    assert r.of_instructions("events").sum() == sum(len(t) for t in traces)


@given(launches())
@settings(max_examples=40, deadline=None)
def test_bytes_and_operations_are_conserved(launch: Launch) -> None:
    p, traces, block_threads = launch
    r = replay(traces, block_threads, p)
    events = np.concatenate(traces)
    moving = np.isin(events["kind"], (3, 10))
    for source in range(4):
        for to in range(4):
            those = moving & (events["from"] == source) & (events["to"] == to)
            assert r.moved[source, to] == events["bytes"][those].sum()
    assert r.channel[:, :, 2].sum() == events["bytes"][events["kind"] == 3].sum()
    assert r.channel[:, :, 0].sum() == (events["kind"] == 3).sum()
    assert r.of_instructions("bytes").sum() == r.moved.sum()
    assert r.flops.sum() == events["flops"].sum()
    assert r.l1_bytes == events["bytes"][events["kind"] <= 2].sum()


@given(launches())
@settings(max_examples=40, deadline=None)
def test_intervals_of_a_unit_do_not_overlap(launch: Launch) -> None:
    p, traces, block_threads = launch
    r = replay(traces, block_threads, p, intervals=True)
    lanes: dict[tuple[int, int, int], list[Any]] = {}
    for row in r.intervals:
        assert 0 <= row["issued"] <= row["start"] < row["end"] <= r.cycles
        unit = 0 if row["unit"] == 1 else int(row["unit"])
        lane = (int(row["sip"]), unit, int(row["detail"]) if unit == DTE else 0)
        lanes.setdefault(lane, []).append(row)
    for rows in lanes.values():
        assert all(a["end"] <= b["start"] for a, b in pairwise(rows))
    for (sip, unit, detail), rows in lanes.items():
        busy = sum(int(row["end"] - row["start"]) for row in rows if row["unit"] == unit)
        expected = {
            0: lambda s=sip: r.of_sips("scalar")[s],
            2: lambda s=sip: r.of_sips("vector_busy")[s],
            3: lambda s=sip: r.of_sips("matrix_busy")[s],
            4: lambda s=sip, d=detail: r.channel[s, d, 1],
        }[unit]()
        assert busy == expected


_LOADS = st.lists(
    st.tuples(st.integers(0, 500), st.sampled_from([1, 128, 5000, 64_000]), st.integers(0, 3)), max_size=8
)


@given(st.lists(_LOADS, min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_no_rate_exceeds_its_peak(threads: list[list[tuple[int, int, int]]]) -> None:
    """In any stretch of time, loads that begin and end within it moved no more than each resource allows."""
    traces = []
    for loads in threads:
        t = Thread()
        for scalar, size, channel in loads:
            t.dma(size, L3, L1, scalar=scalar, channel=channel)
        traces.append(t.end())
    p = bare(clusters=2, sips_per_cluster=2, l3=200.0, link=150.0, latency=(0, 0, 0, 50))
    r = replay(traces, 2, p, intervals=True)
    rows = r.intervals[r.intervals["unit"] == DTE]
    assert len(rows) == sum(map(len, threads))
    for sip in range(4):
        _at_most(rows[rows["sip"] == sip], p.port)
    for cluster in range(2):
        _at_most(rows[rows["sip"] // 2 == cluster], p.link)
    _at_most(rows, p.l3)


def _at_most(rows: Any, rate: float) -> None:
    for start in set((rows["start"] + 50).tolist()):  # they wait for their memory first
        for end in {int(end) for end in rows["end"] if end > start}:
            inside = rows[(rows["start"] + 50 >= start) & (rows["end"] <= end)]["bytes"].sum()
            assert inside <= rate * (end - start + 1 / 512)  # a transfer may end 1/1024 of a cycle early


@given(symmetric_launches(), st.sampled_from([2, 3, 7]))
@settings(max_examples=40, deadline=None)
def test_all_speeds_times_k_divide_the_time_by_k(launch: tuple[list[Any], int], k: int) -> None:
    traces, block_threads = launch
    spec = gcu.load("s60")
    fast = spec.scaled(everything=k)
    a = replay(traces, block_threads, parameters(spec))
    b = replay(traces, block_threads, parameters(fast))
    assert _same(a, b)
    assert abs(spec.nanoseconds(a.cycles) - k * fast.nanoseconds(b.cycles)) <= k


@given(symmetric_launches(), st.sampled_from([1.01, 1.5, 2.0, 4.0]), st.data())
@settings(max_examples=100, deadline=None)
def test_more_bandwidth_is_never_slower_for_threads_that_do_the_same(
    launch: tuple[list[Any], int], factor: float, data: st.DataObject
) -> None:
    traces, block_threads = launch
    names = data.draw(st.sampled_from([("port",), ("l2",), ("link",), ("l3",), ("port", "l2", "link", "l3")]))
    more = replace(S60, **{name: getattr(S60, name) * factor for name in names})
    assert replay(traces, block_threads, more).cycles <= replay(traces, block_threads, S60).cycles


@given(symmetric_launches())
@settings(max_examples=40, deadline=None)
def test_threads_that_do_the_same_are_timed_the_same(launch: tuple[list[Any], int]) -> None:
    """One block, one cluster: all SIPs have the same times."""
    traces, block_threads = launch
    r = replay(traces[:block_threads], block_threads, bare())
    assert (r.sip[:block_threads] == r.sip[0]).all()


@pytest.mark.smoke
@pytest.mark.parametrize("pure", [pytest.param(False, marks=needs_c), True])
def test_events_that_no_run_gives_are_refused(pure: bool) -> None:
    good = Thread().end()
    with pytest.raises(ValueError, match="never ends"):
        replay([np.array([], EVENT)], 1, pure=pure)
    with pytest.raises(ValueError, match="block"):
        replay([good] * 13, 13, pure=pure)
    with pytest.raises(ValueError, match="no blocks of 2"):
        replay([good] * 3, 2, pure=pure)
    with pytest.raises(ValueError, match="no blocks of 0"):
        replay([], 0, pure=pure)
    with pytest.raises(ValueError, match="never ends"):  # one waits at a barrier for one that has ended
        replay([good, Thread().barrier().end()], 2, pure=pure)


@needs_c
@pytest.mark.parametrize(
    ("field", "value"),
    [("pc", 99), ("kind", 0), ("kind", 11), ("dtype", 8), ("key", 7), ("work", -1.0), ("work", np.nan),
     ("bytes", -1), ("from", 4), ("to", 9), ("to", 0), ("event", 0)],
)  # fmt: skip
def test_fields_out_of_range_are_refused(field: str, value: float) -> None:
    t = Thread()
    t.dma(100, L3, L2)
    events = t.end()
    events[field][0] = value
    with pytest.raises(ValueError, match="events of thread 0"):
        replay([events], 1, pure=False)


@needs_c
def test_the_module_agrees_with_python_about_versions_and_sizes() -> None:
    module, _ = extension.load("tops_kit.engine._timing", 1)
    assert module is not None
    assert module.COST_MODEL_VERSION == timing.COST_MODEL_VERSION
    assert EVENT.itemsize == module.EVENT_BYTES
    with pytest.raises(ValueError, match="parameters"):
        module.replay(b"", FLAGS, 0, 1, 1, False, 0, [Thread().end()])
    with pytest.raises(ValueError, match="size"):
        module.replay(S60.packed(), FLAGS, 0, 1, 1, False, 0, [b"x"])
