"""What each sample program was made to show is in its reports, and gone from the fixed version's."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ROOT / "sample_apps"
# programs that use no device: tests/sample_apps/test_python.py
NO_DEVICE = {"first_profile", "web_service", "cpu_bound", "threads_gil", "leaky"}
NAMES = sorted(path.stem for path in APPS.glob("*.py") if path.stem not in NO_DEVICE)

# from the first beginning of something on the device to the last end, and what engines did in between
BUSY = """
    with work as (select start_ns, end_ns from kernel union all select start_ns, end_ns from memcpy)
    select (max(end_ns) - min(start_ns))::bigint as span_ns, sum(end_ns - start_ns)::bigint as busy_ns
    from work
"""


def share(rows: list[dict[str, Any]], name: str) -> float:
    """The percentage of time of rows whose name begins so."""
    return sum(row["Time (%)"] for row in rows if row["Name"].startswith(name))


def total_ns(rows: list[dict[str, Any]], name: str = "") -> int:
    return sum(row["Total Time (ns)"] for row in rows if row["Name"].startswith(name))


def calls(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row["Num Calls"] for row in rows if row["Name"] == name)


@pytest.mark.parametrize("app", NAMES)
def test_memory_is_given_back(app: str, recorded: Callable[..., Any]) -> None:
    session = recorded(app)
    kept = [row for row in session.report("mem_alloc") if row["Kept"]]
    held = session.value("select coalesce(sum(size_bytes), 0)::bigint from memory")
    if app != "memory_leak":
        assert (kept, held) == ([], 0)
        return
    (leak,) = kept
    assert held == 8 * 4096 * 4
    assert (leak["Kept"], leak["Kept (MB)"]) == (8, held / 1e6)
    path, _, line = leak["Place"].rpartition(":")
    assert Path(path).name == "memory_leak.py"
    assert "the leak" in (APPS / "memory_leak.py").read_text("utf-8").splitlines()[int(line) - 1]


def test_every_program_stands_in_the_list(recorded: Callable[..., Any]) -> None:
    page = (APPS / "README.md").read_text("utf-8")
    assert sorted(re.findall(r"^- `(\w+)\.py`", page, re.M)) == sorted(
        path.stem for path in APPS.glob("*.py")
    )


def test_first_steps(recorded: Callable[..., Any]) -> None:
    first = recorded("first_steps")
    ranges = {row["Range"] for row in first.report("tx_sum")}
    assert ranges == {"copy in", "compile", "compute", "copy out"}
    (kernel,) = first.report("gcu_kern_sum")
    assert kernel["Instances"] == 1


MEASURED = {
    "first_steps": "compute", "streams_serial": "pipeline", "streams_overlap": "pipeline",
    "launch_bound": "optimiser", "launch_bound_fixed": "optimiser", "graph_launches": "step",
    "graph_replay": "capture", "gaps": "step",
}  # fmt: skip


@pytest.mark.parametrize("app", MEASURED)
def test_nothing_is_compiled_in_what_is_measured(app: str, recorded: Callable[..., Any]) -> None:
    late = f"""select (select count(*) from overhead where name = 'compile') as compiled, count(*) as late
        from overhead where name = 'compile'
        and start_ns > (select min(start_ns) from tx where name = '{MEASURED[app]}')"""
    (found,) = recorded(app).sql(late)
    assert found["compiled"] > 0 and found["late"] == 0


def test_streams_overlap(recorded: Callable[..., Any]) -> None:
    (serial,) = recorded("streams_serial").sql(BUSY)
    (overlap,) = recorded("streams_overlap").sql(BUSY)
    assert serial["span_ns"] >= serial["busy_ns"]
    assert overlap["span_ns"] < 0.6 * overlap["busy_ns"]
    # what is computed is the same
    serial, overlap = (
        total_ns(recorded(app).report("gcu_kern_sum")) for app in ("streams_serial", "streams_overlap")
    )
    assert overlap >= serial  # sharing of bandwidth may stretch it


def test_streams_do_not_race(recorded: Callable[..., Any]) -> None:
    for app in ("streams_serial", "streams_overlap"):
        assert recorded(app).value("select count(*) from stream_race") == 0


def test_graphs(recorded: Callable[..., Any]) -> None:
    launches, replay = recorded("graph_launches"), recorded("graph_replay")
    assert calls(launches.report("api_sum"), "topsLaunchKernel") == 80
    again = replay.report("api_sum")
    assert calls(again, "topsLaunchKernel") == 8  # those captured
    assert calls(again, "topsGraphLaunch") == 10
    kernels = [app.report("gcu_kern_sum") for app in (launches, replay)]
    assert kernels[0] == kernels[1]
    (graph,) = replay.report("graph_sum")
    assert graph["Total Time (ns)"] == total_ns(kernels[1])
    # one by one the host is slower than the device; as a graph it is not
    query = "select sum(duration_ns)::bigint from tx where name = 'step'"
    assert launches.value(query) > 2 * total_ns(kernels[0])
    assert replay.value(query) < total_ns(kernels[1])


def test_hot_reshape(recorded: Callable[..., Any]) -> None:
    slow, fixed = (recorded(app) for app in ("hot_reshape", "hot_reshape_fixed"))
    rows, again = slow.report("gcu_kern_sum"), fixed.report("gcu_kern_sum")
    assert rows[0]["Name"].startswith("split_heads")
    assert share(rows, "split_heads") > 60
    assert share(again, "split_heads") < 25
    assert total_ns(again, "split_heads") * 8 < total_ns(rows, "split_heads")
    assert total_ns(again, "gemm") == total_ns(rows, "gemm")


def test_hot_reshape_waits_for_transfers(recorded: Callable[..., Any]) -> None:
    line = recorded("hot_reshape").report("kern_line")[0]
    assert line["Kernel"] == "split_heads"
    assert "tops.load(x[token, head" in line["Source"]
    assert line["Wait Transfer"] > 0.9 * line["Cost"]


def test_launch_bound(recorded: Callable[..., Any]) -> None:
    slow, fixed = recorded("launch_bound"), recorded("launch_bound_fixed")
    launches = slow.report("api_sum")
    assert launches[0]["Name"] == "topsLaunchKernel"
    assert total_ns(launches, "topsLaunchKernel") > 2 * total_ns(slow.report("gcu_kern_sum"))
    again = fixed.report("api_sum")
    assert calls(again, "topsLaunchKernel") == 3
    assert calls(launches, "topsLaunchKernel") == 3 * 12 * 3
    assert total_ns(fixed.report("gcu_kern_sum")) > 0.5 * total_ns(again, "topsLaunchKernel")


def test_gaps(recorded: Callable[..., Any]) -> None:
    gaps = recorded("gaps").sql(
        """with work as (select start_ns, end_ns from kernel union all select start_ns, end_ns from memcpy)
        select start_ns - lag(end_ns) over (order by start_ns) as gap_ns from work"""
    )
    long = [row["gap_ns"] for row in gaps if row["gap_ns"] and row["gap_ns"] >= 400_000]
    assert len(long) == 4  # before each batch but the first
    rows = {row["Range"]: row for row in recorded("gaps").report("tx_sum")}
    assert rows["prepare batch"]["Total Time (ns)"] > rows["step"]["Total Time (ns)"]


def test_shared_device(recorded: Callable[..., Any]) -> None:
    shared = recorded("shared_device")
    rows = shared.sql("select process_id, count(*) as launches from kernel group by 1")
    assert [row["launches"] for row in rows] == [21, 21]
    # each names the other as a holder of memory, too
    assert all(re.search(rf"process {row['process_id']}: [\d,]+ bytes", shared.stdout) for row in rows)
    turns = ("first alone", "second alone", "first together", "second together")
    assert {row["Range"] for row in shared.report("tx_sum")} == set(turns)
    # each kernel has the whole device: at no time there are two
    kernels = shared.sql(
        "select process_id, start_ns, start_ns + duration_ns as end_ns from kernel order by 2"
    )
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(kernels))
    # together, the work takes as long as its own kernels and the other process's in between; alone there
    # are none of those
    second = shared.sql("select process_id from tx where name = 'second alone'")[0]["process_id"]
    for turn in turns:
        process = second if turn.startswith("second") else kernels[0]["process_id"]
        (span,) = shared.sql(
            f"select start_ns, start_ns + duration_ns as end_ns from tx where name = '{turn}'"
        )
        own = [k for k in kernels if span["start_ns"] <= k["start_ns"] and k["end_ns"] <= span["end_ns"]]
        mine = [k for k in own if k["process_id"] == process]
        theirs = [k for k in own if k["process_id"] != process]
        assert len(mine) == 10
        assert bool(theirs) == turn.endswith("together")
        assert span["end_ns"] - span["start_ns"] >= sum(k["end_ns"] - k["start_ns"] for k in own)
    # of the memory that one of them is told, the other has a part
    used = int(re.search(r"simulated: ([\d,]+) of", shared.stdout)[1].replace(",", ""))
    own = int(re.search(r"this process: ([\d,]+) bytes", shared.stdout)[1].replace(",", ""))
    assert used == 2 * own
