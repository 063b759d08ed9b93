"""What a person may ask of a recording."""

from __future__ import annotations

import argparse
import signal

import pytest
from topsprof.capture.kinds import DEFAULT_TRACES, TRACE_KINDS, kernel_regex, metric_bits, rows_off
from topsprof.capture.options import (
    CaptureRange,
    call_options,
    capture_range,
    memory_options,
    trace_names,
)
from topsprof.commands import run
from topstx.recorder import layout, rows
from topstx.recorder.calls import CallOptions
from topstx.recorder.memory import MemoryOptions

from tops_kit.errors import UserError

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
    ("mode", "text", "end", "expected"),
    [
        (None, None, None, CaptureRange()),
        ("none", None, None, CaptureRange()),
        ("topstx", "step", None, CaptureRange("topstx", "step", "", "stop", 0)),
        ("nvtx", "step@io", "repeat:3", CaptureRange("topstx", "step", "io", "repeat", 3)),
        (None, "step@default", "repeat", CaptureRange("topstx", "step", "", "repeat", 0)),
        (None, r"a\@b@c", "none", CaptureRange("topstx", "a@b", "c", "none", 0)),
        (
            "cudaProfilerApi",
            None,
            "stop-shutdown",
            CaptureRange("topsProfilerApi", "", "", "stop-shutdown", 0),
        ),
    ],
)
def test_capture_ranges(mode: str | None, text: str | None, end: str | None, expected: CaptureRange) -> None:
    assert capture_range(mode, text, end) == expected


@pytest.mark.parametrize(
    ("mode", "text", "end"),
    [
        ("topstx", None, None),
        ("none", "step", None),
        ("other", None, None),
        ("topstx", "x", "repeat:0"),
        ("topstx", "x", "stop:2"),
        ("topstx", "x", "later"),
        ("topstx", "x@*", None),
        ("topstx", "x" * 600, None),
    ],
)
def test_capture_ranges_that_make_no_sense(mode: str | None, text: str | None, end: str | None) -> None:
    with pytest.raises(UserError):
        capture_range(mode, text, end)


@pytest.mark.parametrize(
    ("text", "skip", "repeats"), [("10:20", 10, 10), (":3", 0, 3), ("4:", 4, 0), ("7", 7, 1), ("0:1", 0, 1)]
)
def test_iterations(text: str, skip: int, repeats: int) -> None:
    expected = CaptureRange("topstx", "step", "io", "repeat", repeats, skip)
    assert capture_range(None, "step@io", None, text) == expected


@pytest.mark.parametrize("text", ["", ":", "3:3", "5:2", "-1:4", "a", "1:2:3", "1:1e3", "9" * 12])
def test_iterations_that_make_no_sense(text: str) -> None:
    with pytest.raises(UserError, match="--iterations"):
        capture_range(None, "step", None, text)


def test_iterations_of_nothing() -> None:
    with pytest.raises(UserError, match="name the range"):
        capture_range(None, None, None, "1:2")
    with pytest.raises(UserError, match="without --capture-range-end"):
        capture_range(None, "step", "stop", "1:2")


def test_traces() -> None:
    assert trace_names("topstx") == trace_names("nvtx") == trace_names("topstx,nvtx") == ("topstx",)
    assert trace_names("none") == ()
    assert trace_names("topstx,osrt") == ("topstx", "osrt")
    with pytest.raises(UserError, match="can't record 'eccl' yet"):
        trace_names("topstx,eccl")
    assert trace_names("cuda,kernel") == ("runtime", "kernel")
    with pytest.raises(UserError, match="unknown"):
        trace_names("everything")


