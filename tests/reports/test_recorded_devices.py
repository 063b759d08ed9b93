"""Reports of programs on the simulated device, recorded under model time: figures are exact."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from topsprof.cli import main
from topsprof.reports import registry
from topsprof.reports.output import show

from tops_kit.session import Session

ROOT = Path(__file__).resolve().parents[2]
Rows = Callable[..., list[dict[str, Any]]]

HEAD = """
import json, sys
import numpy as np
import topstx
import tops_kit as tops

@tops.kernel
def double(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
        j = min(i + 1024, n)
        tops.store(y[i:j], tops.load(x[i:j]) * 2.0)

@tops.kernel
def add_one(x: tops.ptr(tops.f32), n: tops.i32):
    for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
        j = min(i + 1024, n)
        tops.store(x[i:j], tops.load(x[i:j]) + 1.0)

n = 1 << 14
x = tops.array(np.arange(n, dtype=np.float32))
y = tops.empty(n, tops.f32)
"""

WORK = """
launches = {"double": [], "add_one": []}
for threads in (1, 4, 4):
    with topstx.annotate("step", domain="model"):
        with topstx.annotate("double"):
            launches["double"].append(double[threads](x, y, n))
        launches["add_one"].append(add_one[threads](y, n))
event = tops.Event()
event.record()
event.synchronize()
tops.synchronize()
y.numpy()

def told(launch):
    report = launch.report
    return {
        "ns": launch.ns, "cycles": report.cycles, "stalls": report.stalls(),
        "operations": report.roofline.operations_per_s * report.cycles / 1.4e9,
        "sips_used": report.roofline.sips_used, "issuing": int(report.result.of_sips("scalar").sum()),
        "l3": report.roofline.l3_bytes_per_s * report.cycles / 1.4e9,
        "lines": [[line.place.line, line.cost, line.cycles, line.issued, line.bytes, dict(line.stalls)]
                  for line in report.lines],
    }
print(json.dumps({name: [told(launch) for launch in many] for name, many in launches.items()}))
"""


def record(folder: Path, code: str, *arguments: str, clock: str = "model") -> tuple[Session, str]:
    """Record HEAD and `code`, under model time: the session, and what the program printed."""
    (folder / "program.py").write_text(HEAD + textwrap.dedent(code))
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TOPSTX_", "TOPS_"))}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof", "pti"))
    state = folder / "state"
    state.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "case", *arguments, "--",
         sys.executable, "program.py"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=240,
        env=keep | {"PYTHONPATH": paths, "TOPS_STATE_DIR": str(state), "TOPS_CLOCK": clock},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Session.open(folder / "case.topsprof"), done.stdout


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, dict[str, Any]]:
    """A session of WORK with all that can be recorded, and what the launches themselves said."""
    folder = tmp_path_factory.mktemp("worked")
    session, out = record(folder, WORK, "--metrics", "all", "--backtrace")
    return session, json.loads(out)


def test_kernel_times_are_those_of_the_launches_everywhere(worked, report_json: Rows) -> None:
    session, told = worked
    expected = {name: sum(one["ns"] for one in many) for name, many in told.items()}
    by_name = {row["Name"]: row["Total Time (ns)"] for row in report_json(session, "gcu_kern_sum:base")}
    assert by_name == expected
    for report in ("gcu_kern_gb_sum:base", "kern_counters:base"):
        sums: dict[str, int] = {}
        for row in report_json(session, report):
            sums[row["Name"]] = sums.get(row["Name"], 0) + row["Total Time (ns)"]
        assert sums == expected
    trace = [row for row in report_json(session, "gcu_trace:base") if row["Name"] in expected]
    assert sum(row["Duration (ns)"] for row in trace) == sum(expected.values())
    ((total,),) = session.sql_connection().execute("SELECT sum(duration_ns) FROM kernel").fetchall()
    assert total == sum(expected.values())


def test_tools_on_topspti_see_the_same_sums(tmp_path: Path, report_json: Rows) -> None:
    session, out = record(
        tmp_path,
        """
        import atexit, topspti
        from topspti import ActivityKind, KernelRecord, MemcpyRecord
        kinds = {KernelRecord: "kernel", MemcpyRecord: "memcpy"}
        sums = dict.fromkeys(kinds.values(), 0)
        def complete(buffer, valid, dropped):
            assert not dropped
            for record in topspti.records(buffer, valid):
                sums[kinds[type(record)]] += record.duration_ns
        tops.synchronize()
        client = topspti.activity_register_callbacks(lambda: bytearray(1 << 16), complete)
        client.enable(ActivityKind.KERNEL)
        client.enable(ActivityKind.MEMCPY)
        for threads in (1, 2, 3):
            double[threads](x, y, n)
        y.numpy()
        topspti.activity_unregister(client)
        print(json.dumps(sums))
        """,
    )
    sums = json.loads(out)
    assert sums["kernel"] == sum(row["Total Time (ns)"] for row in report_json(session, "gcu_kern_sum")) > 0
    copies = {row["Operation"]: row["Total Time (ns)"] for row in report_json(session, "mem_time_sum")}
    assert sums["memcpy"] == copies["[memcpy Device-to-Host]"]


def test_launches_are_call_queue_and_kernel(worked, report_json: Rows) -> None:
    session, told = worked
    rows = {row["Kernel Name"].partition("(")[0]: row for row in report_json(session, "kern_exec_sum")}
    calls = {row["Name"]: row for row in report_json(session, "api_sum")}
    assert calls["topsLaunchKernel"]["Num Calls"] == 6 == sum(row["Count"] for row in rows.values())
    for name, row in rows.items():
        assert row["API Name"] == "topsLaunchKernel"
        assert row["KAvg (ns)"] == round(sum(one["ns"] for one in told[name]) / 3)
    launching = sum(row["Count"] * row["AAvg (ns)"] for row in rows.values())
    assert launching == calls["topsLaunchKernel"]["Total Time (ns)"]


def test_counters_are_those_of_the_launches(worked, report_json: Rows) -> None:
    session, told = worked
    for row in report_json(session, "kern_counters:base"):
        launches = told[row["Name"]]
        ns = sum(one["ns"] for one in launches)
        assert row["Instances"] == 3
        assert row["Avg Cycles"] == round(sum(one["cycles"] for one in launches) / 3)
        operations = sum(one["operations"] for one in launches)
        assert row["Gop/s"] == pytest.approx(operations / ns, rel=1e-3)
        assert row["Op/B"] == pytest.approx(operations / sum(one["l3"] for one in launches), rel=1e-3)
        stalls: dict[str, int] = {}
        for one in launches:
            for cause, cycles in one["stalls"].items():
                stalls[cause] = stalls.get(cause, 0) + cycles
        lifetime = sum(stalls.values()) + sum(one["issuing"] for one in launches)
        assert row["Stall (%)"] == pytest.approx(100 * max(stalls.values()) / lifetime)
        assert lifetime == sum(one["cycles"] * one["sips_used"] for one in launches)
        assert row["SIPs"] == pytest.approx(sum(one["ns"] * one["sips_used"] for one in launches) / ns)
        assert row["SIPs (%)"] == pytest.approx(100 * row["SIPs"] / 24) and row["Contention (%)"] == 0
        kernels = [one for one in session.table("kernel").to_pylist() if one["name"] == row["Name"]]
        assert (row["Bound"], row["Bound By"], row["Top Stall"]) == ("latency", "transfers", "transfers")
        starved = sum(
            one["start_ns"] == one["submit_ns"] and one["submit_ns"] - one["queued_ns"] > one["duration_ns"]
            for one in kernels
        )
        assert row["Starved (%)"] == pytest.approx(100 * starved / 3)


def test_source_lines_are_those_of_the_launches(worked, report_json: Rows) -> None:
    session, told = worked
    expected: dict[tuple[str, int], list[int]] = {}
    for kernel, launches in told.items():
        for one in launches:
            for line, cost, cycles, issued, moved, stalls in one["lines"]:
                sums = expected.setdefault((kernel, line), [0] * 5)
                for index, value in enumerate((cost, cycles, issued, moved, stalls.get("dma", 0))):
                    sums[index] += value
    rows = report_json(session, "kern_line")
    found = {
        (row["Kernel"], int(row["Line"].rpartition(":")[2])): [
            row["Cost"], row["Cycles"], row["Issued"], round(row["Bytes (MB)"] * 1e6), row["Wait Transfer"],
        ]
        for row in rows
    }  # fmt: skip
    assert found == expected
    assert [row["Cost"] for row in rows] == sorted((row["Cost"] for row in rows), reverse=True)
    assert sum(row["Cost (%)"] for row in rows) == pytest.approx(100)
    assert rows[0]["Source"].startswith("tops.store(") and Path(rows[0]["File"]).name == "program.py"


def test_source_text_of_a_file_that_changed_is_not_shown(worked, report_json: Rows) -> None:
    session, _ = worked
    program = session.path.with_name("program.py")
    later = session.info["created_ns"] + 10**9
    os.utime(program, ns=(later, later))
    assert {row["Source"] for row in report_json(session, "kern_line")} == {None}
    os.utime(program, ns=(1, 1))
    assert None not in {row["Source"] for row in report_json(session, "kern_line")}


def test_ranges_copies_and_waits(worked, report_json: Rows) -> None:
    session, told = worked
    projected = {row["Range"]: row for row in report_json(session, "tx_gcu_proj_sum")}
    assert projected["double"]["Total Proj Time (ns)"] == sum(one["ns"] for one in told["double"])
    assert projected["model:step"]["Total GCU Ops"] == 6 and projected["double"]["Total GCU Ops"] == 3
    sizes = {row["Operation"]: row for row in report_json(session, "mem_size_sum")}
    assert {name: row["Total (MB)"] for name, row in sizes.items()} == {
        "[memcpy Host-to-Device]": 4 * (1 << 14) / 1e6,
        "[memcpy Device-to-Host]": 4 * (1 << 14) / 1e6,
    }
    waits = {row["Name"]: row for row in report_json(session, "sync_sum")}
    assert {name: row["Num Calls"] for name, row in waits.items()} == {
        "event": 1, "device": 1, "blocking call": 2,
    }  # fmt: skip
    where = report_json(session, "sync_sum:where")
    assert sum(row["Total Time (ns)"] for row in where) == sum(
        row["Total Time (ns)"] for row in waits.values()
    )
    assert (where[0]["Waited For"], where[0]["API Name"]) == ("event", "topsEventSynchronize")
    lines = session.path.with_name("program.py").read_text().splitlines()
    place, _, line = where[0]["Place"].rpartition(":")
    assert Path(place).name == "program.py" and lines[int(line) - 1] == "event.synchronize()"


def test_memory_is_told_by_line_range_and_size(tmp_path: Path, report_json: Rows) -> None:
    session, _ = record(
        tmp_path,
        """
        kept = []
        for turn in range(3):
            with topstx.annotate("request"):
                scratch = tops.malloc(4096)
                kept.append(tops.malloc(8192))  # never freed
                tops.free(scratch)
        tops.free(tops.malloc(1 << 20))
        """,
    )
    lines = (tmp_path / "program.py").read_text().splitlines()
    leak = next(number for number, line in enumerate(lines, 1) if "never freed" in line)
    rows = report_json(session, "mem_alloc")
    assert rows[0]["Place"] == f"{tmp_path / 'program.py'}:{leak}"
    assert (rows[0]["Kept (MB)"], rows[0]["Kept"], rows[0]["Allocs"], rows[0]["Frees"]) == (
        3 * 8192 / 1e6, 3, 3, 0,
    )  # fmt: skip
    assert all(row["Kept"] == 0 and row["Allocs"] == row["Frees"] for row in rows[1:])
    (lost,) = report_json(session, "mem_alloc:leaks")
    assert (lost["Allocs"], lost["Size (bytes)"], lost["TX Range"]) == (3, 8192, "request")
    ranges = {row["TX Range"]: row for row in report_json(session, "mem_alloc:range")}
    assert ranges["request"]["Allocs"] == 6 and ranges["request"]["Kept"] == 3
    sizes = {row["Size (bytes)"]: row["Allocs"] for row in report_json(session, "mem_alloc:size")}
    assert sizes == {4096: 3, 8192: 3, 1 << 20: 1, 1 << 16: 2}
    (peak,) = report_json(session, "mem_alloc:peak")
    in_use = 2 * (1 << 16) + 3 * 8192 + (1 << 20)
    assert (peak["Peak (MB)"], peak["Allocs"], peak["At End (MB)"]) == (in_use / 1e6, 6, 3 * 8192 / 1e6)
    assert peak["Most By (MB)"] == (1 << 20) / 1e6 and peak["Memory"] == "Device"
    timeline = report_json(session, "mem_alloc:timeline")
    assert timeline[0]["Operation"] == "alloc" and timeline[0]["In Use (MB)"] == timeline[0]["Size (MB)"]
    highest = max(timeline, key=lambda row: row["In Use (MB)"])
    assert (highest["Start (ns)"], highest["In Use (MB)"]) == (peak["At (ns)"], peak["Peak (MB)"])


def test_graphs_by_node(tmp_path: Path, report_json: Rows) -> None:
    session, _ = record(
        tmp_path,
        """
        with tops.Stream() as stream:
            stream.begin_capture()
            for _ in range(3):
                add_one[4](y, n)
            graph = stream.end_capture().instantiate()
        for _ in range(5):
            graph.launch()
        tops.synchronize()
        """,
        "--metrics",
        "roofline,stalls",
    )
    (row,) = report_json(session, "graph_exec_sum")
    (same,) = report_json(session, "graph_sum")
    calls = {call["Name"]: call for call in report_json(session, "api_sum")}
    assert (row["Launches"], row["Nodes"], same["Instances"]) == (5, 15, 5)
    assert row["Total Time (ns)"] == same["Total Time (ns)"]
    assert row["Time / Node (ns)"] == round(row["Total Time (ns)"] / 15)
    assert row["Call Total (ns)"] == calls["topsGraphLaunch"]["Total Time (ns)"]
    assert row["Call / Node (ns)"] == round(row["Call Total (ns)"] / 15)
    (kernel,) = report_json(session, "kern_counters:base")
    assert kernel["Instances"] == 15 and kernel["Starved (%)"] == 0


def test_kernels_shorter_than_their_launch_starve(tmp_path: Path, report_json: Rows) -> None:
    session, _ = record(tmp_path, "for _ in range(9): double[1](x, y, 8)", "--metrics", "roofline")
    (row,) = report_json(session, "kern_counters:base")
    assert (row["Starved (%)"], row["Bound"], row["Top Stall"]) == (100, "launch", None)


def test_races_are_told_with_both_stacks(tmp_path: Path, report_json: Rows) -> None:
    session, _ = record(
        tmp_path,
        """
        tops.synchronize()
        first, second = tops.Stream(), tops.Stream()
        with first:
            add_one[4](y, n)
        def other():
            with second:
                add_one[4](y, n)
        other()
        tops.synchronize()
        """,
    )
    (row,) = report_json(session, "stream_race")
    assert row["Bytes"] == 4 << 14 and row["First"] == row["Second"] == "kernel add_one"
    assert "in <module>" in row["First Stack"] and "in other < " in row["Second Stack"]


def _printed(session: Session, *names: str, form: str = "column") -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        show(session, [registry.find(name) for name in names], formats=[form])
    return out.getvalue()


def test_what_times_are_modelled_on_stands_above_every_device_table(worked) -> None:
    session, _ = worked
    heading = session.info["attributes"]["devices"][0]["specification"]["heading"]
    assert heading.startswith("modelled on s60: ") and heading.endswith(" figures assumed")
    for form in ("column", "table"):
        text = _printed(session, "gcu_kern_sum", "tx_sum", "mem_alloc", form=form)
        assert text.count(heading) == 2
        assert text.index(heading) < text.index("Instances") and "Profiling cost the program" in text
    for form in ("json", "csv", "tsv"):
        text = _printed(session, "gcu_kern_sum", form=form)
        assert "modelled" not in text and "Profiling cost" not in text


def test_the_default_set_shows_what_there_is(worked) -> None:
    session, _ = worked
    text = _printed(session)
    shown = [name for name, _ in registry.DEFAULT if f"({name}):" in text]
    # where Pythons are sampled, what was running while the device was simulated may be there as well
    assert [name for name in shown if not name.startswith("py_")] == [
        "tx_sum", "tx_gcu_proj_sum", "api_sum", "sync_sum", "gcu_kern_sum", "kern_counters", "kern_line",
        "mem_time_sum", "mem_size_sum", "mem_alloc",
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "ending"), [("perfetto", "pftrace"), ("chrome", "json")])
def test_exports_lead_from_calls_to_what_they_caused(worked, tmp_path: Path, kind: str, ending: str) -> None:
    session, _ = worked
    out = tmp_path / f"out.{ending}"
    assert main(["export", str(session.path), "-t", kind, "-o", str(out)]) == 0
    assert main(["import", str(out), "-o", str(tmp_path / "back")]) == 0
    calls = {c["correlation_id"]: c["start_ns"] for c in session.table("api").to_pylist()}
    work = [row for table in ("kernel", "memcpy", "memset") for row in session.table(table).to_pylist()]
    expected = sorted(row["start_ns"] - calls[row["correlation_id"]] for row in work)
    links = Session.open(tmp_path / "back.topsprof").table("link").to_pylist()
    found = Counter(link["target_ns"] - link["source_ns"] for link in links)
    assert not Counter(expected) - found and len(expected) > 6
    # and from events to who waited for them, from the end of one to the end of the other
    waits = [wait for wait in session.table("sync").to_pylist() if wait["event_id"] is not None]
    assert (found - Counter(expected)).total() == len(waits) > 0


def test_what_compiling_took_is_said_of_its_ranges(tmp_path: Path) -> None:
    code = """
    with topstx.annotate("outer"):
        with topstx.annotate("first"):
            double[1](x, y, n)
        add_one[1](y, n)
        with topstx.annotate("second"):
            double[1](x, y, n)
    """
    session, _ = record(tmp_path, code, clock="virtual")
    text = " ".join(_printed(session, "tx_sum").split())
    said = r"Of the program's time (.*?) went to compiling 2 kernels, by innermost range: (.*?) \("
    (told,) = re.findall(said, text)
    assert {part.rpartition(" in ")[2] for part in told[1].split(", ")} == {"first", "outer"}
    assert "compiling" not in _printed(session, "gcu_kern_sum")
    assert "compiling" in _printed(session)


def test_what_was_not_recorded_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, _ = record(tmp_path, "double[1](x, y, n)")
    assert "recorded with topsprof run --metrics all" in " ".join(_printed(session).split())
    capsys.readouterr()
    show(session, [registry.find("kern_line")])
    error = capsys.readouterr().err
    assert "no kernel_line data; topsprof run --metrics per-line ... records it" in error


def test_stats_after_a_run_have_counters_unless_told_otherwise(tmp_path: Path) -> None:
    _, out = record(tmp_path, "double[1](x, y, n)", "--stats")
    assert "(kern_counters)" in out and "(kern_line)" in out and "(stream_race)" not in out
    (tmp_path / "none").mkdir()
    _, out = record(tmp_path / "none", "double[1](x, y, n)", "--print-gcu-summary", "--metrics", "none")
    assert "(gcu_kern_sum)" in out and "(kern_counters)" not in out
