"""Programs on the device, recorded: what they did is in the session, to the ns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import topstx
from topstx.recorder import cuts
from topstx.recorder.row_sink import clamped

from tops_kit.collect.control import create
from tops_kit.runtime.recording import read_wanted
from tops_kit.session import Session

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
import numpy as np
import topstx
import tops_kit as tops

@tops.kernel
def double(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
        j = min(i + 1024, n)
        tops.store(y[i:j], tops.load(x[i:j]) * 2.0)

def work(count=3, n=4096):
    x = tops.array(np.arange(n, dtype=np.float32))
    y = tops.empty(n, tops.f32)
    launches = []
    for _ in range(count):
        with topstx.annotate("step"):
            launches.append(double[4](x, y, n))
    tops.synchronize()
    assert (y.numpy() == 2 * np.arange(n)).all()
    return launches
"""


def run(folder: Path, code: str, *arguments: str, **environment: str) -> str:
    """Run PROGRAM and `code`, recorded by `topsprof run` into `folder`; its output."""
    (folder / "program.py").write_text(PROGRAM + textwrap.dedent(code))
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TOPSTX_", "TOPS_"))}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))
    state = folder / "state"
    state.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-f", "-o", "case", *arguments, "--",
         sys.executable, "program.py"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=240,
        env=keep | {"PYTHONPATH": paths, "TOPS_STATE_DIR": str(state)} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Session.open(folder / "case.topsprof").table(table).to_pylist()
    return found


def test_what_a_program_did_is_there(tmp_path: Path) -> None:
    out = run(tmp_path, "print(sum(launch.ns for launch in work()))")
    kernels, calls = rows(tmp_path, "kernel"), rows(tmp_path, "api")
    assert [k["name"] for k in kernels] == ["double"] * 3
    assert sum(k["duration_ns"] for k in kernels) == int(out)
    by_correlation = {c["correlation_id"]: c for c in calls}
    for kernel in kernels:
        call = by_correlation[kernel["correlation_id"]]
        assert call["name"] == "topsLaunchKernel" and call["start_ns"] == kernel["queued_ns"]
        assert kernel["queued_ns"] <= kernel["submit_ns"] <= kernel["start_ns"]
        assert (kernel["block_x"], kernel["metric_id"]) == (4, None)
    steps = [t for t in rows(tmp_path, "tx") if t["name"] == "step"]
    for step, kernel in zip(steps, kernels, strict=True):
        assert step["start_ns"] <= kernel["queued_ns"] <= step["start_ns"] + step["duration_ns"]
    assert {c["copy_kind"] for c in rows(tmp_path, "memcpy")} == {"HtoD", "DtoH"}
    memory = rows(tmp_path, "memory")
    assert sum(m["size_bytes"] for m in memory) == 0 and all(":" in m["place"] for m in memory)
    session = Session.open(tmp_path / "case.topsprof")
    (device,) = session.info["attributes"]["devices"]
    assert device["part"] == "s60" and device["specification"]["figures"]["clusters"] >= 1
    time = session.info["attributes"]["time"]
    parts = ("host_ns", "waiting_ns", "simulator_ns", "profiler_ns")
    assert time["wall_ns"] == sum(time[part] for part in parts)
    assert time["mode"] == "virtual" and time["simulator_ns"] > 0
    told = subprocess.run(
        [sys.executable, "-m", "topsprof", "info", "case.topsprof"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))},
    ).stdout
    assert "profiler (virtual clock)" in told and "s60 0: modelled on s60: " in told
    assert session.info["ledger"] and all(
        e["kind"] in ("requested", "written") for e in session.info["ledger"]
    )


