"""The transformer: totals of its kernels are the same wherever they are asked, to the ns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

APPS = Path(__file__).resolve().parents[2] / "sample_apps"

# runs a program with the engine's own results, and a tool's records, beside what the session gets
BESIDE = f"""
import json, runpy, sys
import topspti
from tops_kit.runtime.launcher import Launcher
sys.path.insert(0, {str(APPS)!r})
launches, call = [], Launcher.__call__
Launcher.__call__ = lambda *args, **keywords: launches.append(call(*args, **keywords)) or launches[-1]
with topspti.Trace(topspti.ActivityKind.KERNEL) as trace:
    runpy.run_path({str(APPS / "transformer_block.py")!r}, run_name="__main__")
print(json.dumps(dict(
    engine=[[launch.program.name, launch.ns] for launch in launches],
    pti=[[record.name, record.duration_ns] for record in trace.of(topspti.KernelRecord)],
)))
"""


def test_totals_of_kernels(recorded: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "beside.py"
    program.write_text(BESIDE)
    session = recorded("transformer_beside", program)
    told = json.loads(session.stdout.splitlines()[-1])
    assert told["pti"] == told["engine"]
    assert len(told["engine"]) == 20
    rows = session.sql("select name, duration_ns from kernel order by start_ns")
    assert [[row["name"], row["duration_ns"]] for row in rows] == told["engine"]
    total = sum(ns for _, ns in told["engine"])
    assert sum(row["Total Time (ns)"] for row in session.report("gcu_kern_sum")) == total
    assert session.value("select sum(duration_ns)::bigint from kernel") == total


def test_ranges_of_layers(recorded: Callable[..., Any]) -> None:
    session = recorded("transformer_block")
    ranges = {row["Range"]: row for row in session.report("tx_sum")}
    assert {"load weights", "forward", "layer 0", "layer 1", "attention", "mlp"} <= set(ranges)
    assert ranges["attention"]["Instances"] == ranges["mlp"]["Instances"] == 2
    # each layer does the same on the device
    projected = {row["Range"]: row["Total Proj Time (ns)"] for row in session.report("tx_gcu_proj_sum")}
    layers = session.sql(
        """select sum(k.duration_ns)::bigint as busy_ns from kernel k
        join api a on a.process_id = k.process_id and a.correlation_id = k.correlation_id
        join tx on a.start_ns between tx.start_ns and tx.end_ns
        where tx.name in ('layer 0', 'layer 1') group by tx.name"""
    )
    assert layers[0] == layers[1]
    assert sum(row["busy_ns"] for row in layers) <= projected["forward"]


def test_lines_of_the_hot_kernel_come_first(recorded: Callable[..., Any]) -> None:
    session = recorded("transformer_block")
    kernel, line = session.report("gcu_kern_sum")[0], session.report("kern_line")[0]
    assert kernel["Name"].startswith("gemm_double_buffered(")
    assert line["Kernel"] == "gemm_double_buffered"
    assert "tops.pipeline(" in line["Source"]


def test_it_is_the_same_in_every_run(recorded: Callable[..., Any]) -> None:
    first = recorded("transformer_block")
    again = recorded("transformer_again", APPS / "transformer_block.py")
    for report in ("gcu_kern_sum", "kern_line", "api_sum", "tx_sum", "mem_time_sum"):
        assert first.report(report) == again.report(report), report
