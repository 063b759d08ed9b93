"""Ranges, marks, counters, domains: what a call leaves in the ring."""

from __future__ import annotations

from typing import Any

import pytest
from topstx.recorder import layout as L


def pick(process: Any, name: str) -> Any:
    (found,) = [record for record in process.records if record.name == name]
    return found


@pytest.mark.smoke
def test_push_pop_nest(program: Any) -> None:
    process = program("""
        import topstx
        topstx.push_range("outer")
        for n in range(3):
            topstx.range_push("inner")
            topstx.range_pop()
        topstx.pop_range()
    """).only
    assert process.names() == ["inner"] * 3 + ["outer"]
    outer = pick(process, "outer")
    for inner in process.records[:3]:
        assert outer.begin <= inner.begin <= inner.end <= outer.end
        assert inner.depth == 1 and inner.task == 0 and inner.flags == 0
    assert outer.depth == 0 and outer.tid == process.pid
    assert not process.open and process.unbalanced == 0 and process.dropped == 0


def test_calls_return_nothing_that_steers(program: Any) -> None:
    program("""
        import topstx
        assert topstx.push_range("a") is None
        assert topstx.pop_range() is None
        assert topstx.mark("m") is None
        assert type(topstx.start_range("s")) is int
        for nothing in (0, None, 1 << 80, -1, "nonsense"): assert topstx.end_range(nothing) is None
        assert topstx.counter("c").sample("no number") is None
        with topstx.annotate("x") as found:
            assert isinstance(found, topstx.annotate)
        assert topstx.is_recording() is True
        assert topstx.backend() in ("c", "twin")
    """)


def test_what_can_not_be_recorded_is_counted(program: Any) -> None:
    process = program("""
        import topstx
        for unknown in (10**15, 1 << 80, -1, "nonsense"): topstx.end_range(unknown)
        topstx.end_range(topstx.start_range("s"))
        for unknown in (10**15, 1 << 80, -1, 1.5): topstx.end_range(unknown)
        for nothing in (0, None, False): topstx.end_range(nothing)
        for value in ("x", None, 10**400): topstx.counter("c").sample(value)
        for _ in range(2): topstx.mark("n" * 5000)
    """).only
    assert process.header["bad_ends"] + process.unbalanced == 8
    assert process.header["bad_samples"] == 3
    assert process.header["cut_names"] == 1
    assert [len(record.name) for record in process.of(L.KIND_MARK)] == [4096, 4096]


def test_what_is_not_to_be_recorded_is_not_counted(program: Any) -> None:
    program.create(domain_exclude=("off",), recording=L.RECORDING_ON)
    process = program("""
        import topstx
        topstx.counter("c", domain="off").sample("x")
        topstx.mark("up")
    """).only
    assert process.header["bad_samples"] == 0


def test_attributes_of_a_range(program: Any) -> None:
    process = program("""
        import topstx
        topstx.push_range("a", color="red", domain="net", category="io", payload=7)
        topstx.pop_range("net")
        topstx.push_range("b", "#8012ff34", category=9)
        topstx.pop_range()
        net = topstx.get_domain("net")
        number = net.get_category_id("io")
        assert number == net.get_category_id("io") == 1 and net.get_category_id("cpu") == 2
        net.push_range("c", category=number)
        net.pop_range()
        assert topstx.get_domain("net") is net is topstx.Domain("net") and net.name == "net"
        topstx.mark("d", domain=net, color=0x00FF00)
        topstx.mark("e", color="no such colour")
    """).only
    a, b, c = pick(process, "a"), pick(process, "b"), pick(process, "c")
    assert (a.domain, a.category, a.color, a.payload) == ("net", (1, "io"), 0xFFFF0000, 7)
    assert (b.domain, b.category, b.color) == ("", (9, ""), 0x8012FF34)
    assert (c.domain, c.category, c.color) == ("net", (1, "io"), 0)
    d, e = pick(process, "d"), pick(process, "e")
    assert d.kind == L.KIND_MARK and d.begin == d.end and (d.domain, d.color) == ("net", 0xFF00FF00)
    assert e.color == 0