def test_model_time_is_the_same_in_every_run(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        run(tmp_path, "work()", TOPS_CLOCK="model")
        tables = {}
        for table in ("api", "kernel", "memcpy", "memory", "sync", "tx", "process"):
            found = rows(tmp_path, table)
            for row in found:
                for name in ("process_id", "thread_id", "pid", "parent_id"):
                    row.pop(name, None)
            tables[table] = found
        seen.append(tables)
    assert seen[0] == seen[1]
    assert min(row["start_ns"] for row in seen[0]["api"]) < 10**6
    assert all(row["duration_ns"] for row in seen[0]["tx"])


def test_only_what_was_asked_for(tmp_path: Path) -> None:
    run(tmp_path, "work()", "-t", "kernel")
    tables = {name for name, count in Session.open(tmp_path / "case.topsprof").tables().items() if count}
    assert "kernel" in tables and not tables & {"api", "tx", "memcpy", "memory", "sync"}
    run(tmp_path, "work()", "--kernel-exclude-regex", "^dou")
    assert not rows(tmp_path, "kernel") and rows(tmp_path, "api")


def test_none_is_none_whatever_the_program_switches_on(tmp_path: Path) -> None:
    run(tmp_path, "topstx.profiler_start()\nwork()\ntopstx.profiler_stop()", "-t", "none")
    assert set(Session.open(tmp_path / "case.topsprof").tables()) <= {"process", "thread"}


@pytest.mark.parametrize("what", [("-t", "runtime,topstx"), ("-t", "topstx"), ()])
def test_devices_are_told_however_little_of_them_is_recorded(tmp_path: Path, what: tuple[str, ...]) -> None:
    code = """
    work(1)
    x = tops.zeros(64)
    double[1](x, x, 64)
    tops.synchronize()
    with topstx.annotate("win"):
        double[1](x, x, 64)
    """
    run(tmp_path, code, *what, "-c", "topstx", "-p", "win")
    (device,) = rows(tmp_path, "device")
    assert device["part"] == "s60" and json.loads(device["properties"])["heading"].startswith(
        "modelled on s60"
    )


@pytest.mark.parametrize("held", [False, True])
def test_a_kernel_that_goes_wrong_has_its_lines(tmp_path: Path, held: bool) -> None:
    code = f"""
    @tops.kernel
    def bad(x: tops.ptr(tops.f32), n: tops.i32):
        print("before", tops.thread_id())
        tops.store(x[n : n + 4], tops.load(x[0:4]))

    x = tops.zeros(16)
    other = tops.Stream()
    if {held}:
        with other:
            tops.launch_host_func(lambda: None)
    with other:
        bad[1, 2](x, 1000)
    try:
        tops.synchronize()
    except tops.TopsError as error:
        print(error.code)
    """
    out = run(tmp_path, code)
    assert "700" in out and out.count("before") == len(rows(tmp_path, "print")) > 0
    assert {(p["name"], p["text"]) for p in rows(tmp_path, "print")} <= {
        ("bad", "before 0"), ("bad", "before 1"),
    }  # fmt: skip


def test_what_stacks_counters_and_saving_cost_is_told(tmp_path: Path) -> None:
    run(tmp_path, "work(20)", "--backtrace", "--metrics", "all", "--save-launch", "double")
    costs = {o["name"]: o for o in rows(tmp_path, "overhead")}
    assert costs["recording call stacks and counters"]["duration_ns"] > 0
    assert "each was timed" in costs["recording call stacks and counters"]["args"]
    assert json.loads(costs["save launch"]["args"])["note"] == "double"
    time = Session.open(tmp_path / "case.topsprof").info["attributes"]["time"]
    assert time["profiler_ns"] >= sum(o["duration_ns"] for n, o in costs.items() if n != "compile")
    assert time["wall_ns"] == sum(time[f"{p}_ns"] for p in ("host", "waiting", "simulator", "profiler"))


GRAPH = """
    x, y = tops.zeros(4096), tops.zeros(4096)
    graph = tops.Graph()
    first = graph.add_kernel(double[4], (x, x, 4096))
    second = graph.add_kernel(double[4], (y, y, 4096))
    copied = graph.add_memcpy(y, x, 4096, after=[first, second])
    graph.add_kernel(double[4], (y, y, 4096), after=[copied])
    launched = graph.instantiate()
    tops.profiler_start()
    for _ in range(3):
        launched.launch()
    tops.synchronize()
    """


def test_graphs_say_what_waits_for_what(tmp_path: Path) -> None:
    run(tmp_path, GRAPH, "-c", "topsProfilerApi", TOPS_CLOCK="model")  # made before recording began
    nodes = rows(tmp_path, "graph_node")
    assert [(n["graph_node_id"], n["node_kind"], n["after"]) for n in nodes] == [
        (1, "kernel", "[]"), (2, "kernel", "[]"), (3, "memcpy", "[1,2]"), (4, "kernel", "[3]"),
    ]  # fmt: skip
    connection = Session.open(tmp_path / "case.topsprof").sql_connection()
    found = connection.execute("select kind, count(*) from cause group by 1 order by 1").fetchall()
    # of each launch: itself, three kernels and a copy by its call; three edges
    assert found == [("ac2g", 3 * 5), ("graph", 3 * 3)]
    late = connection.execute("select count(*) from cause where target_ns < source_ns").fetchall()
    assert late == [(0,)]
    report = ("-r", "graph_exec_sum:nodes", "-f", "json")
    told = subprocess.run(
        [sys.executable, "-m", "topsprof", "stats", "case.topsprof", *report],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))},
    ).stdout  # fmt: skip
    (shown,) = json.loads(told).values() if told.startswith("{") else (json.loads(told),)
    assert [(n["Node"], n["After"], n["Kind"], n["Runs"]) for n in shown] == [
        (1, "", "kernel", 3), (2, "", "kernel", 3), (3, "1 2", "memcpy", 3), (4, "3", "kernel", 3),
    ]  # fmt: skip
    total = sum(k["duration_ns"] for k in rows(tmp_path, "kernel"))
    assert sum(n["Total Time (ns)"] for n in shown if n["Kind"] == "kernel") == total


