"""Memory of Python programs: estimates are right, leaks and peaks are named, and no program suffers."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof.reports.data import Data
from topsprof.reports.registry import find

from tops_kit.session import Session

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("topstx.recorder._crec") is None, reason="no recorder in C"
)
MB = 1e6


def run(tmp_path: Path, text: str, *options: str, code: int = 0, **environ: str) -> Path:
    """The session of a program that is recorded with -t pymem."""
    program = tmp_path / "program.py"
    program.write_text(text)
    session = tmp_path / "s.topsprof"
    words = [sys.executable, "-m", "topsprof", "run", "-f", "-t", "pymem", *options, "-o", str(session)]
    done = subprocess.run(
        [*words, "--", sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, **environ},
    )
    assert done.returncode == code, done.stderr
    (tmp_path / "out").write_text(done.stdout)
    (tmp_path / "err").write_text(done.stderr)
    return session


def events(session: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Session.open(session).table("pymem").to_pylist()
    return sorted(found, key=lambda row: (row["start_ns"], row["allocation"]))


def report(session: Path, name: str) -> list[dict[str, Any]]:
    _, found = find(name)
    titles = [column.title for column in found.columns]
    return [dict(zip(titles, row, strict=True)) for row in found.rows(Data(Session.open(session)))]


KNOWN = """
def small():  # 20 MB in blocks of 100 bytes
    return [b"%067d" % i for i in range(200_000)]
def middle():  # 20 MB in blocks of 10,000
    return [bytearray(9_999) for i in range(2_000)]
def large():  # 40 MB in blocks of 4 MB
    return [bytearray(3_999_999) for i in range(10)]
kept = small(), middle(), large()
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_estimates_are_within_their_errors(tmp_path: Path, seed: int) -> None:
    session = run(tmp_path, KNOWN, "--pymem-rate", "100K", "--pymem-seed", str(seed))
    lines = KNOWN.splitlines()
    found: dict[str, list[float]] = {}
    for row in report(session, "pymem_sum"):
        line = row["Place"] and int(row["Place"].rpartition(":")[2])
        if str(row["Place"]).startswith(str(tmp_path)):
            name = next(n for n in ("small", "middle", "large") if n in lines[line - 2])
            found.setdefault(name, []).append(row["At Peak (MB)"])
            found.setdefault(f"{name} error", []).append(row["Error (MB)"])
    # besides the blocks of small: the list's own memory (1.6 MB, and steps on the way), numbers of 32 bytes
    assert sum(found["large"]) == pytest.approx(40, rel=1e-6)
    assert abs(sum(found["middle"]) - 20) < 5 * max(found["middle error"])
    (error,) = found["small error"]
    assert 20 - 5 * error < sum(found["small"]) < 20 + 1.8 + 200_000 * 32 / MB + 5 * error
    assert 0.8 < error < 3  # sqrt(26 MB * 0.1 MB) = 1.6


def test_every_allocation_is_exact_and_ends_with_its_release(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
def blocks():
    return [bytearray(50_000) for i in range(40)]
def grows():
    block = bytearray(60_000)
    block += bytes(60_000)
kept = blocks()
for i in range(5): blocks()
grows()
""",
        "--pymem-rate",
        "1",
    )
    rows = events(session)
    taken = [row for row in rows if row["name"] == "alloc" and row["size_bytes"] == 50_001]
    assert len(taken) == 240 and all(row["weight_bytes"] == 50_001 for row in taken)
    freed = {row["allocation"] for row in rows if row["name"] == "free"}
    assert len([row for row in taken if row["allocation"] not in freed]) == 40
    heap = 0.0
    for row in rows:
        heap += row["weight_bytes"] * (1 if row["name"] == "alloc" else -1)
        assert abs(heap - row["heap_bytes"]) < 1
    sites = {row["Name"]: row for row in report(session, "pymem_sum:total")}
    assert sites["blocks"]["At End (MB)"] == pytest.approx(2, rel=0.01)
    assert sites["blocks"]["Allocated (MB)"] == pytest.approx(12, rel=0.01)
    assert sites["grows"]["At End (MB)"] == 0 and sites["grows"]["Allocated (MB)"] > 0.18


def test_a_leak_is_named_by_its_line(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
import time
cache = [bytearray(100_000) for i in range(300)]  # 30 MB, early
leak = []
def handle():
    block = bytearray(100_000)
    leak.append(bytearray(20_000))  # the leak
    return [bytes(1000) for i in range(100)]
for i in range(1000):
    handle()
    time.sleep(0.0005)  # half of the leak is in each half of the time
""",
        "--pymem-rate",
        "64K",
    )
    worst = report(session, "pymem_sum:growth")[0]
    assert worst["Place"].endswith("program.py:7") and worst["Name"] == "handle"
    assert worst["Growth (MB)"] > 2 and worst["At End (MB)"] == pytest.approx(20, rel=0.4)


