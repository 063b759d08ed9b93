"""Rows of the runtime's tables: from rings to the session, by the collector's own path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topstx.recorder import layout, rows

from tops_kit.collect import table_rows
from tops_kit.collect.backend import Loops
from tops_kit.collect.clock import Anchor
from tops_kit.collect.collector import Collector, begin
from tops_kit.collect.control import create
from tops_kit.collect.finishing import finish
from tops_kit.session import Session, SessionWriter

API, KERNEL, MEMORY = (rows.KINDS[n] for n in (rows.KIND_API, rows.KIND_KERNEL, rows.KIND_MEMORY))


@pytest.fixture
def collector(recording: Path, loops: Loops) -> Collector:
    """A collector that has just begun."""
    control = create(recording)
    return begin(recording, control, SessionWriter.create(recording), loops)


def put(ring: Any, number: int, begin_ns: int, end_ns: int, name: int, body: bytes, **options: int) -> None:
    more = bytes([layout.MORE_BODY]) + len(body).to_bytes(2, "little") + body
    ring.record(begin_ns, end_ns, name, kind=number, more=more, **options)


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Session.open(folder).table(name).to_pylist()
    return found


def kernel_body(**fields: int) -> bytes:
    values = dict.fromkeys((name for name, _, _ in KERNEL.fields), 0) | fields
    return KERNEL.body.pack(*values.values())


def test_every_kind_has_columns_that_its_table_has(
    recording: Path, collector: Collector, fake_process: Callable[..., Any]
) -> None:
    process = fake_process()
    ring, name = process.ring(capacity=1024), process.name("a name")
    for number, kind in rows.KINDS.items():
        text = b'{"a": 1}' if kind.text else b""
        put(ring, number, 10, 10 if kind.instant else 30, name, bytes(kind.body.size) + text, task=5)
        put(ring, number, 20, 20, name, b"\1" * kind.body.size + text, task=6)
        put(ring, number, 30, 30, name, b"\1")  # of an older writer
    collector.round()
    finish(collector, "complete")
    tables = Session.open(recording).tables()
    kinds = [kind.table for kind in rows.KINDS.values()]
    for name in kinds:
        assert tables[name] == (2 if name == "device" else 3 * kinds.count(name)), name
    assert Session.open(recording).info["ledger"] is not None
    (stack, *_) = table(recording, "stack")
    assert (stack["name"], stack["parent_id"]) == ("a name", None)


def test_kernels_and_calls(recording: Path, collector: Collector, fake_process: Callable[..., Any]) -> None:
    process = fake_process()
    ring, launch, short, full = process.ring(), *map(process.name, ("topsLaunchKernel", "f", "f<i32>(x)"))
    anchor: Anchor = collector.clock.first
    origin, at = anchor.realtime_ns - anchor.monotonic_ns, anchor.monotonic_ns
    put(ring, rows.KIND_API, at, at + 50, launch, API.body.pack(700, 0, 3, 80, 1, 2), task=9)
    body = kernel_body(
        queued_ns=at, submit_ns=at + 40, contention_ns=2**40, grid_x=24, grid_y=1, grid_z=1, block_x=4,
        full_name=full, stream_id=3, context_id=1, device_id=1, metric_id=7, clusters=2, grid_id=11,
    )  # fmt: skip
    put(ring, rows.KIND_KERNEL, at + 60, at + 60 + 2**33, short, body, task=9)
    collector.round()
    finish(collector, "complete")
    (call,), (kernel,) = table(recording, "api"), table(recording, "kernel")
    assert call["start_ns"] == at + origin and call["duration_ns"] == 50
    told = [call[key] for key in ("name", "domain", "return_value", "stream_id", "correlation_id")]
    assert told == ["topsLaunchKernel", "runtime", 700, 3, 9]
    assert call["stack_id"] is None and call["device_id"] == 1 and call["thread_id"] == 100
    assert (kernel["name"], kernel["full_name"]) == ("f", "f<i32>(x)")
    assert kernel["start_ns"] - kernel["queued_ns"] == 60 and kernel["start_ns"] - kernel["submit_ns"] == 20
    assert (kernel["duration_ns"], kernel["contention_ns"]) == (2**33, 2**40)
    assert (kernel["graph_id"], kernel["graph_node_id"]) == (None, None)
    assert [kernel[key] for key in ("metric_id", "clusters", "grid_id", "grid_x", "block_x")] == [
        7,
        2,
        11,
        24,
        4,
    ]


def test_memory_has_signs_and_the_open_range(
    recording: Path, collector: Collector, fake_process: Callable[..., Any]
) -> None:
    process = fake_process()
    ring, name, inside = process.ring(), process.name("topsMalloc"), process.name("load weights")
    for operation in (1, 2):
        body = MEMORY.body.pack(2**63 + 4096, 100, 100, 3, 0, -1, 1, 0, 2, name, operation, 3)
        put(ring, rows.KIND_MEMORY, 5, 5, name, body, task=operation, attr=inside if operation == 1 else 0)
    collector.round()
    finish(collector, "complete")
    allocated, freed = table(recording, "memory")
    assert (allocated["size_bytes"], freed["size_bytes"]) == (100, -100)
    assert (allocated["range"], freed["range"]) == ("load weights", None)
    assert allocated["address"] % 2**64 == 2**63 + 4096 and allocated["memory_kind"] == "Device"
    assert (
        allocated["stream_id"] is None and allocated["stack_id"] % 2**32 == 2 and allocated["stack_id"] >> 32
    )


def test_devices_are_in_the_manifest(
    recording: Path, collector: Collector, fake_process: Callable[..., Any]
) -> None:
    process = fake_process()
    ring, names = process.ring(), [process.name(text) for text in ("Tops S60", "s60", "abcd")]
    kind = rows.KINDS[rows.KIND_DEVICE]
    put(ring, kind.number, 5, 5, names[0], kind.body.pack(names[1], names[2], 0, 3, 0) + b'{"clusters": 2}')
    collector.round()
    finish(collector, "complete")
    (device,) = Session.open(recording).info["attributes"]["devices"]
    assert device["specification"] == {"clusters": 2} and device["specification_hash"] == "abcd"
    (row,) = table(recording, "device")
    assert (row["name"], row["part"], row["cost_model"], row["slice"]) == ("Tops S60", "s60", 3, None)


def test_ranges_that_nobody_asked_for_are_left_out(
    recording: Path, loops: Loops, fake_process: Callable[..., Any]
) -> None:
    control = create(recording, rows_off=1 << layout.KIND_RANGE)
    collector = begin(recording, control, SessionWriter.create(recording), loops)
    process = fake_process()
    ring, name = process.ring(), process.name("x")
    ring.record(5, 9, name)
    put(ring, rows.KIND_API, 5, 9, name, bytes(API.body.size))
    collector.round()
    finish(collector, "complete")
    tables = Session.open(recording).tables()
    assert tables["api"] == 1 and "tx" not in {name for name, count in tables.items() if count}


def test_a_body_that_is_missing_is_counted(
    recording: Path, collector: Collector, fake_process: Callable[..., Any]
) -> None:
    process = fake_process()
    ring, name = process.ring(), process.name("x")
    ring.record(5, 9, name, kind=rows.KIND_KERNEL)
    ring.record(5, 9, name, kind=rows.KIND_KERNEL, more=b"\3\2\0ab")  # another tag
    put(ring, rows.KIND_KERNEL, 5, 9, name, kernel_body())
    collector.round()
    finish(collector, "complete")
    assert len(table(recording, "kernel")) == 1
    assert any("row_body" in entry["code"] for entry in Session.open(recording).info["ledger"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(rows.KINDS)), st.binary(max_size=200)), max_size=12),
    st.integers(0, 31),
)
def test_bodies_are_gathered_as_struct_unpacks_them(records: list[tuple[int, bytes]], offset: int) -> None:
    journal, places = bytearray(32 * (1 + offset % 3)), []
    for number, body in records:
        data = bytes([layout.MORE_BODY]) + len(body).to_bytes(2, "little") + body
        places.append((number, len(journal), body))
        for at in range(0, len(data), 30):
            part = data[at : at + 30]
            used = len(part) | (0x80 if at + 30 < len(data) else 0)
            journal += part.ljust(30, b"\xee") + bytes([layout.KIND_MORE, used])
    for number in {number for number, _, _ in places}:
        kind = rows.KINDS[number]
        mine = [(at, body) for one, at, body in places if one == number]
        found, good = table_rows.gather(journal, np.array([at for at, _ in mine], np.int64), number)
        assert good.all()
        for row, (_, body) in zip(found, mine, strict=True):
            expected = kind.body.unpack(body[: kind.body.size].ljust(kind.body.size, b"\0"))
            assert np.array(row).tobytes() == kind.body.pack(*expected)
