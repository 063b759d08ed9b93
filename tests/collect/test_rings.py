"""Ring files that can't be trusted, and the ranges left open in those that can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topstx.recorder import layout

from tops_kit.collect.drain import RECORD
from tops_kit.collect.rings import RingError, RingNotReadyError, open_ring, unfinished_records


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("layout_version", 9, "layout version 9"),
        ("record_capacity", 3, "makes no sense"),
        ("record_capacity", 1 << 40, "shorter than its header says"),
        ("record_offset", 7, "makes no sense"),
        ("open_capacity", 1 << 50, "makes no sense"),
        ("head", 1 << 20, "counters make no sense"),
        ("tail", 5, "counters make no sense"),
        ("clock", 77, "unknown clock"),
        ("process_serial", 1, "names another ring"),
    ],
)
def test_a_damaged_header_is_said_in_one_line(
    fake_process: Callable[..., Any], field: str, value: int, problem: str
) -> None:
    ring = fake_process().ring(capacity=8)
    ring.set(field, value)
    with pytest.raises(RingError, match=problem):
        open_ring(ring.path)


def test_a_ring_that_is_being_built_is_no_error(fake_process: Callable[..., Any], recording: Path) -> None:
    ring = fake_process().ring(capacity=8, state=layout.RING_BUILDING)
    with pytest.raises(RingNotReadyError):
        open_ring(ring.path)
    for content in (b"", b"\0" * 8192):
        path = recording / "rings" / layout.ring_file_name(1, 1)
        path.write_bytes(content)
        with pytest.raises(RingNotReadyError):
            open_ring(path)


@settings(max_examples=100, deadline=None)
@given(header=st.binary(min_size=312, max_size=312))
def test_any_header_opens_or_is_refused(tmp_path_factory: Any, header: bytes) -> None:
    path = tmp_path_factory.mktemp("ring") / layout.ring_file_name(int.from_bytes(header[8:16], "little"), 1)
    path.write_bytes((layout.RING_MAGIC + header).ljust(8192, b"\0"))
    with pytest.raises((RingError, RingNotReadyError)):
        open_ring(path)


def test_open_ranges_come_in_order_of_their_begin(fake_process: Callable[..., Any]) -> None:
    ring = fake_process().ring(capacity=8)
    ring.open(5, 100, 1, tid=7)
    ring.open(0, 300, 2, tid=7, depth=2)
    ring.open(2, 200, 3, tid=8, payload=b"\x01\x08" + (5).to_bytes(8, "little"))
    ring.open(3, 250, 4)
    ring.close_open(3)
    ranges = open_ring(ring.path).open_ranges()
    assert ranges["begin"].tolist() == [100, 200, 300]
    records = np.frombuffer(unfinished_records(ranges, 250), RECORD)
    kinds = records["kind"].tolist()
    thread, range_, more = layout.KIND_THREAD, layout.KIND_RANGE, layout.KIND_MORE
    assert kinds == [thread, range_, thread, range_, more, thread, range_]
    ends = records["end"][records["kind"] == range_].tolist()
    assert ends == [250, 250, 300]  # never before its begin
    assert (records["flags"][records["kind"] == range_] & layout.FLAG_UNFINISHED).all()


@pytest.mark.parametrize("more", [b"", b"\x03\x20\x00" + b"x" * 32], ids=["plain", "with a payload"])
@pytest.mark.parametrize("consumed", [False, True])
def test_a_range_whose_record_is_out_is_not_open(
    fake_process: Callable[..., Any], more: bytes, consumed: bool
) -> None:
    """A kill between the record and the clearing of the open slot leaves both; the record counts."""
    ring = fake_process().ring(capacity=8)
    ring.open(0, 100, 1)
    ring.open(1, 200, 2)
    ring.open(2, 200, 3)
    ring.record(200, 250, 2, more=more)
    if consumed:
        ring.set("tail", ring.head)
    ranges = open_ring(ring.path).open_ranges()
    assert list(zip(ranges["begin"].tolist(), ranges["name"].tolist(), strict=True)) == [(100, 1), (200, 3)]
