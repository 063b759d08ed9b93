"""Processes: fork, spawn, exec and subprocess, each under its own names file, with parent and exit status."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest


def exit_of(program: Any, process: Any, status: int) -> None:
    """The exit status is recorded; the twin may see only that of `os._exit`."""
    known = (process.header["exit_known"], process.header["exit_status"])
    assert known == (1, status) or (program.backend == "twin" and known == (0, 0))


FORK = """
    import os, sys, threading, topstx
    topstx.push_range("parent's")
    handle = topstx.start_range("parent's too")
    kept = topstx.annotate("parent's block"); kept.__enter__()
    topstx.mark("before")
    pids = []
    for n in range(int(sys.argv[1])):
        pid = os.fork()
        if not pid:
            topstx.pop_range()                                  # nothing of the child's
            topstx.end_range(handle)
            kept.__exit__(None, None, None)
            topstx.mark("before")                               # a name of the parent's
            with topstx.annotate(f"child {n}"): topstx.mark("in child")
            if n % 2: os._exit(n)
            sys.exit(n)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == list(range(len(pids))), codes
    kept.__exit__(None, None, None)
    topstx.end_range(handle)
    topstx.pop_range()
    print(os.getpid())
"""


@pytest.mark.smoke
def test_fork(program: Any) -> None:
    recording = program(FORK, "6")
    parent = recording.by_pid(int(program.stdout))
    assert parent.names() == ["parent's block", "parent's too", "parent's"] and not parent.open
    children = [p for p in recording.processes if p is not parent]
    assert len(children) == 6
    for child in children:
        assert child.header["parent_serial"] == parent.header["process_serial"]
        assert child.header["parent_pid"] == parent.pid
        (name,) = child.names()
        assert child.names(2) == ["before", "in child"] and not child.open
        exit_of(program, child, int(name.split()[1]))
        assert child.unbalanced >= 1
        assert all(r.tid == child.pid for r in child.records)
    assert len({p.header["process_serial"] for p in recording.processes}) == 7


def test_ends_of_ranges_that_the_parent_started_are_not_counted(program: Any) -> None:
    recording = program("""
        import os, topstx
        handles = [topstx.start_range(f"parent {n}") for n in range(3)]
        pid = os.fork()
        if not pid:
            topstx.end_range(topstx.start_range("child"))    # there is a ring for such ranges
            for handle in handles: topstx.end_range(handle)   # not this process's
            own = topstx.start_range("own")
            topstx.end_range(own); topstx.end_range(own)      # this counts
            os._exit(0)
        os.waitpid(pid, 0)
        for handle in handles: topstx.end_range(handle)
        print(os.getpid())
    """)
    parent = recording.by_pid(int(program.stdout))
    (child,) = [process for process in recording.processes if process is not parent]
    assert parent.names() == [f"parent {n}" for n in range(3)] and parent.unbalanced == 0
    assert child.names() == ["child", "own"] and child.unbalanced == 1


def test_a_storm_of_forks(program: Any) -> None:
    """64 children at once, each annotated: all there, none twice."""
    recording = program("""
        import os, topstx
        pids = []
        for n in range(64):
            pid = os.fork()
            if not pid:
                for i in range(50):
                    with topstx.annotate(f"child {n}", payload=i): pass
                os._exit(0)
            pids.append(pid)
        for pid in pids: os.waitpid(pid, 0)
    """)
    found = sorted((r.name, r.payload) for r in recording.records)
    assert found == sorted((f"child {n}", i) for n in range(64) for i in range(50))
    assert len(recording.processes) == 65


def test_fork_in_a_thread_while_others_record(program: Any) -> None:
    recording = program("""
        import os, threading, topstx
        stop = False
        def busy():
            while not stop:
                with topstx.annotate("busy"): topstx.end_range(topstx.start_range("shared"))
        def forks():
            for n in range(12):
                pid = os.fork()
                if not pid:
                    with topstx.annotate("child"): topstx.end_range(topstx.start_range("child's shared"))
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for t in threads: t.start()
        worker = threading.Thread(target=forks); worker.start(); worker.join()
        stop = True
        for t in threads: t.join()
    """, policy=1, ring_max_records=1024)  # fmt: skip
    children = [p for p in recording.processes if p.header["parent_serial"]]
    assert len(children) == 12
    assert all(sorted(p.names()) == ["child", "child's shared"] for p in children)


def test_a_fork_child_that_forks(program: Any) -> None:
    recording = program("""
        import os, topstx
        topstx.mark("one")
        if not os.fork():
            topstx.mark("two")
            if not os.fork():
                for name in ("one", "two", "three"): topstx.mark(name)
                os._exit(0)
            os.wait(); os._exit(0)
        os.wait()
    """)
    assert sorted(tuple(p.names(2)) for p in recording.processes) == [
        ("one",),
        ("one", "two", "three"),
        ("two",),
    ]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(program: Any, tmp_path: Any, method: str) -> None:
    (tmp_path / "main.py").write_text(f"""
