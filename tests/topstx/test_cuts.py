"""Session time that processes share: it stands still in cuts, jumps, and outlives a killed holder."""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topstx.recorder import cuts, twin
from topstx.recorder import layout as L

from tests.topstx.conftest import SOURCES, extension_missing

Open = Callable[..., Any]


def _backend(name: str) -> Any:
    if name == "twin":
        return twin
    from topstx.recorder import _crec

    return _crec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a session with cuts, in virtual mode."""
    cuts.create(str(tmp_path), "virtual")
    return tmp_path


@pytest.fixture
def opened(backend: str, folder: Path) -> Any:
    """Its time base."""
    base = cuts.open_base(_backend(backend), str(folder))
    assert base is not None
    yield base
    base.close()


def header(folder: Path) -> dict[str, Any]:
    data = (folder / cuts.FILE).read_bytes()
    return dict(zip(L.CUTS_FIELDS, struct.unpack_from(L.CUTS_FORMAT, data), strict=True))


def entries(folder: Path) -> list[tuple[int, int, int, int, int]]:
    data = (folder / cuts.FILE).read_bytes()
    count = header(folder)["entries"]
    return [
        struct.unpack_from(L.CUT_FORMAT, data, L.CUTS_ENTRIES_OFFSET + k * L.CUT_BYTES)  # type: ignore[misc]
        for k in range(count)
    ]


def test_time_is_raw_time_until_something_moves_it(opened: Any) -> None:
    before = time.monotonic_ns()
    assert before <= opened.now_ns() <= time.monotonic_ns()
    assert opened.mode == "virtual" and opened.offset_ns == 0 and opened.alone()


def test_time_stands_still_in_a_cut_and_goes_on_after_it(opened: Any, folder: Path) -> None:
    opened.begin_cut()
    first = opened.now_ns()
    busy_until = time.monotonic_ns() + 2_000_000
    while time.monotonic_ns() < busy_until:
        assert opened.now_ns() == first
    opened.begin_cut()
    opened.end_cut()
    assert opened.now_ns() == first
    opened.end_cut()
    after, raw = opened.now_ns(), time.monotonic_ns()
    ((begin, end, session_begin, session_end, serial),) = entries(folder)
    assert session_begin == session_end == first and serial == 0 and end - begin >= 2_000_000
    assert first <= after <= raw - (end - begin)
    facts = header(folder)
    assert facts["simulator_ns"] == end - begin and facts["open_begin"] == 0 and facts["sequence"] % 2 == 0


def test_jumps(opened: Any, folder: Path) -> None:
    before = opened.now_ns()
    opened.advance(10**12)
    assert opened.now_ns() >= before + 10**12
    opened.begin_cut()
    frozen = opened.now_ns()
    opened.advance(5)
    assert opened.now_ns() == frozen + 5
    opened.end_cut()
    jump, cut = entries(folder)
    assert jump[3] - jump[2] == 10**12 and jump[0] == jump[1] and cut[3] - cut[2] == 5
    assert header(folder)["jumped_ns"] == 10**12 + 5


def test_an_end_without_a_begin(opened: Any) -> None:
    with pytest.raises(RuntimeError, match="without begin_cut"):
        opened.end_cut()


def test_time_goes_on_from_a_process_own(backend: str, folder: Path) -> None:
    base = cuts.open_base(_backend(backend), str(folder), now_ns=1000)
    assert base is not None
    now = base.now_ns()
    assert 1000 <= now < 10**11
    assert abs(now - base.offset_ns - time.monotonic_ns()) < 10**10
    base.close()
    base.close()


def test_threads_take_turns(opened: Any, folder: Path) -> None:
    inside: list[int] = []

    def work() -> None:
        for _ in range(50):
            opened.begin_cut()
            inside.append(1)
            assert len(inside) == 1
            time.sleep(0)
            inside.pop()
            opened.end_cut()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = entries(folder)
    assert len(found) == 200
    assert all(one[1] <= two[0] and one[3] <= two[2] for one, two in itertools.pairwise(found))


@pytest.mark.parametrize("name", ["cuts", "other"])
def test_files_that_are_none(backend: str, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\0" * L.PAGE)
    assert cuts.open_base(_backend(backend), str(tmp_path)) is None
    (tmp_path / name).write_bytes(b"short")
    assert cuts.open_base(_backend(backend), str(tmp_path)) is None


def test_the_file_grows(opened: Any, folder: Path) -> None:
    count = 2 * L.CUTS_WINDOW + 5
    for _ in range(count):
        opened.advance(1)
    found = entries(folder)
    assert len(found) == count and sum(e[3] - e[2] for e in found) == count
    assert all(one[1] <= two[0] and one[3] <= two[2] for one, two in itertools.pairwise(found))


def test_model_time_moves_only_when_told(backend: str, tmp_path: Path) -> None:
    cuts.create(str(tmp_path), "model")
    base = cuts.open_base(_backend(backend), str(tmp_path))
    assert base is not None and base.mode == "model" and base.now_ns() == 0
    base.advance(500)
    base.begin_cut()
    base.end_cut()
    base.advance(7)
    assert base.now_ns() == 507
    assert [(e[2], e[3]) for e in entries(tmp_path)] == [(0, 500), (500, 507)]
    assert header(tmp_path)["simulator_ns"] > 0 and not header(tmp_path)["order_measured"]
    thread = threading.Thread(target=base.advance, args=(1,))
    thread.start()
    thread.join()
    assert base.now_ns() == 508 and header(tmp_path)["order_measured"] == 1
    base.close()


# ---- several processes -------------------------------------------------------------------------------------

CHILD = """
import os, sys, time
from topstx.recorder import cuts, twin
if sys.argv[2] == "c":
    from topstx.recorder import _crec as backend
