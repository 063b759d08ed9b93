"""Looking into a program that runs already: how soon attach has a sample, and how long a dump takes."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import measure
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

_TIMES: Final = 7
_BAR_ATTACH_MS: Final = 300.0
_BAR_DUMP_MS: Final = 200.0

_PROGRAM = """
import threading, time

def waits(event):
    event.wait()

def inner(depth):
    if depth:
        return inner(depth - 1)
    while True:
        time.sleep(0.0005)
        sum(range(2000))

event = threading.Event()
for number in range(3):
    threading.Thread(target=waits, args=(event,), daemon=True).start()
print("ready", flush=True)
inner(30)
"""


def rows() -> Iterator[Row]:
    """The claims of attach and dump."""
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as name, _program() as pid:
        yield from _attach(Path(name), pid)
        yield from _dump(pid)


@contextmanager
def _program() -> Iterator[int]:
    program = subprocess.Popen([sys.executable, "-I", "-c", _PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        program.stdout.readline()
        yield program.pid
    finally:
        program.kill()
        program.communicate()


def _attach(folder: Path, pid: int) -> Iterator[Row]:
    ours = []
    for number in range(_TIMES):
        session = folder / f"a{number}.topsprof"
        begin_ns = time.time_ns()
        measure.run_child(measure.topsprof("attach", str(pid), "-d", "0.2", "-o", str(session)))
        query = "SELECT min(start_ns - weight)::BIGINT AS ns FROM sample"
        (row,) = json.loads(
            measure.run_child(measure.topsprof("sql", str(session), query, "-f", "json")).stdout
        )
        ours.append((row["ns"] - begin_ns) / 1e6)
    yield compare(
        "attach, from the command to its first sample", "ms", statistics.median(ours), None, "",
        bar=_BAR_ATTACH_MS, bar_on="ours", note=f"{_TIMES} times, {min(ours):.0f} to {max(ours):.0f} ms",
    )  # fmt: skip


def _dump(pid: int) -> Iterator[Row]:
    claim = "dump of a program with four threads, the whole command"
    tools = {"ours": measure.topsprof("dump", str(pid))}
    if shutil.which("py-spy"):
        tools["py-spy"] = ["py-spy", "dump", "--pid", str(pid)]
    found = measure.interleaved(
        {name: lambda command=command: measure.run_child(command) for name, command in tools.items()},  # type: ignore[misc]
        _TIMES,
    )
    ours = found["ours"].median_wall_s * 1e3
    note = f"least {found['ours'].wall_s * 1e3:.0f} ms"
    if "py-spy" in found:
        theirs = found["py-spy"].median_wall_s * 1e3
        yield compare(claim, "ms", ours, theirs, "py-spy", bar=_BAR_DUMP_MS, bar_on="ours", note=note)
    else:
        yield compare(claim, "ms", ours, None, "", bar=_BAR_DUMP_MS, bar_on="ours", note=note)
        yield missing(claim, "ms", ours, "py-spy", "py-spy is not installed")
