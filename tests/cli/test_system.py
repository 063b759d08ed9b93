"""`topsprof run -t system`: counters of processes, read from outside."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from typing import Any

PROGRAM = """
import subprocess, sys, threading, time
block = b"x" * 60_000_000
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(5)]
for thread in threads: thread.start()
while time.process_time() < 0.5: pass
child = subprocess.Popen([sys.executable, "-S", "-c", "import time\\nwhile time.process_time() < 0.3: pass"])
child.wait()
end.set()
for thread in threads: thread.join()
print(child.pid, time.process_time())
"""


def test_counters(cli: Any) -> None:
    done = cli("run", "-t", "system", "-o", "a", "--", sys.executable, cli.script(PROGRAM))
    assert done.returncode == 0, done.stderr
    child, used_s = done.stdout.split()
    by_process: dict[int, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    processes = {row["process_id"]: row for row in cli.table("a.topsprof", "process")}
    for row in cli.table("a.topsprof", "counter"):
        assert row["domain"] == "system"
        by_process[processes[row["process_id"]]["pid"]][row["name"]].append(row)
    (main,) = [found for pid, found in by_process.items() if pid != int(child)]
    assert set(main) == {"CPU", "Resident memory", "Threads", "Context switches"}
    assert {row["unit"] for row in main["CPU"]} == {"%"}
    rows = sorted(main["CPU"], key=lambda row: row["start_ns"])
    cpu_s = sum(
        row["value"] / 100 * (after["start_ns"] - row["start_ns"]) / 1e9
        for row, after in itertools.pairwise(rows)
    )
    # what was used before the first reading and after the last is missing
    assert 0.2 < cpu_s <= float(used_s) * 1.02
    assert max(row["value"] for row in main["Resident memory"]) > 60e6
    assert max(row["value"] for row in main["Threads"]) == 6
    assert max(row["value"] for row in main["Context switches"]) > 0
    assert int(child) in by_process and "CPU" in by_process[int(child)]
    assert "CPU" in cli("stats", "a.topsprof", "-r", "counter_sum", "-f", "csv").stdout
    assert cli("export", "a.topsprof", "-t", "chrome,perfetto", "-o", ".").returncode in (0, 2)


def test_with_samples_and_calls(cli: Any) -> None:
    """All three ways at once: rings, samples and counters."""
    done = cli(
        "run",
        "-t",
        "topstx,osrt,system",
        "--sample",
        "200",
        "-o",
        "a",
        "--",
        sys.executable,
        cli.script(PROGRAM),
    )
    assert done.returncode == 0, done.stderr
    for table in ("counter", "osrt"):
        assert cli.table("a.topsprof", table)