else:
    backend = twin
base = cuts.open_base(backend, sys.argv[1])
def say(word):
    print(word, flush=True)
"""


class Child:
    """Another process with the base, which says words and is told to go on by lines."""

    def __init__(self, folder: Path, backend: str, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD + code, str(folder), backend],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": SOURCES},
        )  # fmt: skip

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, code: int = 0) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == code


@pytest.fixture(params=["c", "twin"])
def other(request: pytest.FixtureRequest) -> str:
    """The back end of the other process."""
    if request.param == "c" and (reason := extension_missing()):
        pytest.skip(reason)
    return str(request.param)


def test_time_stands_still_while_another_process_is_in_a_cut(opened: Any, folder: Path, other: str) -> None:
    child = Child(
        folder,
        other,
        """
base.begin_cut(); say(base.now_ns()); sys.stdin.readline(); base.end_cut(); say("out"); sys.stdin.readline()
""",
    )
    frozen = int(child.hear())
    assert not opened.alone()
    assert [opened.now_ns() for _ in range(3)] == [frozen] * 3
    waited = threading.Thread(target=lambda: (opened.begin_cut(), opened.end_cut()))
    waited.start()
    child.tell()
    assert child.hear() == "out"
    waited.join(60)
    assert opened.now_ns() >= frozen
    theirs, mine = entries(folder)
    assert theirs[1] <= mine[0] and theirs[2] == theirs[3] == frozen
    child.tell()
    child.end()
    assert opened.alone()


def test_who_comes_waits_for_the_cut_of_one_that_was_alone(opened: Any, folder: Path, other: str) -> None:
    opened.begin_cut()
    child = Child(folder, other, 'say("here"); base.begin_cut(); base.end_cut(); say("done")')
    deadline = time.monotonic() + 60
    while header(folder)["processes"] < 2:  # it has come, and waits
        assert time.monotonic() < deadline
    assert len(entries(folder)) == 0
    opened.end_cut()
    assert [child.hear(), child.hear()] == ["here", "done"]
    child.end()
    first, second = entries(folder)
    assert first[1] <= second[0]
    opened.begin_cut()
    opened.end_cut()
    assert len(entries(folder)) == 3


def test_a_killed_holder_lets_go(opened: Any, folder: Path, other: str) -> None:
    child = Child(folder, other, "base.begin_cut(); say(base.now_ns()); os.kill(os.getpid(), 9)")
    frozen = int(child.hear())
    child.end(-9)
    assert opened.now_ns() >= frozen
    opened.begin_cut()
    opened.end_cut()
    theirs, mine = entries(folder)
    assert theirs[2] == theirs[3] == frozen and theirs[1] <= mine[0]
    assert header(folder)["open_begin"] == 0


def test_one_that_was_killed_alone_lets_go(backend: str, folder: Path, other: str) -> None:
    child = Child(folder, other, 'base.begin_cut(); say("in"); os.kill(os.getpid(), 9)')
    assert child.hear() == "in"
    child.end(-9)
    base = cuts.open_base(_backend(backend), str(folder))
    assert base is not None
    assert len(entries(folder)) == 1 and header(folder)["open_begin"] == 0
    base.advance(3)
    assert base.alone()
    base.close()


def test_a_writer_that_was_killed_in_a_change(backend: str, folder: Path) -> None:
    with (folder / cuts.FILE).open("r+b") as file:
        file.seek(L.CUTS_OFFSET["sequence"])
        file.write(struct.pack("<Q", 7))
    base = cuts.open_base(_backend(backend), str(folder))
    assert base is not None and base.now_ns() > 0 and header(folder)["sequence"] % 2 == 0
    base.close()


def test_a_fork_child_has_a_time_of_its_own(backend: str, folder: Path, tmp_path: Path) -> None:
    code = """
