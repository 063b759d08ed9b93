"""The report of a launch: what it adds up from times and counts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tops_kit import gcu
from tops_kit.engine import timing
from tops_kit.engine.launch import ENGINES, GlobalArray
from tops_kit.engine.launch import launch as launch_on
from tops_kit.engine.report import LaunchTiming, launch_timing
from tops_kit.engine.result import LaunchResult
from tops_kit.engine.timing_result import CAUSES
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program

SOURCE = """\
def scale(x, y, rows):
    for r in pipeline(rows):
        load(x[r])
        y[r] = exp(x[r]) * 2
        store(y[r])
"""


def scale(columns: int = 4096) -> Program:
    """y = 2 exp(x) row by row: loads one row ahead, waits late for its stores."""
    asm = Assembler("scale")
    x = asm.pointer("x", F32, ndim=2, stored=False)
    y = asm.pointer("y", F32, ndim=2, loaded=False)
    rows = asm.scalar("rows", I32)
    row = asm.buffer("row", "L1", F32, (columns,), slots=2)
    out = asm.buffer("out", "L1", F32, (columns,))
    zero, one = asm.constant(0), asm.constant(1)
    asm.source("scale.py", SOURCE)
    asm.at(2)
    asm.op("special", "r", "thread_id")
    asm.op("special", "step", "num_threads")
    asm.op("tptr", "x", x)
    asm.op("tptr", "y", y)
    asm.op("tbuf", "result", out, zero, 0)
    asm.op("imov", "slot", zero)
    asm.at(3)
    asm.op("bge", "r", rows, "out")
    asm.op("tindex", "from", "x", 0, "r")
    asm.op("tbuf", "row", row, "slot", 0)
    asm.op("dma", "in", "row", "from", zero, 1)
    asm.label("loop")
    asm.at(2)
    asm.op("bge", "r", rows, "out")
    asm.op("wait", "in")
    asm.op("tcopyview", "here", "row")
    asm.op("iadd", "next", "r", "step")
    asm.op("ixor", "slot", "slot", one)
    asm.op("bge", "next", rows, "last")
    asm.at(3)
    asm.op("tindex", "from", "x", 0, "next")
    asm.op("tbuf", "row", row, "slot", 0)
    asm.op("dma", "in", "row", "from", zero, 1)
    asm.label("last")
    asm.at(4)
    asm.op("wait", "stored")
    asm.op("texp", "result", "here")
    asm.op("tmul_s", "result", "result", asm.constant(2.0))
    asm.at(5)
    asm.op("tindex", "to", "y", 0, "r")
    asm.op("dma", "stored", "to", "result", zero, 2)
    asm.at(2)
    asm.op("imov", "r", "next")
    asm.op("jmp", "loop")
    asm.label("out")
    asm.op("end")
    return asm.finish()


ROWS, COLUMNS = 240, 4096


def _timed(program: Program, arguments: list[Any], **options: Any) -> LaunchResult:
    """On the C machine, or the oracle where there is none: times are the same."""
    engine: Any = "c" if ENGINES.c() else "oracle"
    return launch_on(program, arguments, mode="timed", engine=engine, **options)


@pytest.fixture
def launch() -> LaunchResult:
    x = np.zeros((ROWS, COLUMNS), np.float32)
    y = np.empty_like(x)
    arguments = [GlobalArray.of(x, F32), GlobalArray.of(y, F32), ROWS]
    result = _timed(scale(), arguments, grid=(2,), block=(12,), events=True, pipeline=True)
    assert (y == 2).all()
    return result


@pytest.fixture
def report(launch: LaunchResult) -> LaunchTiming:
    assert launch.times is not None
    assert launch.counts is not None
    return launch_timing(scale(), gcu.load("s60"), launch.times, launch.counts, block_threads=12)


@pytest.mark.smoke
def test_totals(report: LaunchTiming) -> None:
    size = ROWS * COLUMNS * 4
    assert report.moved == {("L1", "L3"): size, ("L3", "L1"): size}
    assert report.operations["f32"] == report.flops == 2 * ROWS * COLUMNS
    assert report.instructions["tile"] == 2 * ROWS
    assert report.instructions["dte"] == 4 * ROWS
    assert report.ns == gcu.load("s60").nanoseconds(report.cycles)
    assert (report.kernel, report.part, report.blocks, report.block_threads) == ("scale", "s60", 2, 12)
    assert report.cost_model == timing.COST_MODEL_VERSION
    assert report.part_hash == gcu.load("s60").hash
    assert [c["channel"] for c in report.channels()] == [1, 2]
    assert sum(c["bytes"] for c in report.channels()) == 2 * size


def test_all_time_stands_in_the_lines(report: LaunchTiming) -> None:
    cycles = report.cycles * 24
    stalls = report.stalls()
    lines = sum(line.cycles for line in report.lines)
    assert lines + stalls["launch"] + stalls["tail"] == cycles
    assert sum(line.cost for line in report.lines) == lines
    assert sum(line.scalar_cycles for line in report.lines) == report.result.of_sips("scalar").sum()
    for cause in CAUSES:
        assert sum(line.stalls.get(cause, 0) for line in report.lines) == stalls[cause]
    for sip in report.sips():
        parts = [sip[name] for name in ("scalar", *CAUSES, "launch", "tail")]
        assert sum(parts) == report.cycles


def test_lines_have_their_places(report: LaunchTiming) -> None:
    lines = {str(line.place): line for line in report.lines}
    assert set(lines) == {f"scale.py:{k}" for k in (2, 3, 4, 5)}
    compute, load, store = lines["scale.py:4"], lines["scale.py:3"], lines["scale.py:5"]
    assert compute.text == "y[r] = exp(x[r]) * 2"
    assert compute.unit_cycles == report.result.of_sips("vector_busy").sum()
    assert load.bytes == store.bytes == ROWS * COLUMNS * 4
    assert lines["scale.py:2"].stalls["dma"] > 0  # waits there for what line 3 loads
    assert load.blamed > 0
    assert report.lines == tuple(sorted(report.lines, key=lambda line: -line.cost))


def test_the_roofline(report: LaunchTiming) -> None:
    roof, spec = report.roofline, gcu.load("s60")
    assert (roof.sips_used, roof.sips, roof.unit, roof.dtype) == (24, 24, "vector", "f32")
    assert roof.peak_operations_per_s == 2 * 32 * 24 * spec.clock_hz
    assert roof.intensity == pytest.approx(0.25)
    assert roof.roof_operations_per_s == pytest.approx(0.25 * spec.l3_bytes_per_s)
    assert roof.operations_per_s == pytest.approx(report.flops / (report.cycles / spec.clock_hz))
    assert 0 < roof.achieved <= 1
    assert all(0 <= use <= 1 for use in roof.use.values())
    assert roof.use["L3"] == pytest.approx(roof.l3_bytes_per_s / spec.l3_bytes_per_s)


def test_what_bounds_it_follows_the_part(launch: LaunchResult) -> None:
    assert launch.events is not None
    assert launch.counts is not None
    spec = gcu.load("s60")

    def bound(**factors: float) -> tuple[str, str]:
        part = spec.scaled(**factors)
        times = timing.times(scale(), part, launch.events or [], block_threads=12)
        assert launch.counts is not None
        roof = launch_timing(scale(), part, times, launch.counts, block_threads=12).roofline
        return roof.kind, roof.bound

    assert bound(l3=0.2) == ("memory", "L3")
    assert bound(cluster_l3=0.2) == ("memory", "cluster link")
    assert bound(port=0.1) == ("memory", "SIP port")
    assert bound(vector=0.1) == ("compute", "vector unit")
    assert bound(latency=0.01) == ("latency", "transfers")
    assert bound(launch=0.01) == ("overhead", "launch and tail")


def test_the_pipeline_shows_double_buffering(report: LaunchTiming) -> None:
    pipeline = report.pipeline
    assert pipeline is not None
    assert pipeline.sips() == list(range(24))
    first = list(pipeline.intervals(0))
    assert {i.lane for i in first} == {"scalar", "vector", "dte 1", "dte 2"}
    loads = [i for i in first if i.lane == "dte 1"]
    tiles = [i for i in first if i.lane == "vector"]
    assert len(loads) == ROWS // 24
    assert {str(i.place) for i in loads} == {"scale.py:3"}
    # while it computes on one row, the next is being loaded
    assert any(a.start < b.end and b.start < a.end for a in loads for b in tiles)
    waits = [i for i in first if i.what == "wait"]
    assert {str(i.waited_for) for i in waits if i.cause == "dma" and str(i.place) == "scale.py:2"} == {
        "scale.py:3", "scale.py:5",
    }  # fmt: skip
    assert all(i.waited_for is None for i in first if i.what == "run")
    assert len(pipeline) == sum(1 for _ in pipeline.intervals())


def test_the_chart_of_a_sip(report: LaunchTiming) -> None:
    assert report.pipeline is not None
    chart = report.pipeline.text(3, 2000, 12000, width=50).splitlines()
    assert chart[0] == "SIP 3, cycles 2000 to 12000, 200 a column"
    assert [line.split("|")[0].strip() for line in chart[1:]] == ["scalar", "vector", "dte 1", "dte 2"]
    assert all(len(line.split("|")[1]) == 50 for line in chart[1:])
    assert "." in chart[1]
    assert all("#" in line for line in chart[2:])
    assert report.pipeline.text(99) == "SIP 99: nothing"


@pytest.mark.smoke
def test_json_is_plain_and_text_is_short(report: LaunchTiming) -> None:
    plain: dict[str, Any] = json.loads(json.dumps(report.to_json()))
    assert plain["version"] == 1
    assert plain["cycles"] == report.cycles
    assert len(plain["sips"]) == 24
    assert plain["pipeline"]["places"][0]["path"] == "scale.py"
    columns = [column for name, column in plain["pipeline"].items() if name != "places"]
    assert {len(column) for column in columns} == {len(report.pipeline or ())}
    text = report.text()
    lines = text.splitlines()
    assert lines[0] == "modelled on s60: 33 of 45 figures assumed"
    assert lines[1].startswith("scale: ")
    assert "2 x 12 threads on 24 of 24 SIPs" in lines[1]
    assert lines[2].startswith(f"bound by {report.roofline.bound}")
    assert sum("scale.py:" in line for line in lines) == 4
    assert report.text(lines=2).count("scale.py:") == 2


def test_an_empty_launch() -> None:
    asm = Assembler("empty")
    asm.op("end")
    program = asm.finish()
    result = _timed(program, [], grid=(1,), block=(1,))
    assert result.times is not None
    assert result.counts is not None
    report = launch_timing(program, gcu.load("s60"), result.times, result.counts, block_threads=1)
    assert report.cycles == 2000 + 100 + 1
    assert (report.roofline.kind, report.roofline.intensity, report.flops) == ("overhead", None, 0)
    assert report.pipeline is None
    assert "1 x 1 threads on 1 of 24 SIPs" in report.text()
    assert json.dumps(report.to_json())


def test_the_machines_times_are_those_of_its_events(launch: LaunchResult) -> None:
    assert launch.times is not None
    for pure in (True, None):
        again = timing.times(
            scale(), gcu.load("s60"), launch.events or [], block_threads=12, intervals=True, pure=pure
        )
        assert again.cycles == launch.times.cycles
        for name in ("sip", "pc", "channel", "moved", "flops", "intervals"):
            assert np.array_equal(getattr(again, name), getattr(launch.times, name)), name