PAYLOADS = {
    "0": 0,
    "-5": -5,
    "2**63-1": 2**63 - 1,
    "-2**63": -(2**63),
    "2**63": str(2**63),
    "True": 1,
    "1.5": 1.5,
    "float('inf')": float("inf"),
    "'text'": "text",
    "'ä€😀'": "ä€😀",
    "''": "",
    "'x' * 5000": "x" * 5000,
    "b'\\x00\\xff'": b"\x00\xff",
    "bytearray(b'abc')": b"abc",
    "{'a': [1, None], 'b': {'c': 'd'}}": {"a": [1, None], "b": {"c": "d"}},
    "{'o': 1+2j}": {"o": "(1+2j)"},
    "(1, 2)": "(1, 2)",
    "None": None,
}


@pytest.mark.smoke
def test_payloads(program: Any) -> None:
    code = ["import topstx"]
    for number, text in enumerate(PAYLOADS):
        code += [
            f"topstx.push_range('push {number}', payload={text}); topstx.pop_range()",
            f"topstx.mark('mark {number}', payload={text})",
            f"topstx.end_range(topstx.start_range('start {number}', payload={text}))",
            f"with topstx.annotate('with {number}', payload={text}): pass",
        ]
    process = program("\n".join(code)).only
    for number, (text, expected) in enumerate(PAYLOADS.items()):
        for how in ("push", "mark", "start", "with"):
            found = pick(process, f"{how} {number}").payload
            assert found == expected and type(found) is type(expected), (how, text)


