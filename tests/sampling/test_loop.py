"""The loop: rates, weights, threads that come and go, processes that end or become others."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from itertools import pairwise
from typing import Any

import pytest
from topsprof.capture.sampling.sampler import UNRESOLVED, Sampler, SamplingLoop
from topsprof.capture.sampling.target import NotPythonError

SPIN = "print('ready')\nwhile True:\n    pass\n"
IDLE = """
import sys, threading
stop = threading.Event()
count = int(sys.argv[1])
begun = threading.Semaphore(0)
def idle():
    begun.release()
    stop.wait()
threading.stack_size(65536)
for _ in range(count):
    threading.Thread(target=idle, daemon=True).start()
for _ in range(count):
    begun.acquire()
print("ready")
"""


def test_weights_tell_all_of_the_time(start: Any, sampled: Any) -> None:
    """The rows of a thread follow each other without a gap, also where it was not looked at in each tick."""
    program = start(IDLE + "while True:\n    stop.wait(0.002)\n", "40")
    samples, loop = sampled(program.pid)
    for _ in range(6):
        loop.run(0.1)
        samples.take()
    of_thread: dict[int, list[dict[str, Any]]] = {}
    for row in samples.rows:
        of_thread.setdefault(row["tid"], []).append(row)
    assert len(of_thread) == 41
    for rows in of_thread.values():
        for before, after in pairwise(rows):
            assert after["time_ns"] - after["weight_ns"] == before["time_ns"]
        assert all(0 < row["weight_ns"] <= 200_000_000 for row in rows)


def test_idle_threads_are_not_walked_in_every_tick(start: Any, sampled: Any) -> None:
    program = start(IDLE + "while True:\n    pass\n", "500")
    samples, loop = sampled(program.pid)
    while loop.counts()["ticks"] < 100:
        loop.run(0.1)
    before, ticks = samples.sampler.counts(), loop.counts()["ticks"]
    while loop.counts()["ticks"] < ticks + 200:
        loop.run(0.1)
    after, ticks = samples.sampler.counts(), loop.counts()["ticks"] - ticks
    assert after["threads"] == 501
    assert (after["samples"] - before["samples"]) / ticks < 120
    assert (after["frames"] - before["frames"]) / ticks < 40
    samples.take()
    assert len({row["tid"] for row in samples.rows}) == 501
    assert {row["frames"][-1][0] for row in samples.rows} <= {"<module>", "Thread._bootstrap"}


def test_threads_that_come_and_go(start: Any, sampled: Any) -> None:
    program = start(
        """
        import threading
        def short(n):
            sum(range(3000))
        print("ready")
        while True:
            some = [threading.Thread(target=short, args=(n,)) for n in range(5)]
            for thread in some:
                thread.start()
            for thread in some:
                thread.join()
        """
    )
    samples, loop = sampled(program.pid)
    while samples.sampler.counts()["ended"] < 30 or loop.counts()["ticks"] < 500:
        assert loop.run(0.1) == []
        samples.take()
    names = {name for row in samples.rows for name, _ in row["frames"]}
    assert "short" in names and "<module>" in names
    unresolved = sum(row["stack"] == UNRESOLVED for row in samples.rows)
    assert unresolved < len(samples.rows) / 20
    assert samples.sampler.counts()["threads"] < 20


def test_a_process_that_ends(start: Any, sampled: Any) -> None:
    program = start("print('ready')\ninput()\n")
    samples, loop = sampled(program.pid)
    loop.run(0.05)
    program.tell()
    ended: list[Sampler] = []
    while not ended:
        ended = loop.run(1)
    assert ended == [samples.sampler] and ended[0].end == "exited"
    assert samples.take() and samples.sampler.batch().codes == []
    assert loop.counts()["processes"] == 0 and samples.sampler.tasks() == []


def test_a_process_that_is_killed_in_the_middle(start: Any, sampled: Any) -> None:
    program = start(IDLE + "while True:\n    pass\n", "20")
    samples, loop = sampled(program.pid, 5000)
    threading.Timer(0.05, program.process.send_signal, [signal.SIGKILL]).start()
    ended: list[Sampler] = []
    while not ended:
        ended = loop.run(1)
    assert ended[0].end == "exited" and samples.take()


def test_a_process_that_executes_another_program(start: Any, sampled: Any) -> None:
    program = start("import os, sys\nprint('ready')\ninput()\nos.execv('/bin/sleep', ['sleep', '1000'])\n")
    _, loop = sampled(program.pid)
    loop.run(0.05)
    program.tell()
    ended: list[Sampler] = []
    while not ended:
        ended = loop.run(1)
    assert ended[0].end == "executed"
    with pytest.raises(NotPythonError, match="is no Python"):
        Sampler(program.pid)


def test_a_process_that_executes_itself(start: Any, sampled: Any) -> None:
    again = "import os, sys\nif len(sys.argv) > 1:\n    print('again')\n    input()\n"
    program = start(
        again
        + "print('ready')\ninput()\nos.execv(sys.executable, [sys.executable, '-u', __file__, 'again'])\n"
    )
    _, loop = sampled(program.pid)
    loop.run(0.05)
    program.tell()
    ended: list[Sampler] = []
    while not ended:
        ended = loop.run(1)
    assert ended[0].end == "executed"
    assert program.read() == "again"
    other, loop = sampled(program.pid)
    loop.run(0.05)
    assert other.take()


def test_one_loop_serves_many_processes(start: Any) -> None:
    programs = [start(SPIN) for _ in range(4)]
    loop = SamplingLoop(500)
    samplers = [Sampler(program.pid) for program in programs]
    for sampler in samplers:
        loop.add(sampler)
    loop.run(0.3)
    ticks = loop.counts()["ticks"]
    assert [sampler.counts()["ticks"] for sampler in samplers] == [ticks] * 4
    loop.remove(samplers[0])
    loop.run(0.1)
    assert samplers[0].counts()["ticks"] == ticks < samplers[1].counts()["ticks"]
    assert all(len(sampler.batch()) for sampler in samplers)
    with pytest.raises(ValueError):
        loop.remove(samplers[0])


def test_batches_from_another_thread(start: Any, sampled: Any) -> None:
    program = start(SPIN)
    samples, loop = sampled(program.pid)
    thread = threading.Thread(target=loop.run, args=(100,))
    thread.start()
    while len(samples.rows) < 100:
        samples.take()
    loop.stop()
    thread.join()
    samples.take()
    assert len(samples.rows) >= samples.sampler.counts()["samples"]  # where ticks were late, two for one


def test_a_loop_of_nothing_waits_out_its_time() -> None:
    loop = SamplingLoop(1000)
    assert loop.run(0.01) == [] and loop.counts()["ticks"] > 0
    with pytest.raises(ValueError, match="20 kHz"):
        SamplingLoop(1e6)


def test_the_program_is_not_changed(start: Any, sampled: Any) -> None:
    """No thread, no module, no signal: what it says of itself is the same while it is sampled."""
    source = """
        import os, signal, sys, threading
        def state():
            told = ("SigPnd", "SigBlk", "SigIgn", "SigCgt", "Tracer", "Threads")
            caught = [line for line in open("/proc/self/status") if line.startswith(told)]
            return len(sys.modules), threading.active_count(), caught
        before = state()
        print("ready")
        input()
        print(state() == before)
        """
    program = start(source)
    samples, loop = sampled(program.pid)
    loop.run(0.1)
    thread = threading.Thread(target=loop.run, args=(100,))
    thread.start()
    program.tell()
    answer = program.read()
    loop.stop()
    thread.join()
    assert answer == "True" and samples.take()


def test_interrupts_reach_the_caller(start: Any) -> None:
    program = start(SPIN)
    code = (
        "import sys, os, threading, signal\n"
        "from topsprof.capture.sampling.sampler import Sampler, SamplingLoop\n"
        f"loop = SamplingLoop(100); loop.add(Sampler({program.pid}))\n"
        "print('sampling', flush=True)\n"
        "try:\n    loop.run(1000)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "sampling\n"
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    assert "interrupted" in process.stdout.read() or process.returncode in (-signal.SIGINT, 1)
