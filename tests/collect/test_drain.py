"""The loops over records, C and twin alike: ring -> journal -> columns."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from topstx.recorder import layout

from tops_kit.collect import backend
from tops_kit.collect import journal_format as jf
from tops_kit.collect.backend import COLUMNS
from tops_kit.collect.drain import RECORD
from tops_kit.collect.rings import RingTable, open_ring

IDENTITY = (np.array([0], np.int64), np.array([0], np.int64), np.array([1.0]))


def make_journal(slots: int) -> mmap.mmap:
    memory = mmap.mmap(-1, jf.BLOCKS_OFFSET + slots * 32)
    struct.pack_into(jf.HEADER_FORMAT, memory, 0, jf.MAGIC, jf.VERSION, 0, 1, 0, len(memory))
    return memory


def empty(journal: mmap.mmap) -> None:
    struct.pack_into("<Q", journal, jf.USED_OFFSET, 0)


def table_of(*rings: Any) -> RingTable:
    table = RingTable()
    for ring in rings:
        table.add(open_ring(ring.path))
    return table


def columns_of(
    loops: Any, journal: mmap.mmap, pieces: tuple[Any, ...] = IDENTITY
) -> tuple[dict[str, Any], tuple[int, ...]]:
    blocks = jf.blocks(journal)
    places = np.array([(b.offset, b.slots, b.tid) for b in blocks], np.int64).reshape(-1, 3)
    arrays = [np.zeros(int(places[:, 1].sum()), type_) for type_ in COLUMNS.values()]
    answer = loops.split(journal, places, *pieces, *arrays)
    return {field: array[: answer[0]] for field, array in zip(COLUMNS, arrays, strict=True)}, answer


def payloads_of(loops: Any, journal: mmap.mmap, columns: dict[str, Any]) -> list[Any]:
    rows = len(columns["more"])
    offsets, valid = np.empty(rows + 1, np.int32), np.empty(rows, np.uint8)
    data = loops.payloads(journal, columns["more"], columns["flags"], offsets, valid)
    return [json.loads(data[offsets[i] : offsets[i + 1]]) if valid[i] else None for i in range(rows)]


@pytest.mark.smoke
def test_records_arrive_in_order_over_the_end_of_the_ring(
    loops: Any, fake_process: Callable[..., Any]
) -> None:
    ring = fake_process().ring(capacity=8)
    table, journal, seen = table_of(ring), make_journal(64), []
    for start in range(0, 30, 5):
        for value in range(start, start + 5):
            ring.record(value, value + 10, 1)
        assert loops.copy(table.memories, table.table, journal, 0, False) == (1, 5)
        assert ring.get("tail") == start + 5
        seen += columns_of(loops, journal)[0]["begin"].tolist()
        empty(journal)
    assert seen == list(range(30))


def test_a_record_and_its_payload_stay_in_one_block(loops: Any, fake_process: Callable[..., Any]) -> None:
    ring = fake_process().ring(capacity=32)
    more = struct.pack("<BH", layout.MORE_STR, 100) + b"x" * 100  # four slots
    for value in range(4):
        ring.record(value, value, 1, more=more)
    table = table_of(ring)
    journal = make_journal(2 + 7)  # block header and seven slots: one record and a half
    seen = []
    for _ in range(4):
        index, copied = loops.copy(table.memories, table.table, journal, 0, False)
        assert copied == 5
        columns, _ = columns_of(loops, journal)
        seen += columns["begin"].tolist()
        assert payloads_of(loops, journal, columns) == ["x" * 100]
        empty(journal)
    assert index == 1
    assert seen == [0, 1, 2, 3]


def test_half_a_record_waits_for_its_rest_unless_its_producer_died(
    loops: Any, fake_process: Callable[..., Any]
) -> None:
    ring = fake_process().ring(capacity=32)
    ring.record(1, 2, 1)
    ring.record(3, 4, 1, flags=layout.FLAG_MORE)  # its MORE slot is missing
    table, journal = table_of(ring), make_journal(64)
    assert loops.copy(table.memories, table.table, journal, 0, False)[1] == 1
    assert loops.copy(table.memories, table.table, journal, 0, False)[1] == 0
    assert loops.copy(table.memories, table.table, journal, 0, True)[1] == 1
    columns, _ = columns_of(loops, journal)
    assert columns["begin"].tolist() == [1, 3]
    assert columns["more"].tolist() == [-1, -1]


def test_a_ring_whose_head_makes_no_sense_is_skipped_and_told_once(
    loops: Any, fake_process: Callable[..., Any]
) -> None:
    process = fake_process()
    good, bad = process.ring(capacity=8), process.ring(capacity=8)
    table, journal = table_of(bad, good), make_journal(64)
    good.record(1, 1, 1)
    bad.set("head", 1 << 60)
    assert loops.copy(table.memories, table.table, journal, 0, False) == (2, 1)
    assert [ring.serial for ring in table.take_bad()] == [bad.serial]
    assert table.take_bad() == []


def test_a_full_journal_says_where_to_go_on(loops: Any, fake_process: Callable[..., Any]) -> None:
    process = fake_process()
    rings = [process.ring(capacity=8) for _ in range(3)]
    for number, ring in enumerate(rings):
        for value in range(4):
            ring.record(10 * number + value, 0, 1)
    table, journal = table_of(*rings), make_journal(2 + 4 + 2 + 2)
    assert loops.copy(table.memories, table.table, journal, 0, False) == (1, 6)
    empty(journal)
    assert loops.copy(table.memories, table.table, journal, 1, False) == (3, 6)


def test_rows_belong_to_the_thread_told_before_them(loops: Any, fake_process: Callable[..., Any]) -> None:
    ring = fake_process().ring(capacity=16, tid=5)
    table, journal = table_of(ring), make_journal(64)
    ring.record(1, 2, 1)
    ring.thread(6)
    ring.record(3, 4, 1)
    loops.copy(table.memories, table.table, journal, 0, False)
    ring.record(5, 6, 1)
    ring.thread(7)
    ring.record(7, 8, 1)
    loops.copy(table.memories, table.table, journal, 0, False)
    columns, answer = columns_of(loops, journal)
    ranges = columns["kind"] == layout.KIND_RANGE
    assert columns["tid"][ranges].tolist() == [5, 6, 6, 7]
    assert answer[5] == 2
    assert struct.unpack_from("<I", ring.memory, jf.RING_TAIL_TID)[0] == 7


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("tag", "body", "expected"),
    [
        (layout.MORE_INT, struct.pack("<q", -(2**63)), -(2**63)),
        (layout.MORE_FLOAT, struct.pack("<d", 0.1), 0.1),
        (layout.MORE_FLOAT, struct.pack("<d", 1e300), 1e300),
        (layout.MORE_FLOAT, struct.pack("<d", float("nan")), "nan"),
        (layout.MORE_FLOAT, struct.pack("<d", float("-inf")), "-inf"),
        (layout.MORE_STR, 'tab\t "quote" \\ \x01 \u20ac'.encode(), 'tab\t "quote" \\ \x01 \u20ac'),
        (layout.MORE_STR, b"broken \xff\xfe end", "broken \ufffd\ufffd end"),
        (layout.MORE_BYTES, b"\0\1\2\xff", {"base64": "AAEC/w=="}),
        (layout.MORE_JSON, b'{"a": [1, 2]}', {"a": [1, 2]}),
        (layout.MORE_STR, b"", ""),
        (layout.MORE_STR, b"\0" * 70 + b"\xe0\xa0", "\0" * 70 + "\ufffd"),  # one cut sequence, one U+FFFD
        (layout.MORE_STR, b"\xf0\x9f\x98 \xed\xa0\x80 \xe0\x80", "\ufffd \ufffd\ufffd\ufffd \ufffd\ufffd"),
        (layout.MORE_JSON, b'["\xf0\x9f\x98"]', ["\ufffd"]),
    ],
)
def test_payloads_become_json(
    loops: Any, fake_process: Callable[..., Any], tag: int, body: bytes, expected: Any
) -> None:
    ring = fake_process().ring(capacity=64)
    ring.record(1, 2, 1)
    error = struct.pack("<BH", layout.MORE_ERROR, 10) + b"ValueError"
    end = struct.pack("<BHI", layout.MORE_END_TID, 4, 77)
    ring.record(
        3, 4, 1, flags=layout.FLAG_ERROR, more=end + error + struct.pack("<BH", tag, len(body)) + body
    )
    ring.record(5, 6, 1, flags=layout.FLAG_ERROR)
    table, journal = table_of(ring), make_journal(64)
    loops.copy(table.memories, table.table, journal, 0, False)
    columns, _ = columns_of(loops, journal)
    assert payloads_of(loops, journal, columns) == [None, expected, None]
    assert loops.errors(journal, columns["more"][1:].copy()) == ["ValueError", "?"]
    ends = np.zeros(3, np.int64)
    loops.end_threads(journal, columns["more"], ends)
    assert ends.tolist() == [-1, 77, -1]


def test_payloads_are_escaped_alike(fake_process: Callable[..., Any]) -> None:
    """Byte for byte what the json module writes, in both loops."""
    text = "".join(map(chr, range(0x80))) + "\u2028\ufffd\U0001f600"
    ring = fake_process().ring(capacity=64)
    data = text.encode()
    ring.record(1, 2, 1, more=struct.pack("<BH", layout.MORE_STR, len(data)) + data)
    table, journal = table_of(ring), make_journal(64)
    backend.load(pure=True)[0].copy(table.memories, table.table, journal, 0, False)
    for pure in (False, True):
        loops, _ = backend.load(pure=pure)
        columns, _ = columns_of(loops, journal)
        offsets, valid = np.empty(2, np.int32), np.empty(1, np.uint8)
        found = loops.payloads(journal, columns["more"], columns["flags"], offsets, valid)
        assert found.decode() == json.dumps(text, ensure_ascii=False)


def test_a_cut_json_payload_is_kept_as_text(loops: Any, fake_process: Callable[..., Any]) -> None:
    ring = fake_process().ring(capacity=64)
    ring.record(
        1, 2, 1, flags=layout.FLAG_TRUNCATED, more=struct.pack("<BH", layout.MORE_JSON, 8) + b'{"a": "b'
    )
    table, journal = table_of(ring), make_journal(64)
    loops.copy(table.memories, table.table, journal, 0, False)
    columns, _ = columns_of(loops, journal)
    assert payloads_of(loops, journal, columns) == ['{"a": "b']


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40), st.booleans()), min_size=1, max_size=40),
    room=st.integers(12, 40),
)
def test_every_published_record_is_copied_once_in_order(
    tmp_path_factory: Any, steps: list[tuple[int, int, bool]], room: int
) -> None:
    """Writes of random records interleave with copies into a journal of random size; both loops get the
    same.
    """
    results = []
    for pure in (False, True):
        loops, _ = backend.load(pure=pure)
        results.append(_run_steps(loops, tmp_path_factory.mktemp("ring"), steps, room))
    assert results[0] == results[1]


def _run_steps(loops: Any, folder: Any, steps: list[tuple[int, int, bool]], room: int) -> list[int]:
    (folder / "rings").mkdir()
    ring = _ring(folder)
    table, journal = table_of(ring), make_journal(room)
    written, seen = [], []
    for records, length, tell in steps:
        for _ in range(records):
            slots = 1 + (length + 3 + 29) // 30 if length else 1
            if ring.room < slots:
                break
            more = struct.pack("<BH", layout.MORE_BYTES, length) + b"z" * length if length else b""
            ring.record(len(written), 0, 1, more=more, publish=False)
            written.append(len(written))
        ring.publish()
        if tell:
            loops.copy(table.memories, table.table, journal, 0, False)
            seen += columns_of(loops, journal)[0]["begin"].tolist()
            empty(journal)
    while ring.get("tail") < ring.head:
        assert loops.copy(table.memories, table.table, journal, 0, False)[1]
        seen += columns_of(loops, journal)[0]["begin"].tolist()
        empty(journal)
    assert seen == written
    return seen


def _ring(folder: Any) -> Any:
    """A FakeRing without the fixture (hypothesis runs the test many times per fixture)."""
    from types import SimpleNamespace

    FakeRing = _FAKE[0]
    return FakeRing(SimpleNamespace(folder=folder, serial=0x77, pid=1), 1, capacity=16)


_FAKE: list[Any] = []


@pytest.fixture(autouse=True)
def _remember(fake_ring_class: Any) -> None:
    _FAKE[:] = [fake_ring_class]


def damaged_ring(tag: int, flags: int, body: bytes) -> bytes:
    """Slots of one range with a payload. The test makes kinds of them: 0 RANGE, 1 MORE."""
    chain = struct.pack("<BH", tag, len(body)) + body
    parts = [chain[at : at + layout.MORE_DATA] for at in range(0, len(chain), layout.MORE_DATA)]
    slots = [struct.pack(layout.RECORD_FORMAT, 1, 2, 1, 0, 0, 0, 0, layout.FLAG_MORE | flags)]
    for part in parts:
        goes_on = 0 if part is parts[-1] else layout.MORE_CONTINUES
        slots.append(struct.pack(layout.MORE_FORMAT, part, 1, len(part) | goes_on))
    return b"".join(slots)


TEXT = st.lists(
    st.sampled_from(
        [
            b"\0" * 29,
            b"\b",
            b'"',
            b"\xe0\xa0",
            b"\xf0\x90\x80",
            b"\xed\xa0\x80",
            "\u20ac".encode(),
            b"\xf4\x90",
        ]
    )
    | st.binary(max_size=6),
    max_size=8,
).map(b"".join)
RANGES = st.builds(
    damaged_ring,
    st.sampled_from([layout.MORE_STR, layout.MORE_JSON, layout.MORE_ERROR]),
    st.sampled_from([0, layout.FLAG_TRUNCATED, layout.FLAG_ERROR]),
    TEXT,
)


@settings(max_examples=150, deadline=None)
@given(
    data=st.binary(min_size=32, max_size=32 * 24) | st.lists(RANGES, min_size=1, max_size=4).map(b"".join),
    tid=st.integers(0, 2**32 - 1),
)
@example(data=damaged_ring(layout.MORE_STR, 0, b"\0" * 256 + b"\xe0\xa0"), tid=0)
@example(data=damaged_ring(layout.MORE_JSON, layout.FLAG_TRUNCATED, b"\0" * 20 + b"\xe0\xa0"), tid=0)
@example(data=damaged_ring(layout.MORE_STR, 0, b"\b\f\xf0\x90\x80")[:-3], tid=0)
def test_both_loops_agree_on_any_bytes(data: bytes, tid: int) -> None:
    """Whatever a broken producer writes: no crash, and the same columns, payloads and errors."""
    data = data[: len(data) // 32 * 32]
    kinds = [layout.KIND_RANGE, layout.KIND_MORE, layout.KIND_THREAD, layout.KIND_COUNTER]
    slots = bytearray(data)
    for at in range(30, len(slots), 32):
        slots[at] = kinds[slots[at] % 4] if slots[at] < 200 else slots[at]
    results = []
    pieces = (
        np.array([1000, 2000, 5000], np.int64),
        np.array([7, 1500, 3000], np.int64),
        np.array([1.493, 0.5, 0.75]),
    )
    for pure in (False, True):
        loops, _ = backend.load(pure=pure)
        journal = make_journal(2 + len(slots) // 32)
        struct.pack_into(
            jf.BLOCK_FORMAT, journal, jf.BLOCKS_OFFSET, jf.BLOCK_MAGIC, 0, 1, 1, 0, len(slots) // 32, tid, 0
        )
        journal[jf.BLOCKS_OFFSET + 64 : jf.BLOCKS_OFFSET + 64 + len(slots)] = bytes(slots)
        struct.pack_into("<Q", journal, jf.USED_OFFSET, 64 + len(slots))
        columns, answer = columns_of(loops, journal, pieces)
        rows = answer[0]
        offsets, valid = np.empty(rows + 1, np.int32), np.empty(rows, np.uint8)
        text = loops.payloads(journal, columns["more"], columns["flags"], offsets, valid)
        text.decode("utf-8")
        ends = np.empty(rows, np.int64)
        loops.end_threads(journal, columns["more"], ends)
        results.append(
            (
                answer,
                {k: v.tolist() for k, v in columns.items()},
                text,
                valid.tolist(),
                loops.errors(journal, columns["more"]),
                ends.tolist(),
            )
        )
    assert results[0] == results[1]


def test_record_type_has_the_layout_of_the_header() -> None:
    assert RECORD.itemsize == layout.RECORD_BYTES
    assert [RECORD.fields[name][1] for name in RECORD.names or ()] == list(layout.RECORD_OFFSET.values())