def test_a_long_payload_is_cut_between_characters(program: Any) -> None:
    process = program("""
        import topstx
        topstx.mark("m", payload="€" * 10000)
        with topstx.annotate("r", payload="€" * 10000): pass
        topstx.mark("b", payload=bytes(20000))
        topstx.mark("fits", payload=bytes(16384))
    """).only
    for name in ("m", "r"):
        record = pick(process, name)
        assert record.flags & L.FLAG_TRUNCATED
        assert record.payload == "€" * (L.PAYLOAD_MAX // 3)
    assert len(pick(process, "b").payload) == L.PAYLOAD_MAX
    assert pick(process, "fits").flags & L.FLAG_TRUNCATED == 0


def test_bad_objects_never_raise(program: Any) -> None:
    process = program("""
        import topstx
        class Bad:
            def __str__(self): raise RuntimeError
            __repr__ = __str__
        loop = {}
        loop["self"] = loop
        topstx.push_range(Bad(), color=Bad(), category=5, payload=Bad()); topstx.pop_range()
        topstx.mark(3.5, payload={"a": Bad()}, category="x")
        topstx.mark(None, payload=loop)
        topstx.mark("surrogate \\udc80", payload="\\udc80")
        with topstx.annotate(17): pass
        topstx.mark("numbers", payload=2**200)
    """).only
    assert {"3.5", "", "17", "surrogate \\udc80", "numbers"} <= {record.name for record in process.records}
    assert pick(process, "numbers").payload == str(2**200)


def test_wrong_arguments_raise_on_and_off(program: Any) -> None:
    program("""
        import topstx, os, struct
        def wrong(f, *a, **k):
            try: f(*a, **k)
            except TypeError: return
            raise AssertionError(f)
        def all_wrong():
            for f in (topstx.push_range, topstx.mark, topstx.start_range, topstx.annotate):
                wrong(f, "a", colour="red")
                wrong(f, 1, 2, 3, 4, 5, 6)
                wrong(f, "a", message="b")
            wrong(topstx.pop_range, 1, 2)
            wrong(topstx.get_domain("d").push_range, "a", domain="x")
        all_wrong()
        from topstx.recorder import layout
        with open(os.environ["TOPSTX_SESSION"] + "/control", "r+b") as f:
            f.seek(layout.CONTROL_OFFSET["recording"]); f.write(struct.pack("<I", 0))
        assert not topstx.is_recording()
        all_wrong()
    """)


@pytest.mark.smoke
def test_start_end_and_counters(program: Any) -> None:
    process = program("""
        import topstx, threading
        a, b = topstx.start_range("a"), topstx.start_range("b", payload={"k": 1})
        assert a and b and a != b
        topstx.end_range(a)
        topstx.end_range(a)
        thread = threading.Thread(target=topstx.end_range, args=(b,))
        thread.start(); thread.join()
        open_one = topstx.start_range("left open", payload=3)
        depth = topstx.counter("depth", "items")
        depth.sample(1); depth.sample(2.5); depth.sample(-3)
        assert (depth.name, depth.unit) == ("depth", "items")
        topstx.get_domain("d").counter("size").sample(10**15)
    """).only
    a, b = pick(process, "a"), pick(process, "b")
    assert a.flags & L.FLAG_START_END and a.shared and a.end_tid is None and a.tid == process.pid
    assert b.tid == process.pid and b.end_tid not in (None, process.pid) and b.payload == {"k": 1}
    assert process.unbalanced == 1
    assert [record.name for record in process.open] == ["left open"] and process.open[0].payload == 3
    samples = [(r.name, r.unit, r.domain, r.value) for r in process.of(L.KIND_COUNTER)]
    assert samples == [
        ("depth", "items", "", 1.0),
        ("depth", "items", "", 2.5),
        ("depth", "items", "", -3.0),
        ("size", "", "d", 1e15),
    ]


def test_pop_takes_the_innermost_pushed_of_its_domain(program: Any) -> None:
    process = program("""
        import topstx
        d = topstx.get_domain("d")
        topstx.push_range("plain 1")
        d.push_range("d 1")
        topstx.push_range("plain 2")
        d.pop_range()                      # d 1, though plain 2 is inside
        with topstx.annotate("block"):
            topstx.pop_range()             # plain 2, never the block
            topstx.mark("inside")
        topstx.pop_range()                 # plain 1
        topstx.pop_range()
        d.pop_range()
    """).only
    assert process.names() == ["d 1", "plain 2", "block", "plain 1"]
    assert process.unbalanced == 2
    assert pick(process, "inside").depth == 2


def test_deep_nesting_grows_the_open_table(program: Any) -> None:
    process = program("""
        import topstx
        for n in range(3000): topstx.push_range(f"level {n}")
        for n in range(2900): topstx.pop_range()
    """).only
    assert process.names() == [f"level {n}" for n in range(2999, 99, -1)]
    assert [r.depth for r in process.records] == list(range(2999, 99, -1))
    assert sorted(int(r.name[6:]) for r in process.open) == list(range(100))


def test_switching_recording_keeps_pairs(program: Any) -> None:
    process = program("""
        import os, struct, topstx
        from topstx.recorder import layout
        def recording(value):
            with open(os.environ["TOPSTX_SESSION"] + "/control", "r+b") as f:
                f.seek(layout.CONTROL_OFFSET["recording"]); f.write(struct.pack("<I", value))
        topstx.push_range("on")
        block = topstx.annotate("block").__enter__()
        recording(0)
        topstx.push_range("unseen"); topstx.push_range("unseen too"); topstx.pop_range()
        recording(1)
        topstx.pop_range()                      # unseen's
        topstx.push_range("seen"); topstx.pop_range()
        recording(0)
        topstx.mark("unseen")
        block.__exit__(None, None, None)
        topstx.pop_range()                      # on's
        topstx.pop_range()
        assert topstx.start_range("unseen") == 0
    """).only
    assert process.names() == ["seen", "block", "on"]
    assert not process.open and process.unbalanced == 0 and not process.of(L.KIND_MARK)


@pytest.mark.parametrize(
    "end", [L.CAPTURE_END_NONE, L.CAPTURE_END_STOP, L.CAPTURE_END_STOP_SHUTDOWN, L.CAPTURE_END_REPEAT]
)
def test_capture_range(program: Any, end: int) -> None:
    process = program(
        """
        import topstx
        d = topstx.get_domain("phase")
        for n in range(4):
            topstx.push_range("before"); topstx.pop_range()
            topstx.push_range("work"); topstx.pop_range()      # the name, in another domain
            with d.annotate("work"):
                topstx.mark(f"in {n}")
            topstx.mark(f"after {n}")
        """,
        recording=L.RECORDING_ARMED,
        capture_name="work",
        capture_domain="phase",
        capture_end=end,
        capture_repeats=2,
    ).only
    control = program.reader.get_control(program.folder)
    marks = [r.name for r in process.of(L.KIND_MARK)]
    if end == L.CAPTURE_END_NONE:
        assert marks == ["in 0", "after 0", "in 1", "after 1", "in 2", "after 2", "in 3", "after 3"]
        assert control["recording"] == L.RECORDING_ON
    elif end == L.CAPTURE_END_REPEAT:
        assert marks == ["in 0", "in 1"] and control["capture_count"] == 2
        assert control["recording"] == L.RECORDING_OFF
    else:
        assert marks == ["in 0"] and control["recording"] == L.RECORDING_OFF
    assert control["shutdown_request"] == (end == L.CAPTURE_END_STOP_SHUTDOWN)
    assert not any(r.flags & (L.FLAG_CAPTURE | L.FLAG_PUSHED) for r in process.records)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"domain_include": ("a",)}, {"a"}),
        ({"domain_exclude": ("a",)}, {"", "b"}),
        ({"domain_exclude": ("default",)}, {"a", "b"}),
        ({"domain_include": ("default", "b"), "domain_exclude": ("b",)}, {""}),
    ],
)
def test_domain_filter(program: Any, options: dict[str, Any], expected: set[str]) -> None:
    process = program(
        """
        import topstx
        for name in (None, "a", "b"):
            topstx.push_range("p", domain=name); topstx.pop_range(name)
            topstx.mark("m", domain=name)
            with topstx.annotate("w", domain=name, color="red"): pass
            topstx.end_range(topstx.start_range("s", domain=name))
            topstx.counter("c", domain=name).sample(1)
        topstx.push_range("plain"); topstx.pop_range()
        """,
        **options,
    ).only
    assert {r.domain for r in process.records} == expected
    per_domain = [r for r in process.records if r.name != "plain"]
    assert len(per_domain) == 5 * len(expected) and process.unbalanced == 0


def test_both_clocks(program: Any) -> None:
    process = program(
        "import topstx, time\nwith topstx.annotate('a'): time.sleep(0.01)", clock=L.CLOCK_MONOTONIC
    ).only
    record = process.records[0]
    assert 10_000_000 <= record.end - record.begin < 10_000_000_000
    assert abs(process.header["start_tick"] - process.header["start_monotonic_ns"]) < 10**9
    assert process.header["start_tick"] <= record.begin


def test_tsc_clock(c_program: Any) -> None:
    import platform

    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the time-stamp counter is x86's")
    process = c_program("import topstx\nwith topstx.annotate('a'): pass", clock=L.CLOCK_TSC).only
    assert process.header["clock"] == L.CLOCK_TSC
    record = process.records[0]
    assert process.header["start_tick"] < record.begin < record.end < process.header["end_tick"]


def test_names_of_threads_and_process(program: Any) -> None:
    process = program("""
        import topstx
        topstx.set_thread_name("the main one")
        topstx.set_thread_name("another", 4242)
        topstx.set_process_name("tested")
    """).only
    assert process.thread_names == {process.pid: "the main one", 4242: "another"}
    assert process.info["name"] == "tested"
