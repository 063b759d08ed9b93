"""kill -9 of programs and of the collector: what was published is in the session, once."""

from __future__ import annotations

import random
import signal
from typing import Any

import numpy as np
import pytest

from tops_kit.session import Session

# Each pass is one range within another, published before `tell` says so. Ends by a kill.
ENDLESS = """
    i = 0
    topstx.push_range("whole life")
    while True:
        topstx.push_range("pass", payload=i)
        topstx.push_range("inner")
        topstx.pop_range()
        topstx.pop_range()
        i += 1
        tell(i)
"""


def passes(session: Session, pid: int | None = None) -> np.ndarray[Any, Any]:
    """Payloads of the finished passes of a process, in the order of the session."""
    table = session.table("tx", ["name", "payload", "process_id", "unfinished"]).to_pandas()
    mine = table[(table["name"] == "pass") & ~table["unfinished"]]
    if pid is not None:
        mine = mine[mine["process_id"] == pid]
    return np.sort(mine["payload"].astype(np.int64).to_numpy())


def check_program(session: Session, pid: int, told: int) -> None:
    """All that the program told of is there, without a hole and without a double."""
    numbers = passes(session, pid)
    assert len(numbers) >= told
    assert numbers.tolist() == list(range(len(numbers)))
    table = session.table("tx", ["name", "process_id", "unfinished", "duration_ns"]).to_pandas()
    mine = table[table["process_id"] == pid]
    assert abs((mine["name"] == "inner").sum() - len(numbers)) <= 1
    life = mine[mine["name"] == "whole life"]
    assert life["unfinished"].tolist() == [True]
    assert (life["duration_ns"] > 0).all()


@pytest.mark.slow
def test_twenty_random_kills_of_the_program_lose_nothing(recorded: Any) -> None:
    recorded.start()
    dice = random.Random(20)
    told = {}
    for slot in range(20):
        program = recorded.program(ENDLESS, slot=slot)
        enough = dice.randrange(1, 30_000)
        recorded.wait_for(lambda slot=slot, enough=enough: recorded.progress(slot) >= enough, "progress")
        program.kill()
        program.wait()
        told[program.pid] = recorded.progress(slot)
    session = recorded.stop()
    for pid, count in told.items():
        check_program(session, pid, count)
    rows = {row["pid"]: row for row in session.table("process").to_pylist()}
    # One that died before the collector first saw it left its status to nobody.
    assert {(rows[pid]["exit_status"], rows[pid]["ended_by"]) for pid in told} <= {
        (-signal.SIGKILL, "signal"),
        (None, "unknown"),
    }
    assert session.ledger.total("dropped") == 0


@pytest.mark.parametrize("how", ["kill both", "collector first", "program first"])
def test_a_killed_collector_loses_nothing_that_was_published(recorded: Any, how: str) -> None:
    recorded.start()
    program = recorded.program(ENDLESS)
    dice = random.Random(how)
    enough = dice.randrange(5_000, 60_000)
    recorded.wait_for(lambda: recorded.progress() >= enough, "progress")
    if how == "program first":
        program.kill()
        program.wait()
    recorded.kill_collector()
    if how == "collector first":
        # The program goes on; its rings take what they can.
        after = recorded.progress() + 50
        recorded.wait_for(lambda: recorded.progress() >= after, "progress after the collector's death")
    program.kill()
    program.wait()
    session = recorded.recover()
    numbers = passes(session)
    row = next(row for row in session.table("process").to_pylist() if row["pid"] == program.pid)
    dropped = session.ledger.total("dropped")
    if dropped == 0:
        check_program(session, program.pid, recorded.progress())
    else:
        # Nobody took records for a while: what was dropped was counted, what was kept is a run without a
        # double.
        assert len(np.unique(numbers)) == len(numbers)
        assert len(numbers) + dropped >= recorded.progress()
    assert row["ended_by"] in {"signal", "unknown"}
    assert session.info["status"] == "crashed"


@pytest.mark.slow
def test_random_kills_of_the_collector_while_it_writes(recorded: Any) -> None:
    """The collector dies in the middle of moving, flushing and retiring; each time the session is completed
    exactly.
    """
    dice = random.Random(7)
    base = recorded.folder
    for attempt in range(6):
        recorded.folder = base.with_name(f"run{attempt}.topsprof")
        recorded.environment["TOPSTX_SESSION"] = str(recorded.folder)
        recorded.start()
        count = dice.randrange(20_000, 120_000)
        program = recorded.program(
            f"""
            for i in range({count}):
                topstx.push_range("pass", payload=i)
                topstx.pop_range()
                tell(i + 1)
            os._exit(0)
            """,
            slot=attempt,
        )
        # Far enough into the run that flushes (one a second, or by size) and the end of the process come
        # close.
        until = dice.randrange(count // 2, count + 1)
        recorded.wait_for(
            lambda a=attempt, n=until, p=program: recorded.progress(a) >= n or p.poll() is not None,
            "progress",
        )
        recorded.kill_collector()
        program.wait(60)
        session = recorded.recover()
        numbers = passes(session)
        assert len(np.unique(numbers)) == len(numbers)
        assert len(numbers) + session.ledger.total("dropped") == count
        assert sum("it was killed" in line for line in session.ledger.lines()) == 1


def test_abort_and_fault_and_quick_exit_keep_everything(recorded: Any) -> None:
    recorded.start()
    ends = {
        "os.abort()": -signal.SIGABRT,
        "os.kill(os.getpid(), signal.SIGSEGV)": -signal.SIGSEGV,
        "os._exit(17)": 17,
        "sys.exit(5)": 5,
    }
    programs = {}
    for end, status in ends.items():
        source = f"""
            import signal, resource
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            topstx.push_range("open")
            for i in range(1000):
                topstx.push_range("pass", payload=i); topstx.pop_range()
            tell(1)
            while told() == 1: time.sleep(0.001)
            {end}
        """
        process = recorded.program(source)
        recorded.wait_for(lambda: recorded.progress() == 1, "the ranges")
        # how a process ended is known of one that the collector saw alive
        recorded.wait_for(lambda pid=process.pid: recorded.drained(pid), "the collector")
        recorded.answer(2)
        process.communicate(timeout=120)
        assert process.returncode == status
        programs[process.pid] = status
    session = recorded.stop()
    rows = {row["pid"]: row for row in session.table("process").to_pylist()}
    for pid, status in programs.items():
        assert passes(session, pid).tolist() == list(range(1000))
        assert rows[pid]["exit_status"] == status
        assert rows[pid]["ended_by"] == ("signal" if status < 0 else "exit")