import multiprocessing, sys, topstx

def work(n):
    with topstx.annotate("work", payload=n): pass
    sys.exit(n)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    processes = [context.Process(target=work, args=(n,)) for n in range(3)]
    for p in processes: p.start()
    for p in processes: p.join()
    assert [p.exitcode for p in processes] == [0, 1, 2]
""")
    recording = program(
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
        str(tmp_path / "main.py"),
    )
    workers = [p for p in recording.processes if "work" in p.names()]
    assert sorted(p.records[0].payload for p in workers) == [0, 1, 2]
    for worker in workers:
        exit_of(program, worker, worker.records[0].payload)
    assert len({p.pid for p in workers}) == 3


def test_subprocess_and_exec(program: Any) -> None:
    recording = program("""
        import os, subprocess, sys, topstx
        subprocess.run([sys.executable, "-c", "import topstx, sys; topstx.mark('sub'); sys.exit(9)"])
        try: os.execv("/no/such/program", ["x"])
        except OSError: topstx.mark("failed exec")
        topstx.push_range("until exec")
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-c", "import topstx; topstx.mark('after exec')"])
    """)
    first = next(p for p in recording.processes if "failed exec" in p.names(2))
    after = next(p for p in recording.processes if "after exec" in p.names(2))
    sub = next(p for p in recording.processes if "sub" in p.names(2))
    assert first.header["exit_known"] == 2 and [r.name for r in first.open] == ["until exec"]
    assert after.pid == first.pid and after.header["proc_start"] == first.header["proc_start"] != 0
    assert after.header["process_serial"] != first.header["process_serial"]
    assert sub.header["parent_pid"] == first.pid
    exit_of(program, sub, 9)
    assert json.loads(sub.info["argv"])[1:] == ["-c", "import topstx, sys; topstx.mark('sub'); sys.exit(9)"]


@pytest.mark.parametrize(
    ("how", "status"),
    [("pass", 0), ("raise SystemExit(3)", 3), ("raise ValueError", 1), ("import os; os._exit(5)", 5)],
)
def test_exit_status(program: Any, how: str, status: int) -> None:
    process = program(f"import topstx; topstx.mark('m')\n{how}", expect=status).only
    exit_of(program, process, status)
    if program.backend == "c" or how == "import os; os._exit(5)":
        assert process.header["exit_status"] == status
    if program.backend == "c":
        assert process.header["end_tick"] > process.header["start_tick"]
    assert process.info["python"] and process.info["cwd"] and process.info["executable"]


def test_annotations_at_exit_are_recorded(program: Any) -> None:
    process = program("""
        import atexit, topstx
        atexit.register(lambda: topstx.mark("atexit"))
        class Last:
            def __del__(self, mark=topstx.mark): mark("finalizer")
        last = Last()
        def never(): yield topstx.annotate("generator").__enter__()
        g = never(); next(g)
    """).only
    assert "atexit" in process.names(2)
    if program.backend == "c":  # the twin leaves in order at exit, before the interpreter's last finalizers
        assert "finalizer" in process.names(2)


def test_daemon_threads_at_exit(program: Any) -> None:
    for _ in range(3):
        program("""
            import threading, time, topstx
            def busy():
                while True:
                    with topstx.annotate("busy"): topstx.mark("m")
            for _ in range(3): threading.Thread(target=busy, daemon=True).start()
            time.sleep(0.02)
        """, policy=1, ring_max_records=1024)  # fmt: skip
    assert len(program.read().processes) == 3


@pytest.mark.parametrize("owner", [65534, 0])
def test_a_session_of_another_user_is_left_alone(program: Any, owner: int) -> None:
    """Its collector could not read our rings: they would fill, and we would wait for ever (under sudo)."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give the session to another user")
    os.chown(program.create() / "control", owner, -1)
    recording = program("import topstx; topstx.mark('x'); print(topstx.is_recording())")
    assert program.stdout == f"{owner == 0}\n"
    assert len(recording.processes) == (owner == 0)
    assert program.reader.get_control(program.folder)["lost_processes"] == (owner != 0)