base.advance(10**9)
child = os.fork()
if not child:
    assert not base.alone()
    base.begin_cut(); base.end_cut()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
base.begin_cut(); base.end_cut()
say(base.alone())
"""
    child = Child(folder, backend, code)
    assert child.hear() == "True"
    child.end()
    assert len(entries(folder)) == 3 and header(folder)["processes"] == 2
    model = tmp_path / "model"
    model.mkdir()
    cuts.create(str(model), "model")
    code = """
base.advance(100)
child = os.fork()
if not child:
    assert base.now_ns() == 0
    base.advance(3)
    os._exit(base.now_ns())
assert os.waitpid(child, 0)[1] >> 8 == 3
say(base.now_ns())
"""
    child = Child(model, backend, code)
    assert child.hear() == "100"
    child.end()


def test_processor_time_of_others_within_a_cut_is_counted(opened: Any, folder: Path, other: str) -> None:
    child = Child(folder, other, 'say("x")\nwhile time.process_time() < 600: pass')
    assert child.hear() == "x"
    try:
        deadline = time.monotonic() + 60
        while not header(folder)["hidden_ns"]:
            assert time.monotonic() < deadline
            opened.begin_cut()
            time.sleep(0.02)
            opened.end_cut()
    finally:
        child.process.kill()
        child.end(-9)


def test_both_back_ends_write_one_file(folder: Path) -> None:
    if reason := extension_missing():
        pytest.skip(reason)
    code = 'say("x"); sys.stdin.readline()\nfor _ in range(2000): base.begin_cut(); base.end_cut()'
    children = [Child(folder, name, code) for name in ("c", "twin", "c")]
    for child in children:
        assert child.hear() == "x"
    for child in children:
        child.tell()
    for child in children:
        child.end()
    found = entries(folder)
    assert len(found) == 6000
    assert all(one[1] <= two[0] and one[3] <= two[2] for one, two in itertools.pairwise(found))
    assert header(folder)["simulator_ns"] == sum(e[1] - e[0] for e in found)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["cut", "jump", "nest"]), max_size=12), st.sampled_from(["c", "twin"]))
def test_now_never_goes_back_and_entries_tell_it(steps: list[str], name: str) -> None:
    import tempfile

    if name == "c" and extension_missing():
        name = "twin"
    with tempfile.TemporaryDirectory() as place:
        cuts.create(place, "virtual")
        base = cuts.open_base(_backend(name), place)
        assert base is not None
        shift, last = 0, base.now_ns()
        for step in steps:
            if step == "jump":
                base.advance(1000)
            else:
                base.begin_cut()
                if step == "nest":
                    base.begin_cut()
                    base.end_cut()
                base.end_cut()
            now = base.now_ns()
            assert now >= last
            last = now
        for begin, end, session_begin, session_end, _ in entries(Path(place)):
            assert session_begin == begin + shift
            shift = session_end - end
        low = time.monotonic_ns() + shift
        assert low <= base.now_ns() <= time.monotonic_ns() + shift
        base.close()
