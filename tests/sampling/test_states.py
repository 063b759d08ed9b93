"""What threads do and wait for, told from outside."""

from __future__ import annotations

import os
from typing import Any

import pytest
from topsprof.capture.sampling import dumping

WAITS = {
    "sleep": ("import time\ndef wait():\n    time.sleep(1000)", "sleep", {"clock_nanosleep", "pselect6"}),
    "lock": (
        "import threading\nlock = threading.Lock()\nlock.acquire()\ndef wait():\n    lock.acquire()",
        "lock",
        {"futex"},
    ),
    "pipe": ("import os\nend, begin = os.pipe()\ndef wait():\n    os.read(end, 1)", "pipe", {"read"}),
    "socket": (
        "import socket\na, b = socket.socketpair()\ndef wait():\n    a.recv(1)",
        "socket",
        {"recvfrom", "read"},
    ),
    "poll": (
        "import os, select\nend, begin = os.pipe()\ndef wait():\n    select.select([end], [], [])",
        "poll",
        {"select", "pselect6", "poll"},
    ),
    "child": (
        "import os, signal\nend, begin = os.pipe()\ndef wait():\n"
        "    child = os.fork()\n    if child == 0:\n"
        "        os.close(begin)\n        os.read(end, 1)\n        os._exit(0)\n"
        "    os.waitpid(child, 0)",
        "child",
        {"wait4"},
    ),
    "signal": (
        "import signal\ndef wait():\n    signal.pause()",
        "signal",
        {"pause", "ppoll", "rt_sigsuspend"},
    ),
}


@pytest.mark.parametrize("kind", WAITS)
def test_waits(kind: str, start: Any, until: Any) -> None:
    source, wait, calls = WAITS[kind]
    program = start(f"{source}\nprint('ready')\nwait()\n")

    def waiting() -> dumping.DumpedThread | None:
        thread = dumping.take(program.pid).threads[0]
        return thread if thread.frames[0].name == "wait" and thread.wait == wait else None

    thread = until(waiting)
    assert thread.state == "blocked" and thread.system_call in calls
    assert thread.native.startswith("libc"), thread.native
    assert not thread.holds_gil


def test_who_waits_for_the_gil_and_who_has_it(start: Any, sampled: Any) -> None:
    program = start(
        """
        import threading
        def spin():
            while True:
                pass
        for n in range(2):
            threading.Thread(target=spin, daemon=True).start()
        print("ready")
        spin()
        """
    )
    samples, loop = sampled(program.pid)
    while sum(row["state"] == "gil" and row["holder"] > 0 for row in samples.rows) < 50:
        loop.run(0.2)
        samples.take()
    tids = {row["tid"] for row in samples.rows}
    assert len(tids) == 3
    for row in samples.rows:
        if row["state"] == "gil":
            assert row["wait"] == "gil" and row["holder"] in {0, *tids}
    # one of three runs at any time; waiting is most of what the others do
    running = sum(row["weight_ns"] for row in samples.rows if row["state"] == "running")
    total = sum(row["weight_ns"] for row in samples.rows)
    assert 0.15 < running / total < 0.6


def test_garbage_collection_is_marked(start: Any, sampled: Any) -> None:
    program = start(
        """
        import gc
        kept = [[] for _ in range(300000)]
        def collect():
            gc.collect()
        print("ready")
        while True:
            collect()
        """
    )
    from tops_kit.collect.chunk_format import GC

    samples, loop = sampled(program.pid)
    while len(samples.rows) < 200:
        loop.run(0.1)
        samples.take()
    marked = [row for row in samples.rows if row["flags"] & GC]
    assert len(marked) > len(samples.rows) / 2
    assert {row["frames"][0][0] for row in marked} <= {"collect", "<module>"}
    assert 0 < samples.sampler.counts()["gc"] <= len(marked)


def test_native_code_is_named_by_its_library(start: Any, sampled: Any) -> None:
    program = start(
        """
        import hashlib, threading
        def native():
            while True:
                hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 200000)
        threading.Thread(target=native, daemon=True).start()
        print("ready")
        native()
        """
    )
    samples, loop = sampled(program.pid)
    while len(samples.rows) < 300:
        loop.run(0.1)
        samples.take()
    counts = samples.sampler.counts()
    ran = [row for row in samples.rows if row["frames"] and row["frames"][0][0] == "native"]
    assert sum(row["state"] == "native" for row in ran) > len(ran) / 2
    if counts["perf_denied"]:
        assert counts["native_unnamed"] >= sum(row["state"] == "native" for row in ran)
    else:
        libraries = {row["place"].library.split(".")[0] for row in ran if row["place"]}
        assert libraries & {"libcrypto", "_hashlib"}, libraries
    # what ran natively is either named or counted
    for row in ran:
        assert row["native"] != 0 or row["state"] != "native"


def test_native_code_can_be_left_out(start: Any, sampled: Any) -> None:
    program = start("print('ready')\nwhile True:\n    sum(range(1000))\n")
    samples, loop = sampled(program.pid, native=False)
    loop.run(0.1)
    assert {row["native"] for row in samples.take()} == {0}


def test_stopped_programs(start: Any, until: Any) -> None:
    import signal

    program = start("print('ready')\nwhile True:\n    pass\n")
    os.kill(program.pid, signal.SIGSTOP)
    try:
        until(lambda: dumping.take(program.pid).threads[0].wait == "stopped")
    finally:
        os.kill(program.pid, signal.SIGCONT)