def test_the_peak_is_what_lived_then(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
def early(): return bytearray(30_000_000)
def high(): return bytearray(50_000_000)
def late(): return bytearray(20_000_000)
a = early()
b = high()
del a, b
c = late()
""",
    )
    (peak,) = report(session, "pymem_peak")
    assert peak["At Peak (MB)"] == pytest.approx(80, abs=8) and peak["Name"] == "high"
    assert peak["At End (MB)"] == pytest.approx(20, abs=8)
    sites = {row["Name"]: row["At Peak (MB)"] for row in report(session, "pymem_sum")}
    assert sites["early"] == pytest.approx(30) and sites["high"] == pytest.approx(50) and sites["late"] == 0
    heap = Session.open(session).table("counter", ["name", "value", "unit"]).to_pylist()
    assert {row["name"] for row in heap} == {"Python heap (estimate)"}
    assert max(row["value"] for row in heap) == pytest.approx(80e6, abs=8e6)


def test_memory_that_another_thread_releases(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
import queue, threading
blocks = queue.Queue(4)
def makes():
    for i in range(200): blocks.put(bytearray(200_000))
    blocks.put(None)
def takes():
    while blocks.get() is not None: pass
threads = [threading.Thread(target=f) for f in (makes, takes)]
for t in threads: t.start()
for t in threads: t.join()
""",
        "--pymem-rate",
        "1K",
    )
    rows = [row for row in events(session) if row["size_bytes"] == 200_001]
    taken = {row["allocation"]: row for row in rows if row["name"] == "alloc"}
    freed = {row["allocation"]: row for row in rows if row["name"] == "free"}
    assert len(taken) == 200 and taken.keys() <= freed.keys()
    assert {freed[n]["thread_id"] for n in taken} - {row["thread_id"] for row in taken.values()}


def test_arrays_of_numpy(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
import numpy, threading, sys
kept = []
def arrays():
    kept.append(numpy.zeros(1_000_000))
    kept.append(numpy.arange(2_000_000.))
    numpy.empty(3_000_000)
def in_thread():
    kept.append(numpy.empty(500_000))
arrays()
t = threading.Thread(target=in_thread); t.start(); t.join()
kept[0].resize(4_000_000, refcheck=False)  # the line of the array
assert not any("Numpy" in type(finder).__name__ for finder in sys.meta_path)
""",
    )
    sites = {row["Name"]: row for row in report(session, "pymem_sum:total")}
    assert sites["arrays"]["Allocated (MB)"] == pytest.approx(48, rel=1e-3)
    assert sites["arrays"]["At End (MB)"] == pytest.approx(16, rel=1e-3)
    assert sites["in_thread"]["At End (MB)"] == pytest.approx(4, rel=1e-2)
    (line,) = [r for r in report(session, "pymem_sum") if str(r["Place"]).endswith("program.py:12")]
    assert line["At End (MB)"] == pytest.approx(32, rel=1e-2)
    assert {row["allocator"] for row in events(session) if row["size_bytes"] >= 4_000_000} == {"numpy"}


def test_children_have_their_own(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
import os, subprocess, sys, threading
kept = [bytearray(30_000_000)]
def child():
    own = bytearray(20_000_000)
    kept.clear()  # the parent's
    os._exit(3)
stop = threading.Event()
def busy():
    while not stop.is_set(): [bytes(600) for i in range(100)]
threads = [threading.Thread(target=busy) for i in range(4)]
for t in threads: t.start()
for i in range(5):
    pid = os.fork()
    if not pid: child()
    assert os.waitpid(pid, 0)[1] == 3 << 8
stop.set()
for t in threads: t.join()
subprocess.run([sys.executable, "-c", "x = bytearray(11_000_000)"], check=True)
os.execv(sys.executable, [sys.executable, "-c", "y = bytearray(12_000_000)"])
""",
        "--pymem-rate",
        "32K",
    )
    large = sorted(round(row["At End (MB)"]) for row in report(session, "pymem_peak"))
    most = sorted(round(row["Most By (MB)"]) for row in report(session, "pymem_peak"))
    assert most == [11, 12, 20, 20, 20, 20, 20, 30], large


@pytest.mark.parametrize(
    ("death", "code"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL)]
)
def test_what_was_published_survives(tmp_path: Path, death: str, code: int) -> None:
    session = run(tmp_path, f"import os\nkept = bytearray(40_000_000)\n{death}\n", code=code)
    (peak,) = report(session, "pymem_peak")
    assert peak["At End (MB)"] == pytest.approx(40, abs=5)


