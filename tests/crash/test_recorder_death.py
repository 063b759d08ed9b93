"""A recorded program that dies suddenly: every published record is in its files, and its open ranges."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    path = ROOT / "tests" / "topstx" / "ring_reader.py"
    spec = importlib.util.spec_from_file_location("ring_reader_of_crashes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["c", "twin"])
def backend(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "twin":
        return {"TOPSKIT_PURE": "1"}
    if importlib.util.find_spec("topstx.recorder._crec") is None:
        pytest.skip("the C extension is not built")
    return {"TOPSKIT_REQUIRE_C": "1"}


def start(folder: Path, code: str, backend: dict[str, str], *args: str) -> subprocess.Popen[str]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("TOPSTX_", "TOPSKIT_"))}
    path = os.pathsep.join(str(ROOT / part) for part in ("tx", "."))
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        env={**keep, **backend, "PYTHONPATH": path, "TOPSTX_SESSION": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


WAYS = {
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "SIGSEGV": ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    "SIGABRT": ("os.abort()", -signal.SIGABRT),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -signal.SIGTERM),
    "_exit": ("os._exit(7)", 7),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_published_is_lost(reader: Any, tmp_path: Path, backend: dict[str, str], way: str) -> None:
    folder = reader.create_session(tmp_path / "session")
    death, code = WAYS[way]
    with start(
        folder,
        f"""
        import os, signal, threading, topstx
        topstx.push_range("open", payload=5)
        topstx.get_domain("d").push_range("inner", payload="long text that does not fit")
        handle = topstx.start_range("shared")
        ready, block = threading.Event(), threading.Event()
        def other():
            with topstx.annotate("of a thread"):
                ready.set(); block.wait()
        threading.Thread(target=other, daemon=True).start()
        ready.wait()
        for n in range(5000):
            with topstx.annotate("r", payload=n): pass
        {death}
        """,
        backend,
    ) as process:
        process.communicate(timeout=60)
    assert process.returncode == code
    found = reader.read_recording(folder).only
    assert [r.payload for r in found.of()] == list(range(5000))
    opened = {r.name: r for r in found.open}
    assert set(opened) == {"open", "inner", "shared", "of a thread"}
    assert opened["open"].payload == 5 and opened["inner"].payload == "long text that"
    assert opened["inner"].domain == "d" and opened["inner"].depth == 1
    assert opened["of a thread"].tid != found.pid == opened["open"].tid
    assert found.header["exit_known"] == (1 if way == "_exit" else 0)
    if way == "_exit":
        assert found.header["exit_status"] == 7


LOOP = """
    import sys, threading, topstx
    def work(label):
        n = 0
        while True:
            topstx.push_range(label, payload=n)
            topstx.mark("m", payload="x" * (n % 50))
            topstx.pop_range()
            n += 1
    threads = [threading.Thread(target=work, args=(f"thread {t}",)) for t in range(2)]
    for t in threads: t.start()
    print("go", flush=True)
"""


@pytest.mark.parametrize("seed", range(20))
def test_kill_at_a_random_moment(reader: Any, tmp_path: Path, backend: dict[str, str], seed: int) -> None:
    """Each thread's ranges come back without a gap: all that ended, at most one open, none twice."""
    if seed >= 4 and "TOPSKIT_PURE" in backend:
        pytest.skip("20 runs with the extension, 4 with the twin")
    folder = reader.create_session(tmp_path / "session", policy=1, ring_max_records=16384)
    with start(folder, LOOP, backend) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        try:
            process.wait(random.Random(seed).uniform(0.0, 0.05))
        except subprocess.TimeoutExpired:
            pass
        process.kill()
    found = reader.read_recording(folder).only
    for label in ("thread 0", "thread 1"):
        ended = [r.payload for r in found.of() if r.name == label]
        left = [r.payload for r in found.open if r.name == label]
        assert ended == list(range(len(ended))), "a gap"
        assert found.dropped or left in ([], [len(ended)]), (left, len(ended))