def test_the_programs_own_capture(tmp_path: Path) -> None:
    code = "work(1)\ntops.profiler_start()\nwork(2)\ntops.profiler_stop()\nwork(4)\n"
    run(tmp_path, code, "-c", "topsProfilerApi")
    assert len(rows(tmp_path, "kernel")) == 2


LOOP = """
x = tops.array(np.zeros(1 << 16, np.float32))
y = tops.empty(1 << 16, tops.f32)
for number in range(12):
    with topstx.annotate("step", payload=number):
        tops.memset(x, 0, 4 * (number + 1))
        with topstx.annotate("inner"):
            double[4](x, y, 1024 * (number + 1))
            double[24](y, x, 1 << 16)
print("end")
"""


@pytest.mark.parametrize("clock", ["virtual", "model"])
@pytest.mark.parametrize("twin", [False, True])
def test_exactly_the_iterations_asked_for(tmp_path: Path, clock: str, twin: bool) -> None:
    # nothing waits for the device: what a step launched ends in later ones
    environment = {"TOPS_CLOCK": clock} | ({"TOPSKIT_PURE": "1"} if twin else {})
    code = LOOP.replace("1 << 16", "1 << 14") if twin else LOOP
    run(tmp_path, code, "-p", "step", "--iterations", "3:6", "--metrics", "stalls", **environment)
    found = rows(tmp_path, "tx")
    steps = [json.loads(t["payload"]) for t in found if t["name"] == "step"]
    assert steps == [3, 4, 5] and sum(t["name"] == "inner" for t in found) == 3
    assert [m["size_bytes"] for m in rows(tmp_path, "memset")] == [16, 20, 24]
    kernels, calls = rows(tmp_path, "kernel"), rows(tmp_path, "api")
    launches = [c["correlation_id"] for c in calls if c["name"] == "topsLaunchKernel"]
    assert sorted(k["correlation_id"] for k in kernels) == sorted(launches) and len(launches) == 6
    assert {c["name"] for c in calls} == {"topsLaunchKernel", "topsMemset"}
    metrics = {m["metric_id"] for m in rows(tmp_path, "kernel_metric")}
    assert {k["metric_id"] for k in kernels} == metrics
    assert rows(tmp_path, "device")


TALK = """
@tops.kernel
def talk(x: tops.ptr(tops.f32), n: tops.i32):
    print("n", n, "thread", tops.thread_id())

x = tops.array(np.zeros(16, np.float32))
talk[2, 3](x, 7)
with tops.Stream() as stream:
    talk[1](x, 8)
    stream.synchronize()
    stream.begin_capture()
    talk[1](x, 9)
    graph = stream.end_capture().instantiate()
    graph.launch()
    graph.launch()
    stream.synchronize()
    double[4](x, x, 16)
    double[4](x, x, 16)
    double[4](x, x, 16)
print("other", stream.id)
"""


