"""Programs of many processes and threads, recorded whole; live reading, capture ranges, policies, a
collector that stands still.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from typing import Any

import pytest
from topstx.recorder import layout

from tops_kit.collect import control
from tops_kit.session import Session


def rows_of(session: Session, table: str = "tx") -> list[dict[str, Any]]:
    return session.table(table).to_pylist()


def names_by_process(session: Session) -> Counter[tuple[int, str]]:
    return Counter((row["process_id"], row["name"]) for row in rows_of(session))


def test_a_storm_of_64_forked_children_is_all_there_and_none_twice(recorded: Any) -> None:
    recorded.start()
    source = """
        topstx.push_range("parent")
        children = []
        for n in range(64):
            pid = os.fork()
            if pid == 0:
                for i in range(200):
                    topstx.push_range("child", payload=n * 1000 + i)
                    topstx.pop_range()
                topstx.mark(f"child {n} done")
                os._exit(n % 100)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
        topstx.pop_range()
    """
    program = recorded.run(source)
    session = recorded.stop()
    assert session.ledger.total("dropped") == 0
    tx = rows_of(session)
    payloads = sorted(int(row["payload"]) for row in tx if row["name"] == "child")
    assert payloads == sorted(n * 1000 + i for n in range(64) for i in range(200))
    assert sorted(row["name"] for row in tx if row["style"] == "Mark") == sorted(
        f"child {n} done" for n in range(64)
    )
    assert [(row["process_id"], row["unfinished"]) for row in tx if row["name"] == "parent"] == [
        (program.pid, False)
    ]
    owners = {row["process_id"] for row in tx if row["name"] == "child"}
    assert len(owners) == 64
    processes = {row["process_id"]: row for row in rows_of(session, "process")}
    assert {processes[owner]["parent_id"] for owner in owners} == {program.pid}
    assert Counter(processes[owner]["exit_status"] for owner in owners) == Counter(n % 100 for n in range(64))


def test_threads_are_told_apart_and_many_short_ones_lose_nothing(recorded: Any) -> None:
    recorded.start()
    source = """
        def work(n):
            for i in range(5):
                topstx.push_range(f"thread {n % 7}"); topstx.pop_range()
        for first in range(0, 300, 50):
            threads = [threading.Thread(target=work, args=(n,)) for n in range(first, first + 50)]
            [t.start() for t in threads]; [t.join() for t in threads]
        topstx.set_thread_name("the first")
        topstx.push_range("main"); topstx.pop_range()
    """
    program = recorded.run(source)
    session = recorded.stop()
    tx = rows_of(session)
    assert sum(row["name"].startswith("thread") for row in tx) == 1500
    assert session.ledger.total("dropped") == 0
    main = next(row for row in tx if row["name"] == "main")
    assert main["thread_id"] == program.pid
    threads = {row["thread_id"]: row for row in rows_of(session, "thread")}
    assert threads[program.pid]["name"] == "the first"
    assert {row["thread_id"] for row in tx} <= set(threads)


def test_spawn_subprocess_and_exec_are_processes_of_the_session(recorded: Any, tmp_path: Any) -> None:
    recorded.start()
    module = tmp_path / "spawned_job.py"
    module.write_text("import topstx\ndef job(n):\n    with topstx.annotate('spawned'):\n        return n\n")
    source = """
        import multiprocessing, subprocess, spawned_job
        topstx.mark("first image")
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            assert pool.map(spawned_job.job, range(8)) == list(range(8))
            pool.close(); pool.join()
        subprocess.run([sys.executable, "-c", "import topstx; topstx.mark('sub')"], check=True)
        topstx.push_range("left by exec")
        os.execv(sys.executable, [sys.executable, "-c", "import topstx; topstx.mark('second image')"])
    """
    program = recorded.run(source, PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    assert program.returncode == 0
    session = recorded.stop()
    counts = Counter(row["name"] for row in rows_of(session))
    assert counts["spawned"] == 8
    assert (counts["sub"], counts["first image"], counts["second image"]) == (1, 1, 1)
    processes = {row["process_id"]: row for row in rows_of(session, "process")}
    same_pid = [row for row in processes.values() if row["pid"] == program.pid]
    assert sorted(row["ended_by"] for row in same_pid) == ["exec", "exit"]
    left = next(row for row in rows_of(session) if row["name"] == "left by exec")
    assert left["unfinished"]
    assert processes[left["process_id"]]["ended_by"] == "exec"
    owner = {row["name"]: processes[row["process_id"]] for row in rows_of(session)}
    assert owner["sub"]["parent_id"] == owner["first image"]["process_id"]
    assert "second image" in owner["second image"]["command"]


def test_the_session_can_be_read_while_it_grows(recorded: Any) -> None:
    recorded.start()
    program = recorded.program(
        """
        i = 0
        while not told() < 0:
            topstx.push_range("step"); topstx.pop_range()
            i += 1
            time.sleep(0.001)
        """
    )

    def rows() -> int:
        return Session.open(recorded.folder).tables().get("tx", 0)

    first = recorded.wait_for(rows, "rows of a live session")
    recorded.wait_for(lambda: rows() > first, "more rows")
    session = Session.open(recorded.folder)
    assert session.live
    assert session.info["status"] == "recording"
    assert [row["pid"] for row in rows_of(session, "process")] == [program.pid]
    import struct

    struct.pack_into("<q", recorded._progress, 0, -1)
    program.wait(30)
    assert recorded.stop().tables()["tx"] > first


def test_ranges_open_at_the_stop_are_unfinished_and_the_program_goes_on(recorded: Any) -> None:
    recorded.start()
    program = recorded.program(
        """
        topstx.push_range("outer", payload="p")
        handle = topstx.start_range("started")
        tell(1)
        sys.stdin.read()
        """
    )
    recorded.wait_for(lambda: recorded.progress() == 1, "open ranges")
    session = recorded.stop()
    rows = {row["name"]: row for row in rows_of(session)}
    assert set(rows) == {"outer", "started"}
    assert all(row["unfinished"] for row in rows.values())
    assert rows["outer"]["payload"] == '"p"'
    assert (rows["outer"]["style"], rows["started"]["style"]) == ("PushPop", "StartEnd")
    process = rows_of(session, "process")[0]
    assert (process["ended_by"], process["exit_status"]) == (None, None)
    assert program.pid == process["pid"]


@pytest.mark.parametrize(("end", "expected"), [(layout.CAPTURE_END_STOP, 1), (layout.CAPTURE_END_REPEAT, 3)])
def test_only_captured_ranges_are_recorded(recorded: Any, end: int, expected: int) -> None:
    recorded.folder.mkdir()
    control.create(
        recorded.folder,
        recording=layout.RECORDING_ARMED,
        capture_name="step",
        capture_end=end,
        capture_repeats=3,
    )
    recorded.start()
    recorded.run(
        """
        for i in range(10):
            topstx.push_range("before"); topstx.pop_range()
            topstx.push_range("step")
            topstx.push_range("within"); topstx.pop_range()
            topstx.pop_range()
        """
    )
    counts = Counter(row["name"] for row in rows_of(recorded.stop()))
    assert counts["step"] == counts["within"] == expected
    assert counts["before"] <= expected  # what lies between captured ranges is not


def test_policy_drop_counts_exactly_what_is_not_there(recorded: Any) -> None:
    recorded.folder.mkdir()
    control.create(recorded.folder, policy="drop", ring_max_records=2048)
    handle = recorded.start()
    os.kill(handle.process.pid, signal.SIGSTOP)  # nobody drains
    try:
        recorded.run("for i in range(20_000):\n    topstx.push_range('x', payload=i); topstx.pop_range()")
    finally:
        os.kill(handle.process.pid, signal.SIGCONT)
    session = recorded.stop()
    written = session.tables()["tx"]
    ledger = session.ledger
    assert 0 < written < 20_000
    assert written + ledger.total("dropped") == ledger.total("requested") == 20_000
    assert ledger.total("written") == written
    kept = [int(row["payload"]) for row in rows_of(session)]
    assert len(set(kept)) == len(kept)
    assert not ledger.clean


def test_policy_block_waits_for_the_collector_and_loses_nothing(recorded: Any) -> None:
    recorded.folder.mkdir()
    control.create(recorded.folder, policy="block", ring_max_records=2048)
    recorded.start()
    recorded.run("for i in range(60_000):\n    topstx.push_range('x'); topstx.pop_range()")
    session = recorded.stop()
    assert session.ledger.total("dropped") == 0
    assert sum(row["name"] == "x" for row in rows_of(session)) == 60_000


def test_a_collector_that_stands_still_holds_the_program_up_for_about_a_second_at_most(recorded: Any) -> None:
    recorded.folder.mkdir()
    control.create(recorded.folder, policy="block", ring_max_records=2048)
    handle = recorded.start()
    program = recorded.program(
        "tell(1)\nfor i in range(20_000):\n    topstx.push_range('x'); topstx.pop_range()\ntell(2)"
    )
    os.kill(handle.process.pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        program.wait(60)  # a program that waited for ever would end the test here
        assert time.monotonic() - begin < 30
    finally:
        os.kill(handle.process.pid, signal.SIGCONT)
    session = recorded.stop()
    assert session.tables().get("tx", 0) + session.ledger.total("dropped") == 20_000


def test_the_end_of_the_leash_ends_the_recording(recorded: Any) -> None:
    handle = recorded.start()
    recorded.run("topstx.mark('x')")
    handle.release()
    handle.wait()
    assert rows_of(Session.open(recorded.folder))[0]["name"] == "x"


def test_wait_all_outlives_the_leash_until_the_last_process_ends(recorded: Any) -> None:
    handle = recorded.start(wait="all")
    program = recorded.program(
        "topstx.mark('early'); tell(1)\nwhile told() != 2: time.sleep(0.01)\ntopstx.mark('late')"
    )
    recorded.wait_for(lambda: recorded.progress() == 1, "the first mark")
    handle.release()
    recorded.wait_for(lambda: Session.open(recorded.folder).tables().get("tx"), "the first flush")
    assert handle.process.poll() is None
    import struct

    struct.pack_into("<q", recorded._progress, 0, 2)
    program.wait(30)
    handle.wait()
    assert [row["name"] for row in rows_of(Session.open(recorded.folder))] == ["early", "late"]
