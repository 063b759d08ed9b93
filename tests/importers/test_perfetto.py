"""The Perfetto importer against traces that Perfetto's own protobuf classes wrote."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import pytest
from topsprof.importers import perfetto, wire
from topsprof.importers.base import ImportOptions, Source

from tops_kit.errors import TraceError
from tops_kit.session import Session, SessionWriter

pb = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed (tops-kit[bench])"
)
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Trace:
    """Writes packets of one or more sequences."""

    def __init__(self) -> None:
        self.proto = pb.Trace()

    def packet(self, sequence: int = 1, *, ts: int | None = None, flags: int = 0, **fields: Any) -> Any:
        packet = self.proto.packet.add(trusted_packet_sequence_id=sequence, **fields)
        if ts is not None:
            packet.timestamp = ts
        if flags:
            packet.sequence_flags = flags
        return packet

    def thread(self, uuid: int, pid: int, tid: int, name: str = "") -> None:
        descriptor = self.packet().track_descriptor
        descriptor.uuid = uuid
        descriptor.thread.pid, descriptor.thread.tid, descriptor.thread.thread_name = pid, tid, name

    def event(
        self, ts: int, kind: int, track: int = 1, name: str = "", sequence: int = 1, **fields: Any
    ) -> Any:
        event = self.packet(sequence, ts=ts).track_event
        event.type, event.track_uuid = kind, track
        if name:
            event.name = name
        for key, value in fields.items():
            setattr(event, key, value)
        return event


@pytest.fixture(params=["extension", "twin"], autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "twin":
        monkeypatch.setattr(wire, "_extension", lambda: None)
    elif wire._extension() is None:
        pytest.skip("the extension _wire is not built here")


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def run(trace: Trace | bytes, **options: Any) -> Session:
        path = tmp_path / "in.pftrace"
        path.write_bytes(trace if isinstance(trace, bytes) else trace.proto.SerializeToString())
        source = Source(path)
        importer = perfetto.PerfettoImporter()
        assert importer.detects(source.head(), path)
        target = tmp_path / f"out{random.random()}.topsprof"
        with SessionWriter.create(target, kind="import") as writer:
            importer.run(source, writer, ImportOptions(**options))
        return Session.open(target)

    return run


def rows(session: Session, *columns: str, table: str = "tx") -> list[tuple[Any, ...]]:
    data = session.table(table, columns)
    return sorted(zip(*(data[name].to_pylist() for name in columns), strict=True), key=str)


def codes(session: Session) -> dict[str, int]:
    return {f"{entry.kind}:{entry.code}": entry.count for entry in session.ledger.entries if not entry.clean}


@pytest.mark.smoke
def test_slices_nest_on_threads_and_keep_their_annotations(load: Any) -> None:
    trace = Trace()
    process = trace.packet().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 9, 5, "server"
    process.process.cmdline.extend(["server", "--fast"])
    trace.thread(1, 5, 6, "main")
    outer = trace.event(100, BEGIN, name="outer")
    outer.categories.extend(["net", "slow"])
    for key, field, value in (
        ("i", "int_value", -(1 << 62)),
        ("u", "uint_value", (1 << 64) - 1),
        ("d", "double_value", 0.1),
        ("b", "bool_value", True),
        ("s", "string_value", 'quo"te\n'),
        ("j", "legacy_json_value", '{"x":[1]}'),
    ):
        note = outer.debug_annotations.add()
        note.name = key
        setattr(note, field, value)
    nested = outer.debug_annotations.add()
    nested.name = "n"
    entry = nested.dict_entries.add()
    entry.name = "list"
    for value in (1, 2):
        entry.array_values.add().int_value = value
    trace.event(120, BEGIN, name="inner")
    trace.event(120, INSTANT, name="tick")
    trace.event(130, END)
    trace.event(150, END).debug_annotations.add(name="at end", int_value=7)
    session = load(trace)
    assert session.ledger.clean
    assert rows(session, "name", "start_ns", "duration_ns", "process_id", "thread_id", "style", "domain") == [
        ("inner", 120, 10, 5, 6, "PushPop", None),
        ("outer", 100, 50, 5, 6, "PushPop", "net,slow"),
        ("tick", 120, 0, 5, 6, "Mark", None),
    ]
    import json

    args = {name: json.loads(text) if text else None for name, text in rows(session, "name", "args")}
    assert args["outer"] == {
        "i": -(1 << 62),
        "u": (1 << 64) - 1,
        "d": 0.1,
        "b": True,
        "s": 'quo"te\n',
        "j": {"x": [1]},
        "n": {"list": [1, 2]},
        "at end": 7,
    }
    assert rows(session, "pid", "name", "command", table="process") == [(5, "server", '["server", "--fast"]')]
    assert rows(session, "thread_id", "name", table="thread") == [(6, "main")]


def test_interning_starts_anew_when_the_state_is_cleared(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    for number, name in enumerate(("first", "second")):
        packet = trace.packet(flags=1)  # cleared
        packet.interned_data.event_names.add(iid=1, name=name)
        for kind, ts in ((BEGIN, 10 + 10 * number), (END, 15 + 10 * number)):
            event = trace.packet(ts=ts, flags=2).track_event
            event.type, event.track_uuid, event.name_iid = kind, 1, 1
    other = trace.packet(2, flags=1)  # the same number in another sequence is another name
    other.interned_data.event_names.add(iid=1, name="other")
    event = trace.packet(2, ts=50, flags=2).track_event
    event.type, event.track_uuid, event.name_iid = INSTANT, 1, 1
    assert rows(load(trace), "name", "start_ns") == [("first", 10), ("other", 50), ("second", 20)]


def test_after_a_lost_packet_what_needs_state_is_dropped_until_it_is_cleared(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)

    def instant(ts: int, **fields: Any) -> None:
        packet = trace.packet(ts=ts, **{"flags": 2, **fields})
        packet.track_event.type, packet.track_event.track_uuid, packet.track_event.name_iid = INSTANT, 1, 1

    instant(5)  # before any state
    trace.packet(flags=1).interned_data.event_names.add(iid=1, name="known")
    instant(10)
    trace.packet(previous_packet_dropped=1)
    instant(20)
    instant(21)
    trace.packet(flags=1, previous_packet_dropped=1).interned_data.event_names.add(iid=1, name="again")
    instant(30)
    session = load(trace)
    assert rows(session, "name", "start_ns") == [("again", 30), ("known", 10)]
    assert codes(session) == {"dropped:incremental_state_missing": 3}


def test_times_of_incremental_and_default_clocks(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    packet = trace.packet(flags=1)
    clocks = packet.clock_snapshot.clocks
    clocks.add(clock_id=6, timestamp=1_000_000)
    clocks.add(clock_id=3, timestamp=400_000)
    clocks.add(clock_id=64, timestamp=1_000, is_incremental=True, unit_multiplier_ns=1000)
    packet.trace_packet_defaults.timestamp_clock_id = 64
    packet.trace_packet_defaults.track_event_defaults.track_uuid = 1
    for step in (1, 2, 0, 5):  # microseconds each after the one before
        trace.packet(ts=step, flags=2).track_event.type = INSTANT
    monotonic = trace.packet(ts=400_500, timestamp_clock_id=3, flags=2)
    monotonic.track_event.type = INSTANT
    session = load(trace)
    assert session.ledger.clean, session.ledger.lines()
    assert sorted(session.table("tx")["start_ns"].to_pylist()) == [
        1_000_500,
        1_001_000,
        1_003_000,
        1_003_000,
        1_008_000,
    ]
    unknown = Trace()
    unknown.packet(ts=77, timestamp_clock_id=1).track_event.type = INSTANT
    assert codes(load(unknown)) == {"repaired:clock_without_snapshot": 1}


def test_counters_with_units_increments_and_extra_values(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    for uuid, name, fields in (
        (2, "memory", {"unit": 3, "unit_multiplier": 1024}),
        (3, "hits", {"is_incremental": True}),
        (4, "load", {"unit_name": "%"}),
    ):
        descriptor = trace.packet().track_descriptor
        descriptor.uuid, descriptor.parent_uuid, descriptor.name = uuid, 1, name
        for key, value in fields.items():
            setattr(descriptor.counter, key, value)
    trace.event(10, COUNTER, 2, counter_value=3)
    for ts in (11, 12):
        trace.event(ts, COUNTER, 3, counter_value=5)
    trace.event(13, COUNTER, 4, double_counter_value=0.5)
    begin = trace.event(20, BEGIN, name="work")
    begin.extra_counter_track_uuids.extend([2, 3])
    begin.extra_counter_values.extend([4, 1])
    begin.extra_double_counter_track_uuids.append(4)
    begin.extra_double_counter_values.append(0.25)
    trace.event(30, END)
    assert rows(load(trace), "name", "start_ns", "value", "unit", "process_id", table="counter") == sorted(
        [
            ("memory", 10, 3072.0, "bytes", 1),
            ("memory", 20, 4096.0, "bytes", 1),
            ("hits", 11, 5.0, None, 1),
            ("hits", 12, 10.0, None, 1),
            ("hits", 20, 11.0, None, 1),
            ("load", 13, 0.5, "%", 1),
            ("load", 20, 0.25, "%", 1),
        ],
        key=str,
    )


def test_flows_link_each_event_to_the_next(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    trace.thread(2, 1, 2)
    for ts, track, fields in (
        (10, 1, {"flow_ids": [7]}),
        (20, 2, {"flow_ids": [7]}),
        (30, 1, {"terminating_flow_ids": [7]}),
        (40, 1, {"flow_ids": [7]}),
        (50, 2, {"terminating_flow_ids": [7]}),
    ):
        event = trace.event(ts, INSTANT, track, "x")
        for key, value in fields.items():
            getattr(event, key).extend(value)
    assert rows(
        load(trace), "source_ns", "source_thread_id", "target_ns", "target_thread_id", table="link"
    ) == [(10, 1, 20, 2), (20, 2, 30, 1), (40, 1, 50, 2)]


def test_a_flow_that_ends_before_it_starts_keeps_its_link(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    trace.event(10, INSTANT, 1, "kernel").terminating_flow_ids.append(7)
    trace.event(12, INSTANT, 1, "launch").flow_ids.append(7)
    assert rows(load(trace), "source_ns", "target_ns", table="link") == [(12, 10)]


def test_what_is_unbalanced_is_repaired_and_counted(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    trace.event(5, END)
    trace.event(10, BEGIN, name="open")
    trace.event(20, BEGIN, name="closed")
    trace.event(25, END)
    trace.event(40, INSTANT, name="last")
    session = load(trace)
    assert codes(session) == {"dropped:end_without_begin": 1, "repaired:begin_without_end": 1}
    assert rows(session, "name", "start_ns", "duration_ns", "unfinished") == [
        ("closed", 20, 5, None),
        ("last", 40, 0, None),
        ("open", 10, 30, True),
    ]
    with pytest.raises(TraceError, match="end without begin"):
        load(trace, on_error="strict")


def test_packets_in_any_order_and_in_many_stretches(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "STRETCH_BYTES", 256)
    trace = Trace()
    trace.thread(1, 1, 1)
    trace.event(0, BEGIN, name="all").debug_annotations.add(name="k", string_value="kept over stretches")
    for number in range(200):
        trace.event(10 + 10 * number, BEGIN, name=f"n{number % 7}")
        trace.event(15 + 10 * number, END)
    trace.event(5000, END)
    session = load(trace)
    assert session.ledger.clean
    assert session.tables()["tx"] == 201
    assert rows(session, "name", "duration_ns", "args")[0] == ("all", 5000, '{"k":"kept over stretches"}')


def test_compressed_packets_and_unsupported_kinds(load: Any) -> None:
    inner = Trace()
    inner.thread(1, 3, 4)
    inner.event(10, INSTANT, name="inside")
    trace = Trace()
    trace.packet().compressed_packets = zlib.compress(inner.proto.SerializeToString())
    trace.packet().ftrace_events.cpu = 1
    trace.packet().perf_sample.cpu = 1
    trace.packet().streaming_profile_packet.callstack_iid.append(1)
    session = load(trace)
    assert rows(session, "name", "process_id", "thread_id") == [("inside", 3, 4)]
    assert codes(session) == {
        "unsupported:ftrace_bundle": 1,
        "unsupported:perf_sample": 1,
        "unsupported:streaming_profile": 1,
    }


def test_a_truncated_file_keeps_what_is_whole(load: Any) -> None:
    trace = Trace()
    trace.thread(1, 1, 1)
    trace.event(10, INSTANT, name="kept")
    trace.event(20, INSTANT, name="cut off by the end of the file")
    session = load(trace.proto.SerializeToString()[:-5])
    assert rows(session, "name") == [("kept",)]
    assert codes(session) == {"dropped:truncated_packet": 1}


def test_tracks_that_are_no_threads_get_their_own_number_and_name(load: Any) -> None:
    trace = Trace()
    process = trace.packet().track_descriptor
    process.uuid, process.process.pid = 9, 5
    descriptor = trace.packet().track_descriptor
    descriptor.uuid, descriptor.parent_uuid, descriptor.name = 77, 9, "requests"
    trace.event(1, BEGIN, 77, "get")
    trace.event(2, END, 77)
    session = load(trace)
    assert rows(session, "name", "process_id", "thread_id", "style") == [("get", 5, 77, "StartEnd")]
    assert rows(session, "process_id", "thread_id", "name", table="thread") == [(5, 77, "requests")]
