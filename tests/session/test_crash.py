"""kill -9 while a session is written or compacted: what had been flushed is there, once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tops_kit.session import Session, SessionWriter, compact

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")

WRITE = """
import sys
import numpy as np
from tops_kit.session import SessionWriter
writer = SessionWriter.create(sys.argv[1])
number = 0
while True:
    starts = np.arange(number * 1000, number * 1000 + 1000)
    writer.append("tx", {"start_ns": starts, "name": [f"n{number}"] * 1000})
    writer.flush()
    number += 1
    print(number, flush=True)
"""
COMPACT = """
import sys
from tops_kit.session import compact, compaction
compaction.MOST_ROWS, compaction.FULL_ROWS = 3000, 2000
print("ready", flush=True)
compact(sys.argv[1])
"""


def _start(code: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("seed", range(5))
def test_the_writer_is_killed(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.topsprof"
    process = _start(WRITE, path)
    assert process.stdout is not None
    try:
        for _ in range(random.Random(seed).randint(1, 30)):
            flushed = int(process.stdout.readline())
    finally:
        _kill(process)
    flushed += len(process.stdout.readlines())
    session = Session.open(path)
    starts = session.table("tx", ["start_ns"]).column(0).to_pylist()
    # At most the one segment more whose number was not printed yet.
    assert len(starts) in (flushed * 1000, (flushed + 1) * 1000)
    assert starts == list(range(len(starts)))
    assert session.ledger.clean
    with SessionWriter.resume(path) as writer:
        writer.append("tx", {"start_ns": [-1]})
    compact(path)
    assert Session.open(path).tables() == {"tx": len(starts) + 1}
    assert [entry.name for entry in (path / "segments").iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize("seed", range(6))
def test_the_compaction_is_killed(make_session: Callable[..., Path], seed: int) -> None:
    path = make_session(segments=24, calls=170)
    expected = sorted(Session.open(path).table("tx", ["start_ns"]).column(0).to_pylist())
    rounds = random.Random(seed)
    for _ in range(3):
        process = _start(COMPACT, path)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rounds.random() * 0.15)  # not for order: any moment will do
        _kill(process)
        session = Session.open(path)
        assert sorted(session.table("tx", ["start_ns"]).column(0).to_pylist()) == expected
        assert session.ledger.clean
    compact(path)
    session = Session.open(path)
    assert sorted(session.table("tx", ["start_ns"]).column(0).to_pylist()) == expected
    assert len(list((path / "segments").iterdir())) == len(session.segments("tx")) + len(
        session.segments("process")
    )


@pytest.mark.parametrize("stop_at", range(8))
def test_compaction_stops_at_each_step(
    make_session: Callable[..., Path], stop_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, step by step: whatever of write, rename and delete is the last to happen."""
    from tops_kit.session import compaction, segment, segment_writing

    path = make_session(segments=3, calls=20)
    expected = sorted(Session.open(path).table("tx", ["start_ns"]).column(0).to_pylist())
    steps = 0

    class Killed(BaseException):
        pass

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps > stop_at:
            raise Killed

    delete, write = compaction.delete_segment, segment_writing.write_arrow
    monkeypatch.setattr(compaction, "delete_segment", lambda *a: (step(), delete(*a))[1])
    monkeypatch.setattr(segment_writing, "write_arrow", lambda *a, **k: (step(), write(*a, **k))[1])
    for module in (segment, segment_writing):
        monkeypatch.setattr(module, "remove_folder", lambda _folder: True)  # a killed process tidies nothing
    with pytest.raises(Killed):
        compact(path)
    monkeypatch.undo()
    assert sorted(Session.open(path).table("tx", ["start_ns"]).column(0).to_pylist()) == expected
    compact(path)
    assert sorted(Session.open(path).table("tx", ["start_ns"]).column(0).to_pylist()) == expected