def test_what_is_left_out() -> None:
    assert rows_off(tuple(TRACE_KINDS)) == 0
    off = rows_off(("topstx", "kernel"))
    assert not off >> rows.KIND_KERNEL & 1 and not off >> layout.KIND_RANGE & 1
    assert off >> rows.KIND_API & 1 and off >> rows.KIND_MEMCPY & 1
    assert not off >> rows.KIND_DEVICE & 1 and not off >> rows.KIND_RUNTIME_OVERHEAD & 1
    calls = 1 << layout.KIND_CALL | 1 << layout.KIND_CALLS_SKIPPED
    osrt = 1 << rows.KIND_OSRT | 1 << rows.KIND_OSRT_SHORT
    assert rows_off(DEFAULT_TRACES) == 1 << rows.KIND_DRIVER_API | calls | osrt | 1 << rows.KIND_PYMEM


def test_memory_of_python_programs() -> None:
    assert memory_options("python", None, 0) is None
    found = memory_options("topstx, pymem", None, 0)
    assert found is not None and (found.rate_bytes, found.seed) == (512 << 10, 0)
    found = memory_options("pymem", 1, 7)
    assert found is not None and found.text == MemoryOptions.of_text(found.text).text == "1 7"
    with pytest.raises(UserError, match="need -t pymem"):
        memory_options("topstx", 1 << 20, 0)


def test_calls_of_python_functions() -> None:
    assert trace_names("python:A.b*,TX,python:c.py") == ("python", "topstx")
    assert call_options("topstx,kernel") is None
    found = call_options("python:A.b*, topstx,python:c.py", c_calls=True, limit=7)
    assert found is not None and found.patterns == ("A.b*", "c.py")
    again = CallOptions.of_text(found.text)
    assert (again.patterns, again.c_calls, again.limit) == (found.patterns, True, 7)
    whole = call_options("python")
    assert whole is not None and whole.patterns == () and not whole.c_calls


@pytest.mark.parametrize("text", ["python:", "python,python:a", "kernel:a", "runtime,topstx:x"])
def test_patterns_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match="-t "):
        trace_names(text)
        call_options(text)


def test_calls_in_c_need_calls() -> None:
    with pytest.raises(UserError, match="--python-c-calls needs -t python"):
        call_options("topstx", c_calls=True)


def test_metrics_and_kernel_filters() -> None:
    assert metric_bits(None) == metric_bits("none") == 0
    assert metric_bits("roofline,per-line") == layout.METRICS_ROOFLINE | layout.METRICS_LINES
    assert metric_bits("all") == 15
    with pytest.raises(UserError, match="--metrics speed: unknown"):
        metric_bits("roofline,speed")
    assert kernel_regex("--kernel-include-regex", None) == ""
    with pytest.raises(UserError, match="no regular expression"):
        kernel_regex("--kernel-include-regex", "(")
    with pytest.raises(UserError, match="longer than 511 bytes"):
        kernel_regex("--kernel-include-regex", "x" * 512)


@pytest.mark.parametrize(
    ("words", "program", "module"),
    [
        (
            ["-o", "x", "echo", "-o", "b", "--", "--strict", "-h"],
            ["echo", "-o", "b", "--", "--strict", "-h"],
            False,
        ),
        (["--", "echo", "--", "x"], ["echo", "--", "x"], False),
        (["--stats", "--", "-weird"], ["-weird"], False),
        (["-f", "-m", "mod", "-f", "--", "-o", "c"], ["mod", "-f", "--", "-o", "c"], True),
        (["--stats=true", "a", "--stats=false"], ["a", "--stats=false"], False),
        (["--kill", "9", "p"], ["p"], False),
    ],
)
def test_the_programs_words_are_its_own(words: list[str], program: list[str], module: bool) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    run.add_arguments(parser)
    assert run.program_words(parser.parse_args(words)) == (program, module)


def test_times_and_signals() -> None:
    assert run.seconds("1.5") == run.seconds("1.5s") == 1.5
    assert run.signal_number("none") == 0
    assert (
        run.signal_number("sigterm") == run.signal_number("TERM") == run.signal_number("15") == signal.SIGTERM
    )
    for parse, text in (
        (run.seconds, "-1"),
        (run.seconds, "inf"),
        (run.seconds, "soon"),
        (run.signal_number, "x"),
        (run.signal_number, "999"),
    ):
        with pytest.raises(argparse.ArgumentTypeError):
            parse(text)
