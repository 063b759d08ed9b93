"""A program that writes very many rows: none is lost, and sums are exact."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tops_kit.session import Session

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys, time, topstx
from topstx.recorder import rows
api, kernel = rows.KINDS[rows.KIND_API], rows.KINDS[rows.KIND_KERNEL]
with topstx.capture(sys.argv[1]):
    w = topstx.row_writer()
    full = w.intern("f(x: f32[1])")
    begin = first = time.monotonic_ns()
    total = 0
    for k in range(int(sys.argv[2])):
        begin += 9000 + k * 7919 % 1500
        length = 4000 + k * 31 % 977
        w.row(16, begin, begin + 700, "topsLaunchKernel", api.body.pack(0, 0, -1, 80, 0, 2), k + 1)
        body = kernel.body.pack(begin, begin + 600, 0, 2, 1, 1, 4, 1, 1, full, 3, 1, 0, 0, 0, 0, k, 2, 0)
        w.row(17, begin + 900, begin + 900 + length, "f", body, k + 1)
        total += length
print(total, begin - first)
"""


def record(folder: Path, count: int, **environment: str) -> tuple[int, int]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))
    keep = {key: value for key, value in os.environ.items() if not key.startswith("TOPS")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(count)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=keep | {"PYTHONPATH": paths} | environment,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    total, span = map(int, done.stdout.split())
    return total, span


@pytest.mark.parametrize(("pure", "count"), [("0", 500_000), ("1", 20_000)])
def test_nothing_is_lost_and_sums_are_exact(tmp_path: Path, pure: str, count: int) -> None:
    import numpy as np

    folder = tmp_path / "case.topsprof"
    total, span = record(folder, count, TOPSKIT_PURE=pure)
    session = Session.open(folder)
    assert session.tables()["api"] == session.tables()["kernel"] == count
    kernels = session.table("kernel", ["start_ns", "duration_ns", "queued_ns", "correlation_id", "grid_id"])
    columns = {name: np.sort(np.asarray(kernels.column(name))) for name in kernels.column_names}
    assert int(columns["duration_ns"].sum()) == total
    assert (columns["correlation_id"] == np.arange(1, count + 1)).all()
    assert (columns["grid_id"] == np.arange(count)).all()
    assert int(columns["queued_ns"][-1] - columns["queued_ns"][0]) == span - 9000
    assert (columns["start_ns"] - columns["queued_ns"] == 900).all()
    ledger = session.info["ledger"]
    assert {entry["kind"] for entry in ledger} == {"requested", "written"}
    assert sum(entry["count"] for entry in ledger if entry["kind"] == "written") == 2 * count