STORM = """
import gc, json, sys, threading
def storm(n):
    kept = {}
    for i in range(400):
        kept[i * 7 % 50] = bytes(i * 37 % 5000) if i & 1 else [0] * (i * 13 % 600)
        kept.setdefault(-1, []).append(i)
        if i % 50 == 0:
            try: json.loads("[" * 500)
            except ValueError: pass
class Cycle:
    def __del__(self): self.late = bytes(700)
def collected(phase, info): [bytes(100) for i in range(20)]
gc.callbacks.append(collected)
gc.set_threshold(50)
threads = [threading.Thread(target=storm, args=(n,)) for n in range(50)]
for t in threads: t.start()
for t in threads: t.join()
for i in range(100):
    c = Cycle(); c.self = c
def endless(n):
    x = bytes(3000)
    return endless(n + 1)
def deep(n): return [n] + deep(n - 1) if n else []
try: endless(0)
except RecursionError: print("recursion")
sys.setrecursionlimit(20_000)
print(len(deep(5000)))
for too_much in (lambda: bytearray(1 << 60), lambda: [0] * (1 << 59), lambda: b"x" * (1 << 60)):
    try: too_much()
    except MemoryError: print("memory")
x = bytearray(100)
try: x *= 1 << 55
except MemoryError: print("memory")
print(len(x), len(bytearray(1 << 30)))
"""


@pytest.mark.parametrize("rate", ["1", "512K"])
def test_storms_change_nothing(tmp_path: Path, rate: str) -> None:
    session = run(tmp_path, STORM, "--pymem-rate", rate)
    expected = ["recursion", "5000", *["memory"] * 4, f"100 {1 << 30}"]
    assert (tmp_path / "out").read_text().splitlines() == expected
    (peak,) = report(session, "pymem_peak")
    assert peak["At Peak (MB)"] > 1073


def test_tracemalloc_beside_us(tmp_path: Path) -> None:
    program = """
import tracemalloc
tracemalloc.start()
kept = bytearray(30_000_000)
assert tracemalloc.get_traced_memory()[0] > 30_000_000
{stop}
later = bytearray(20_000_000)
"""
    session = run(tmp_path, program.format(stop="tracemalloc.stop()"))
    (peak,) = report(session, "pymem_peak")
    assert peak["At End (MB)"] == pytest.approx(50, abs=5)
    session = run(tmp_path, program.format(stop=""))
    assert report(session, "pymem_peak")[0]["At End (MB)"] == pytest.approx(50, abs=5)
    assert "another tool" not in (tmp_path / "err").read_text()
    # on before us, it takes us out as well
    session = run(tmp_path, program.format(stop="tracemalloc.stop()"), PYTHONTRACEMALLOC="1")
    (peak,) = report(session, "pymem_peak")
    assert peak["At End (MB)"] == pytest.approx(30, abs=5)
    assert "another tool" in (tmp_path / "err").read_text()


def test_debug_allocators(tmp_path: Path) -> None:
    for allocator in ("debug", "malloc", "malloc_debug"):
        session = run(tmp_path, KNOWN, PYTHONMALLOC=allocator)
        (peak,) = report(session, "pymem_peak")
        assert peak["At Peak (MB)"] == pytest.approx(88, abs=25)


def test_subinterpreters(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
import threading
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
run = getattr(interpreters, "run_string", None) or interpreters.exec
TEXT = "def inside():\\n    return [bytearray(9_000_000), [bytes(300) for i in range(50000)]]\\nx = inside()"
def work():
    for i in range(3):
        one = interpreters.create()
        run(one, TEXT)
        interpreters.destroy(one)
threads = [threading.Thread(target=work) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
""",
        "--pymem-rate",
        "16K",
    )
    sites = {row["Name"]: row for row in report(session, "pymem_sum:total")}
    assert sites["inside"]["Allocated (MB)"] > 12 * 9 + 100


def test_without_the_recorder_in_c(tmp_path: Path) -> None:
    session = run(tmp_path, "print('fine')", TOPSKIT_PURE="1")
    assert (tmp_path / "out").read_text() == "fine\n"
    assert "sampled by the recorder in C only" in (tmp_path / "err").read_text()
    assert not Session.open(session).table("pymem").num_rows


def test_ranges_and_recording_that_begins_later(tmp_path: Path) -> None:
    session = run(
        tmp_path,
        """
import topstx
before = bytearray(30_000_000)
with topstx.annotate("part"):
    inside = bytearray(20_000_000)
after = bytearray(10_000_000)
del inside
""",
        "-c",
        "topstx",
        "-p",
        "part",
        "-t",
        "pymem,topstx",
    )
    (row,) = [row for row in events(session) if row["size_bytes"] > MB and row["name"] == "alloc"]
    assert row["size_bytes"] == 20_000_001 and row["range"] == "part"
    assert any(row["name"] == "free" and row["size_bytes"] == 20_000_001 for row in events(session))
