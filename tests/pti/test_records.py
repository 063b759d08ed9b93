"""Packed records: what goes in comes out, versions only append, and damage is named."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import topspti
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topspti.kinds import HOOK_KINDS, ActivityKind
from topspti.layouts import LAYOUTS, NEWEST, read_record
from topspti.packing import PACKERS, call
from topspti.packing import kernel as pack_kernel
from topspti.strings import STRINGS

from tests.pti.activities import kernel, samples

# bytes of each released version of a record: none of these ever changes
SIZES = {
    ActivityKind.MEMCPY: (56, 108),
    ActivityKind.MEMSET: (62, 103),
    ActivityKind.KERNEL: (86, 121),
    ActivityKind.DRIVER: (44, 46),
    ActivityKind.RUNTIME: (44, 46),
    ActivityKind.SYNCHRONIZATION: (49,),
    ActivityKind.OVERHEAD: (41,),
    ActivityKind.EXTERNAL_CORRELATION: (24,),
    ActivityKind.GCU_EVENT: (48,),
    ActivityKind.GRAPH: (72,),
    ActivityKind.MEMORY: (86,),
    ActivityKind.HOST_FUNCTION: (56,),
    ActivityKind.DEVICE: (34,),
    ActivityKind.STREAM_RACE: (54,),
    ActivityKind.KERNEL_METRIC: (24,),
    ActivityKind.KERNEL_LINE: (68,),
    ActivityKind.PC_SAMPLING: (36,),
    ActivityKind.MARKER: (37,),
}


def test_sizes_of_released_versions_stay() -> None:
    assert {kind: tuple(each.size_bytes for each in versions) for kind, versions in LAYOUTS.items()} == SIZES


def test_a_version_extends_the_one_before_it() -> None:
    for versions in LAYOUTS.values():
        for older, newer in itertools.pairwise(versions):
            assert newer.fields[: len(older.fields)] == older.fields
            assert newer.form.format.startswith(older.form.format)


def test_every_field_of_a_record_is_packed() -> None:
    for layout in NEWEST.values():
        own = {each.name for each in dataclasses.fields(layout.record)} - {"kind", "version", "end_offset"}
        assert own == set(layout.fields)
    assert set(LAYOUTS) == set(HOOK_KINDS)


@pytest.mark.parametrize(("bit", "activity"), samples(), ids=lambda value: type(value).__name__)
def test_each_kind_comes_out_as_it_went_in(bit: int, activity: object) -> None:
    kind = next(kind for kind, needed in HOOK_KINDS.items() if needed == bit and kind in PACKERS)
    layout = NEWEST[kind]
    buffer = bytearray(layout.size_bytes + 9)
    layout.pack_into(buffer, 9, PACKERS[kind](activity))
    record = read_record(buffer, 9, len(buffer))
    assert type(record) is layout.record
    assert (record.kind, record.version, record.end_offset) == (kind, layout.version, len(buffer))
    spelled = {"size_bytes": "bytes"}
    for name in (
        "start_ns",
        "end_ns",
        "correlation_id",
        "name",
        "note",
        "size_bytes",
        "value",
        "grid_id",
        "nodes",
    ):
        if name in getattr(activity, "_fields", ()):
            own = spelled.get(name, name)
            if hasattr(record, own):
                assert getattr(record, own) == getattr(activity, name), name


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    start=st.integers(-(2**63), 2**63 - 1),
    grid=st.lists(st.integers(1, 2**32 - 1), min_size=1, max_size=3),
    block=st.lists(st.integers(1, 2**16 - 1), min_size=1, max_size=3),
    name=st.text(max_size=50),
    correlation=st.integers(0, 2**64 - 1),
)
def test_kernels_come_out_as_they_went_in(
    start: int, grid: list[int], block: list[int], name: str, correlation: int
) -> None:
    launch = kernel(
        start_ns=start, grid=tuple(grid), block=tuple(block), name=name, correlation_id=correlation
    )
    layout = NEWEST[ActivityKind.KERNEL]
    buffer = bytearray(layout.size_bytes)
    layout.pack_into(buffer, 0, pack_kernel(launch))
    record = read_record(buffer, 0, len(buffer))
    assert isinstance(record, topspti.KernelRecord)
    assert (record.start_ns, record.end_ns, record.completed_ns) == (start, 250, 250)
    assert [record.grid_x, record.grid_y, record.grid_z] == [*grid, 1, 1][:3]
    assert [record.block_x, record.block_y, record.block_z] == [*block, 1, 1][:3]
    assert (record.name, record.correlation_id) == (name, correlation)


def test_an_older_record_has_defaults_for_what_it_lacks() -> None:
    old = LAYOUTS[ActivityKind.RUNTIME][0]
    buffer = bytearray(old.size_bytes)
    old.pack_into(buffer, 0, (16, 1, 2, 3, 4, 5, 0))
    record = read_record(buffer, 0, len(buffer))
    assert isinstance(record, topspti.ApiRecord)
    assert (record.name, record.version, record.device_id) == ("topsMalloc", 1, 0)


def test_what_a_later_version_adds_is_stepped_over() -> None:
    layout = NEWEST[ActivityKind.RUNTIME]
    activity = next(each for bit, each in samples() if bit == HOOK_KINDS[ActivityKind.RUNTIME])
    buffer = bytearray(layout.size_bytes)
    layout.pack_into(buffer, 0, call(activity))  # type: ignore[arg-type]
    buffer[1], buffer[2] = layout.version + 1, layout.size_bytes + 6  # a field of 6 bytes more
    later = bytes(buffer) + b"\1" * 6
    unknown = bytes([250, 1, 8, 0, 1, 2, 3, 4])
    found = list(topspti.records(later + unknown + later, 2 * len(later) + 8))
    assert [type(each) for each in found] == [topspti.ApiRecord, topspti.Record, topspti.ApiRecord]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=80), st.integers(0, 100))
def test_any_bytes_are_records_or_one_clear_error(data: bytes, valid: int) -> None:
    try:
        for record in topspti.records(data, valid):
            assert record.end_offset <= valid
    except topspti.PtiError as error:
        assert "\n" not in str(error) and "complete" in str(error)


def test_strings_have_one_number() -> None:
    assert STRINGS.intern("") == 0
    first = STRINGS.intern("a kernel")
    assert STRINGS.intern("a kernel") == first
    assert STRINGS.text(first) == "a kernel"
    assert STRINGS.text(2**31) == "string2147483648"
