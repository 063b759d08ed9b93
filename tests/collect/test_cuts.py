"""Raw times to session time by the cuts of a recording, compared with a plain model of single times."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topstx.recorder import cuts as shared
from topstx.recorder import layout, rows

from tops_kit.collect import cuts
from tops_kit.collect.backend import Loops
from tops_kit.collect.collector import begin
from tops_kit.collect.control import create
from tops_kit.collect.finishing import finish
from tops_kit.collect.recovery import recover
from tops_kit.session import Session, SessionWriter

Entry = tuple[int, int, int, int, int]


def write(folder: Path, entries: list[Entry], mode: str = "virtual", **header: int) -> None:
    """A file of cuts with these entries; it is made, or written anew."""
    path = folder / shared.FILE
    path.unlink(missing_ok=True)
    shared.create(str(folder), mode)
    data = bytearray(path.read_bytes())
    values = dict(zip(layout.CUTS_FIELDS, struct.unpack_from(layout.CUTS_FORMAT, data), strict=True))
    values |= {"entries": len(entries), "processes": 1} | header
    struct.pack_into(layout.CUTS_FORMAT, data, 0, *values.values())
    for entry in entries:
        data += struct.pack(layout.CUT_FORMAT, *entry)
    path.write_bytes(data)


def plain(raw: int, entries: list[Entry], *, model: bool) -> int:
    """Session time at a raw time, step by step."""
    session, at = (0, None) if model else (None, None)
    for begin_raw, end_raw, session_begin, session_end, _ in entries:
        if raw < begin_raw:
            break
        if raw < end_raw:
            share = (raw - begin_raw) / (end_raw - begin_raw)
            return session_begin + int(np.floor(share * (session_end - session_begin)))
        session, at = session_end, end_raw
    if at is None:
        return 0 if model else raw
    assert session is not None
    return session if model else session + raw - at


@st.composite
def tables(draw: st.DrawFn, model: bool) -> list[Entry]:
    entries: list[Entry] = []
    raw = draw(st.integers(0, 1000))
    session = 0 if model else raw
    for _ in range(draw(st.integers(0, 12))):
        gap = draw(st.integers(0, 50))
        raw += gap
        session += 0 if model else gap
        length, moved = draw(st.integers(0, 40)), draw(st.integers(0, 60))
        entries.append((raw, raw + length, session, session + moved, 0))
        raw, session = raw + length, session + moved
    return entries


@settings(max_examples=200, deadline=None)
@given(st.data(), st.booleans())
def test_mapping_is_that_of_a_plain_model(data: st.DataObject, model: bool) -> None:
    entries = data.draw(tables(model))
    times = data.draw(st.lists(st.integers(0, 3000), min_size=1, max_size=40))
    columns = np.array([entry[:4] for entry in entries], np.int64).reshape(-1, 4).T
    table = {0: cuts.Entries(*columns)} if entries else {}
    found = cuts.Cuts(model, True, table).map(np.array(times, np.int64), 0).tolist()
    assert found == [plain(time, entries, model=model) for time in times]
    ordered = cuts.Cuts(model, True, table).map(np.arange(3000), 0)
    assert (np.diff(ordered) >= 0).all()


def test_a_cut_that_is_not_over(tmp_path: Path) -> None:
    write(tmp_path, [(100, 200, 100, 100, 0)], open_begin=500, open_session=400, frozen=400)
    found = cuts.CutFile(tmp_path).read()
    assert found.map(np.array([50, 150, 300, 499, 500, 9000]), 0).tolist() == [50, 100, 200, 399, 400, 400]
    write(tmp_path, [(100, 200, 100, 100, 0)], open_begin=100, open_session=100)  # killed before it said so
    assert cuts.CutFile(tmp_path).read().map(np.array([300]), 0).tolist() == [200]


def test_what_is_read_grows_and_what_was_given_stays(tmp_path: Path) -> None:
    entries: list[Entry] = [(k * 10, k * 10 + 5, k * 5, k * 5, 0) for k in range(5000)]
    write(tmp_path, entries[:10])
    file = cuts.CutFile(tmp_path)
    first = file.read()
    with (tmp_path / shared.FILE).open("r+b") as out:
        for k, entry in enumerate(entries):
            out.seek(layout.CUTS_ENTRIES_OFFSET + k * layout.CUT_BYTES)
            out.write(struct.pack(layout.CUT_FORMAT, *entry))
        out.seek(layout.CUTS_OFFSET["entries"])
        out.write(struct.pack("<Q", len(entries)))
    second = file.read()
    assert len(first.tables[0].begin) == 10 and len(second.tables[0].begin) == 5000
    assert second.map(np.array([49_992]), 0).tolist() == [4999 * 5]


def test_model_times_are_of_each_process(tmp_path: Path) -> None:
    write(tmp_path, [(10, 10, 0, 7, 1), (20, 20, 0, 9, 2), (30, 30, 7, 8, 1)], "model")
    found = cuts.CutFile(tmp_path).read()
    times = np.array([5, 15, 25, 35])
    assert [found.map(times, serial).tolist() for serial in (1, 2, 3)] == [
        [0, 7, 7, 8],
        [0, 0, 9, 9],
        [0] * 4,
    ]


@pytest.mark.parametrize("body", [b"", b"TOPSCUT1", b"\0" * layout.PAGE])
def test_files_that_are_none_change_nothing(tmp_path: Path, body: bytes) -> None:
    (tmp_path / shared.FILE).write_bytes(body)
    assert not cuts.CutFile(tmp_path).read().changes
    (tmp_path / shared.FILE).unlink()
    assert not cuts.CutFile(tmp_path).read().changes


def test_several_processes_in_model_time_are_marked() -> None:
    entries = cuts.Entries(*(np.zeros(1, np.int64) for _ in range(4)))
    facts = {"hidden_ns": 0, "lost_entries": 0, "order_measured": 0}
    found = [cuts.Cuts(True, True, dict.fromkeys(range(n), entries), facts=facts) for n in (1, 2)]
    assert not cuts.marks(found[0], 1)
    assert [(code, count) for code, count, _ in cuts.marks(found[1], 1)] == [("repaired:own_clocks", 2)]


def test_hidden_time_above_one_percent_is_marked(tmp_path: Path) -> None:
    write(tmp_path, [], hidden_ns=101, simulator_ns=2000)
    found = cuts.CutFile(tmp_path).read()
    assert [code for code, _, _ in cuts.marks(found, 10_000)] == ["repaired:hidden_host_time"]
    assert not cuts.marks(found, 10_100)
    told = cuts.summary(found, wall_ns=10_000, waiting_ns=3000)
    assert told["wall_ns"] == told["host_ns"] + told["waiting_ns"] + told["simulator_ns"]
    told = cuts.summary(found, wall_ns=10_000, waiting_ns=3000, profiler_ns=700)
    assert told["profiler_ns"] == 700 and told["host_ns"] == 10_000 - 3000 - 2000 - 700


# ---- by the collector --------------------------------------------------------------------------------------


def put_row(ring: Any, begin_ns: int, end_ns: int, name: int) -> None:
    body = bytes(rows.KINDS[rows.KIND_API].body.size)
    more = bytes([layout.MORE_BODY]) + len(body).to_bytes(2, "little") + body
    ring.record(begin_ns, end_ns, name, kind=rows.KIND_API, more=more)


@pytest.mark.parametrize("mode", ["virtual", "model"])
@pytest.mark.parametrize("crashed", [False, True])
def test_ranges_are_mapped_and_rows_are_not(
    recording: Path, loops: Loops, fake_process: Callable[..., Any], mode: str, crashed: bool
) -> None:
    control = create(recording, clock=layout.CLOCK_MONOTONIC)
    writer = SessionWriter.create(recording)
    collector = begin(recording, control, writer, loops)
    anchor = collector.clock.first
    at, origin = anchor.monotonic_ns, anchor.realtime_ns - anchor.monotonic_ns
    process = fake_process()
    serial = process.serial if mode == "model" else 0
    session = 0 if mode == "model" else at
    write(recording, [(at + 100, at + 400, session + (mode == "virtual") * 100, session + 100, serial)], mode)
    ring, name = process.ring(), process.name("x")
    ring.record(at + 50, at + 450, name)
    ring.record(at + 200, at + 200, name, kind=layout.KIND_MARK)
    counter = process.counter("c", "")
    ring.record(at + 450, struct.unpack("<Q", struct.pack("<d", 2.5))[0], counter, kind=layout.KIND_COUNTER)
    put_row(ring, session + 60, session + 90, name)
    collector.round()
    if crashed:
        collector.rotate()
        collector.wait_for_writer()
        ring.record(at + 500, at + 600, name)
        collector.writing.stop()
        writer.abandon()
        collector.close_pipes()
        recover(recording)
    else:
        finish(collector, "complete")
    base = 0 if mode == "model" else at + origin
    ranges = sorted((r["start_ns"] - base, r["duration_ns"]) for r in _rows(recording, "tx"))
    (call,) = _rows(recording, "api")
    (sample,) = _rows(recording, "counter")
    assert (call["start_ns"] - base, call["duration_ns"]) == (60, 30)
    if mode == "virtual":
        assert ranges == [(50, 100), (100, 0)] + [(200, 100)] * crashed
        assert (sample["start_ns"] - base, sample["value"]) == (150, 2.5)
    else:
        assert ranges == [(0, 100), (33, 0)] + [(100, 0)] * crashed
        assert (sample["start_ns"], sample["value"]) == (100, 2.5)
    assert not (recording / shared.FILE).exists()
    assert Session.open(recording).info["attributes"]["time"]["mode"] == mode


def _rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Session.open(folder).table(table).to_pylist()
    return found
