"""Ticks to session time: monotone, exact at the anchors, the same in C and in Python."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from topstx.recorder import layout

from tops_kit.collect import backend
from tops_kit.collect.clock import Anchor, ClockFile, ClockTable, best_clock, invariant_tsc, take_anchor
from tops_kit.collect.drain import to_ns

START = 1_700_000_000_000_000_000
# Gaps between anchors: ticks, and ns that a jittery reading of the clocks gives for them.
GAPS = st.lists(st.tuples(st.integers(1, 10**11), st.integers(1, 10**11)), min_size=1, max_size=30)


def table_of(gaps: list[tuple[int, int]]) -> ClockTable:
    tsc, monotonic = 10**15, 5 * 10**12
    anchors = [Anchor(tsc, monotonic, START)]
    for ticks, ns in gaps:
        tsc, monotonic = tsc + ticks, monotonic + ns
        anchors.append(Anchor(tsc, monotonic, START + 17))  # real time may be set meanwhile: it doesn't count
    return ClockTable(anchors)


@given(gaps=GAPS, ticks=st.lists(st.integers(10**15 - 10**9, 10**15 + 4 * 10**12), min_size=2, max_size=60))
def test_time_never_runs_backwards(gaps: list[tuple[int, int]], ticks: list[int]) -> None:
    pieces = table_of(gaps).freeze().pieces(layout.CLOCK_TSC)
    ordered = np.sort(np.array(ticks, np.uint64))
    assert (np.diff(to_ns(ordered, *pieces)) >= 0).all()


@given(gaps=GAPS)
def test_an_anchors_tick_is_its_monotonic_time(gaps: list[tuple[int, int]]) -> None:
    table = table_of(gaps)
    pieces = table.freeze().pieces(layout.CLOCK_TSC)
    expected = START + np.cumsum([0, *(ns for _, ns in gaps)])
    assert to_ns(pieces.ticks.astype(np.uint64), *pieces).tolist() == expected.tolist()


@pytest.mark.smoke
def test_monotonic_ticks_are_moved_exactly(loops: Any) -> None:
    table = table_of([(10, 10)])
    clock = table.freeze()
    for ns in (0, 1, 123_456_789_012_345):
        assert clock.to_ns(5 * 10**12 + ns, layout.CLOCK_MONOTONIC) == START + ns


def test_an_anchor_that_would_bend_time_is_refused() -> None:
    table = table_of([(100, 100)])
    assert not table.add(Anchor(10**15 + 50, 5 * 10**12 + 200, START))
    assert not table.add(Anchor(10**15 + 500, 5 * 10**12 + 50, START))
    assert table.add(Anchor(10**15 + 500, 5 * 10**12 + 500, START))


def test_anchors_come_back_from_their_file_also_when_it_was_cut(tmp_path: Path) -> None:
    file = ClockFile(tmp_path)
    assert file.read() == ([], False)
    file.create()
    anchors = [Anchor(1, 2, 3), Anchor(4, 5, 6)]
    for anchor in anchors:
        file.append(anchor)
    found, same_boot = file.read()
    assert found == anchors
    assert same_boot or not Path("/proc/sys/kernel/random/boot_id").exists()
    data = file.path.read_bytes()
    file.path.write_bytes(data[:-5])
    assert file.read()[0] == anchors[:1]
    file.path.write_bytes(b"x")
    assert file.read() == ([], False)


def test_the_counter_is_used_only_where_it_is_invariant(tmp_path: Path, loops: Any) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("flags\t\t: fpu constant_tsc nonstop_tsc\nflags\t\t: fpu constant_tsc\n")
    assert not invariant_tsc(info)
    info.write_text("flags\t\t: fpu constant_tsc nonstop_tsc\n")
    assert invariant_tsc(info)
    assert not invariant_tsc(tmp_path / "none")
    if loops is backend.load(pure=True)[0]:
        assert best_clock(loops) == layout.CLOCK_MONOTONIC


def test_real_anchors_place_the_present_near_real_time(loops: Any) -> None:
    table = ClockTable([take_anchor(loops)])
    table.add(take_anchor(loops))
    clock, anchor = table.freeze(), take_anchor(loops)
    kind = layout.CLOCK_TSC if anchor.tsc else layout.CLOCK_MONOTONIC
    assert abs(clock.to_ns(anchor.tsc or anchor.monotonic_ns, kind) - time.time_ns()) < 10**9


def test_the_table_in_the_session_is_thinned_to_a_second() -> None:
    table = table_of([(10**8, 10**8)] * 95)
    rows = table.to_json()["anchors"]
    assert len(rows) == 11
    assert rows[0][:2] == [10**15, 5 * 10**12]
    assert rows[-1][1] == 5 * 10**12 + 95 * 10**8
