"""MARKER records: what tools see of topstx's ranges and marks, with the recorder in C and its twin."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest
import topspti
import topstx
from topspti import ActivityKind

from .conftest import Tool


@pytest.fixture
def tools() -> Iterator[tuple[Tool, Tool]]:
    out = Tool(1 << 16), Tool(1 << 16)
    out[1].client.close()
    two = Tool(1 << 16, out[0].hooks)
    for tool in (out[0], two):
        tool.client.enable(ActivityKind.MARKER)
    yield out[0], two
    for tool in (out[0], two):
        tool.client.close()


def markers(tool: Tool) -> list[tuple[str, str, str]]:
    tool.client.flush_all()
    found = [r for r in tool.records if isinstance(r, topspti.MarkerRecord)]
    open_now: dict[int, str] = {}
    for record in found:
        if record.flag == "start":
            open_now[record.marker_id] = record.name
        elif record.flag == "end":
            assert open_now.pop(record.marker_id) == record.name
        assert record.process_id == os.getpid()
    assert not open_now
    assert [r.timestamp_ns for r in found] == sorted(r.timestamp_ns for r in found)
    return [(r.flag, r.name, r.domain) for r in found]


@topstx.annotate("decorated")
def work(depth: int) -> None:
    if depth:
        work(depth - 1)


def test_tools_see_ranges_and_marks(tools: tuple[Tool, Tool]) -> None:
    io = topstx.get_domain("io")
    with topstx.annotate("step", domain="io"):
        topstx.mark("here")
        io.mark("there")
        topstx.push_range("outer")
        io.push_range("other")
        topstx.push_range("inner", color="red")
        topstx.pop_range()
        topstx.pop_range()
        io.pop_range()
    number = topstx.start_range("across")
    thread = threading.Thread(target=topstx.end_range, args=(number,))
    thread.start()
    thread.join()
    with pytest.raises(ZeroDivisionError), topstx.annotate("fails"):
        raise ZeroDivisionError
    work(1)
    topstx.pop_range()  # nothing is open
    topstx.end_range(number)
    expected = [
        ("start", "step", "io"), ("instant", "here", ""), ("instant", "there", "io"), ("start", "outer", ""),
        ("start", "other", "io"), ("start", "inner", ""), ("end", "inner", ""), ("end", "outer", ""),
        ("end", "other", "io"), ("end", "step", "io"), ("start", "across", ""), ("end", "across", ""),
        ("start", "fails", ""), ("end", "fails", ""), ("start", "decorated", ""), ("start", "decorated", ""),
        ("end", "decorated", ""), ("end", "decorated", ""),
    ]  # fmt: skip
    for tool in tools:
        assert markers(tool) == expected


def test_nobody_is_told_when_nobody_wants_it(tools: tuple[Tool, Tool]) -> None:
    one, two = tools
    one.client.disable(ActivityKind.MARKER)
    topstx.mark("for the other")
    two.client.disable(ActivityKind.MARKER)
    topstx.mark("for nobody")
    assert topstx.start_range("for nobody") == 0
    assert markers(one) == []
    assert markers(two) == [("instant", "for the other", "")]
    assert one.hooks.markers is None


@pytest.mark.parametrize("recorder", ["c", "twin"])
def test_recorders_tell_and_record_alike(recorder: str, tmp_path: object) -> None:
    program = """
        import sys, topstx
        heard = []
        topstx.listen(lambda what, key, message, domain: heard.append((what, bool(key), message, domain)))
        @topstx.annotate("call")
        def call(): pass
        def ranges():
            with topstx.annotate("with", domain="d"):
                topstx.mark("m", domain="d")
            topstx.push_range("p")
            topstx.push_range(message="q", domain="d")
            topstx.pop_range("d")
            topstx.pop_range()
            topstx.push_range()
            topstx.pop_range()
            topstx.end_range(topstx.start_range("s"))
            call()
            d = topstx.get_domain("d")
            d.push_range("r"); d.pop_range(); d.mark("n"); d.end_range(d.start_range("t"))
        ranges()
        def bad(*_): raise ValueError("of a listener")
        topstx.listen(bad)
        ranges()
        topstx.listen(None)
        ranges()
        print(topstx.backend(), heard)
    """
    environ = {**os.environ, "TOPSKIT_PURE": "1" if recorder == "twin" else ""}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, env=environ, timeout=60, check=True,
    )  # fmt: skip
    name, _, heard = done.stdout.strip().partition(" ")
    if name != recorder:
        pytest.skip(f"the recorder here is {name}")
    assert heard == str(
        [
            (3, True, "with", "d"), (0, False, "m", "d"), (4, True, None, "d"), (1, False, "p", ""),
            (1, False, "q", "d"), (2, False, None, "d"), (2, False, None, ""), (1, False, None, ""),
            (2, False, None, ""), (5, True, "s", ""), (6, True, None, ""), (3, True, "call", ""),
            (4, True, None, ""), (1, False, "r", "d"), (2, False, None, "d"), (0, False, "n", "d"),
            (5, True, "t", "d"), (6, True, None, ""),
        ]
    )  # fmt: skip