@pytest.mark.parametrize("twin", [False, True])
def test_what_kernels_print_and_where_calls_go(tmp_path: Path, twin: bool) -> None:
    out = run(tmp_path, TALK, **({"TOPSKIT_PURE": "1"} if twin else {}))
    other = int(out.split()[-1])
    lines = rows(tmp_path, "print")
    assert [(p["text"], p["block"], p["thread"]) for p in lines] == [
        *((f"n 7 thread {k}", k // 3, k) for k in range(6)),
        ("n 8 thread 0", 0, 0), ("n 9 thread 0", 0, 0), ("n 9 thread 0", 0, 0),
    ]  # fmt: skip
    assert {p["name"] for p in lines} == {"talk"} and [p["stream_id"] for p in lines] == [0] * 6 + [other] * 3
    kernels = {(k["correlation_id"], k["start_ns"] + k["duration_ns"]) for k in rows(tmp_path, "kernel")}
    assert {(p["correlation_id"], p["start_ns"]) for p in lines} <= kernels
    calls = rows(tmp_path, "api")
    streams = {
        name: {c["stream_id"] for c in calls if c["name"] == name}
        for name in ("topsLaunchKernel", "topsStreamSynchronize", "topsGraphLaunch", "topsStreamCreate")
    }  # fmt: skip
    assert streams["topsLaunchKernel"] == {0, other} and streams["topsStreamSynchronize"] == {other}
    assert streams["topsGraphLaunch"] == {other} and streams["topsStreamCreate"] <= {None}
    by_correlation = {c["correlation_id"]: c for c in calls}
    for kernel in rows(tmp_path, "kernel"):
        call = by_correlation[kernel["correlation_id"]]
        assert (call["stream_id"], call["device_id"]) == (kernel["stream_id"], kernel["device_id"])


def test_a_captured_launch_costs_less_than_a_launch(tmp_path: Path) -> None:
    code = """
    x = tops.array(np.zeros(16, np.float32))
    with tops.Stream() as stream:
        double[4](x, x, 16)
        stream.begin_capture()
        for _ in range(3):
            double[4](x, x, 16)
        stream.end_capture()
    """
    run(tmp_path, code, TOPS_CLOCK="model")
    calls = rows(tmp_path, "api")
    took = [c["duration_ns"] for c in calls if c["name"] == "topsLaunchKernel"]
    (begin,) = [c["duration_ns"] for c in calls if c["name"] == "topsStreamBeginCapture"]
    assert took[1:] == [begin] * 3 and took[0] > begin


def test_counters_and_call_stacks(tmp_path: Path) -> None:
    out = run(tmp_path, "print(sum(launch.cycles for launch in work()))", "--metrics", "all", "--backtrace")
    kernels = rows(tmp_path, "kernel")
    assert {k["metric_id"] for k in kernels} == {1}
    counters = {m["counter"]: m["value"] for m in rows(tmp_path, "kernel_metric")}
    assert counters["cycles"] * len(kernels) == int(out)
    assert counters["bytes_l3_to_l1"] == counters["bytes_l1_to_l3"] == 4 * 4096 and counters["flops"] == 4096
    lines = rows(tmp_path, "kernel_line")
    assert all(Path(line["file"]).name == "program.py" for line in lines)
    stall = "stall_dma_cycles"
    assert sum(line["value"] for line in lines if line["counter"] == stall) == counters[stall]
    stacks = {s["stack_id"]: s for s in rows(tmp_path, "stack")}
    launch = next(c for c in rows(tmp_path, "api") if c["name"] == "topsLaunchKernel")
    frame = stacks[launch["stack_id"]]
    assert frame["name"] == "work" and stacks[frame["parent_id"]]["name"] == "<module>"


def test_capture_from_within(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        PROGRAM
        + textwrap.dedent(
            """
            work(2)
            with topstx.capture("case"):
                with topstx.annotate("around"):
                    launches = work(3)
            work(2)
            print(sum(launch.ns for launch in launches))
            """
        )
    )
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        env=os.environ  # without the C engine a warning says so
        | {"PYTHONPATH": paths, "TOPS_STATE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore::UserWarning"},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    kernels, (around,) = rows(tmp_path, "kernel"), [r for r in rows(tmp_path, "tx") if r["name"] == "around"]
    assert sum(k["duration_ns"] for k in kernels) == int(done.stdout) and len(kernels) == 3
    for kernel in kernels:
        assert around["start_ns"] < kernel["queued_ns"] < around["start_ns"] + around["duration_ns"]


def test_a_fork_child_tells_its_own_work(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        import os
        work(1)
        if not os.fork():
            work(2)
            sys.exit(0)
        os.wait()
        """,
        "--metrics",
        "stalls",
        "--backtrace",
    )
    kernels = rows(tmp_path, "kernel")
    counts = sorted(
        sum(k["process_id"] == process for k in kernels) for process in {k["process_id"] for k in kernels}
    )
    assert counts == [1, 2]
    assert len(Session.open(tmp_path / "case.topsprof").info["attributes"]["devices"]) == 2
    stacks = {s["stack_id"] for s in rows(tmp_path, "stack")}
    assert all(c["stack_id"] in stacks for c in rows(tmp_path, "api"))


def test_a_killed_program_keeps_its_rows(tmp_path: Path) -> None:
    code = "import os\nwork(5)\nprint('done', flush=True)\nos.kill(os.getpid(), 9)\n"
    (tmp_path / "program.py").write_text(PROGRAM + code)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TOPSTX_", "TOPS_"))}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "case", "--", sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        env=keep | {"PYTHONPATH": paths, "TOPS_STATE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 137 and "done" in done.stdout
    assert len(rows(tmp_path, "kernel")) == 5


def test_numbers_that_do_not_fit_are_clamped() -> None:
    assert [clamped(code, 2**80) for code in "qQiIhHB"] == [2**n - 1 for n in (63, 64, 31, 32, 15, 16, 8)]
    assert [clamped(code, -5) for code in "qQhB"] == [-5, 0, -5, 0]


def test_what_the_control_file_says(tmp_path: Path) -> None:
    create(
        tmp_path, rows_off=1 << 16, backtrace=7, metrics=3, kernel_include="mat|soft", kernel_exclude="_x$"
    )
    wanted = read_wanted(str(tmp_path))
    assert (wanted.backtrace, wanted.metrics) == (7, 3)
    assert [wanted.kernel(name) for name in ("matmul", "softmax_x", "gemm")] == [True, False, False]
    (tmp_path / "control").unlink()
    create(tmp_path, kernel_include="(")
    with pytest.raises(ValueError, match="kernel_include"):
        read_wanted(str(tmp_path))
    assert cuts.open_base(topstx.row_writer().backend, str(tmp_path)) is None


@pytest.mark.parametrize(
    "arguments", [(), ("--kernel-exclude-regex", "scale"), ("--backtrace",), ("--metrics", "stalls")]
)
def test_launches_in_c_and_in_python_leave_the_same_rows(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code = """
    from tops_kit.runtime import launcher
    @tops.kernel
    def scale(x: tops.ptr(tops.f32), f: tops.f32):
        tops.store(x[0:64], tops.load(x[0:64]) * f)
    if PYTHON:
        launcher.described = lambda *_: None  # nothing is learned: all launches go the way of Python
    work(5)
    x, other = tops.zeros(64, "f32"), tops.Stream()
    for k in range(20):
        scale[1](x, float(k))
    with other:
        for k in range(20):
            scale[1](x, float(k))
    work(5)
    """
    seen = []
    for python in (True, False):
        run(tmp_path, f"PYTHON = {python}\n" + textwrap.dedent(code), *arguments, TOPS_CLOCK="model")
        tables = {name: rows(tmp_path, name) for name in ("api", "kernel", "sync", "stream_race")}
        for table in tables.values():
            for row in table:
                for place in ("process_id", "thread_id", "process", "thread"):
                    row.pop(place, None)
        seen.append(tables)
    assert len(seen[0]["api"]) > 50
    assert seen[0] == seen[1]


def test_a_clock_that_is_set_inside_the_command_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "case", "--", "env", "TOPS_CLOCK=model",
         sys.executable, "-c", "import tops_kit as tops; tops.synchronize()"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        env={k: v for k, v in os.environ.items() if not k.startswith(("TOPSTX_", "TOPS_"))}
        | {"TOPS_STATE_DIR": str(tmp_path / "state")},
    )  # fmt: skip
    assert done.returncode == 0
    assert "TOPS_CLOCK=model is set too late: the recording began with virtual" in done.stderr
