"""Stacks as they are: every kind of frame, on every Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from topsprof.capture.sampling import dumping

READY = "import sys\ndef block():\n    print('ready')\n    sys.stdin.readline()  # blocks\n"


def stacks(pid: int) -> dict[str, list[tuple[str, int]]]:
    """Name of a thread -> its frames, innermost first, once they wait."""
    found = dumping.take(pid)
    while any(thread.system_call not in ("read", "futex", "clock_nanosleep") for thread in found.threads):
        found = dumping.take(pid)
    return {thread.name: [(frame.name, frame.line) for frame in thread.frames] for thread in found.threads}


@pytest.mark.smoke
def test_functions(start: Any) -> None:
    program = start(
        READY
        + """
def middle(n):
    if n:
        return middle(n - 1)  # deeper
    block()  # innermost

middle(3)  # outermost
"""
    )
    deeper = [("middle", program.line_of("# deeper"))]
    assert stacks(program.pid) == {
        "MainThread": [
            ("block", program.line_of("# blocks")),
            ("middle", program.line_of("# innermost")),
            *(deeper * 3),
            ("<module>", program.line_of("# outermost")),
        ]
    }


KINDS = {
    "generator": (
        """
def inner():
    yield 1
    block()
    yield 2

def outer():
    yield from inner()

class Holder:
    def method(self):
        return list(outer())

Holder().method()
""",
        ["block", "inner", "outer", "Holder.method", "<module>"],
    ),
    "coroutine": (
        """
async def inner():
    block()

async def outer():
    await inner()

outer().send(None)
""",
        ["block", "inner", "outer", "<module>"],
    ),
    "async generator": (
        """
async def numbers():
    yield 1
    block()

async def outer():
    async for _ in numbers():
        pass

outer().send(None)
""",
        ["block", "numbers", "outer", "<module>"],
    ),
    "called by C": (
        """
def key(value):
    block()

sorted([1], key=key)
""",
        ["block", "key", "<module>"],
    ),
    "handling an exception": (
        """
def fails():
    try:
        1 / 0
    except ZeroDivisionError:
        try:
            raise ValueError("again")
        except ValueError:
            block()
        finally:
            pass

fails()
""",
        ["block", "fails", "<module>"],
    ),
    "a class that is made often": (
        """
class Thing:
    def __init__(self, wait):
        if wait:
            block()

def make(wait):
    return Thing(wait)

for _ in range(5000):
    make(False)
make(True)
""",
        ["block", "Thing.__init__", "make", "<module>"],
    ),
    "with and property": (
        """
class Thing:
    def __enter__(self):
        return self.value

    def __exit__(self, *error):
        pass

    @property
    def value(self):
        block()

with Thing():
    pass
""",
        ["block", "Thing.value", "Thing.__enter__", "<module>"],
    ),
    "lambda and closure": (
        """
def outer():
    hidden = 1
    def inner():
        return (lambda: block() or hidden)()
    return inner

outer()()
""",
        ["block", "outer.<locals>.inner.<locals>.<lambda>", "outer.<locals>.inner", "<module>"],
    ),
    "names that are no ASCII": (
        """
def größe():
    block()

def 名前():
    größe()

名前()
""",
        ["block", "größe", "名前", "<module>"],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_frames(kind: str, start: Any) -> None:
    source, names = KINDS[kind]
    program = start(READY + source)
    assert [name for name, _ in stacks(program.pid)["MainThread"]] == names


def test_threads_have_their_names(start: Any) -> None:
    program = start(
        """
        import sys, threading
        begun = threading.Barrier(6)
        def work(n):
            begun.wait()
            threading.Event().wait()
        for n in range(5):
            threading.Thread(target=work, args=(n,), name=f"worker {n}", daemon=True).start()
        begun.wait()
        print("ready")
        sys.stdin.readline()
        """
    )
    found = stacks(program.pid)
    assert set(found) == {"MainThread", *(f"worker {n}" for n in range(5))}
    assert all(any(name == "work" for name, _ in found[f"worker {n}"]) for n in range(5))


def test_deep_recursion(start: Any, sampled: Any) -> None:
    program = start(
        READY
        + """
def down(n):
    if n:
        down(n - 1)
    else:
        block()

sys.setrecursionlimit(200000)
down(100000)
"""
    )
    thread = dumping.take(program.pid).threads[0]
    assert thread.cut and len(thread.frames) == 100_000
    assert {frame.name for frame in thread.frames[1:]} == {"down"}
    samples, loop = sampled(program.pid, depth=100)
    loop.run(0.05)
    row = samples.take()[0]
    assert len(row["frames"]) == 101 and row["frames"][-1] == ("<cut>", 0) and row["frames"][0][0] == "block"
    assert samples.sampler.counts()["cut"] >= 1


def test_recursion_that_is_not_cut(start: Any) -> None:
    program = start(
        READY
        + "def down(n):\n    down(n - 1) if n else block()\n\n\nsys.setrecursionlimit(9999)\ndown(5000)\n"
    )
    thread = dumping.take(program.pid).threads[0]
    assert not thread.cut and len(thread.frames) == 5003 and thread.frames[-1].name == "<module>"


def test_subinterpreters(start: Any, python: str) -> None:
    program = start(
        """
        import os, sys, threading
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        end, begin = os.pipe()
        begun_end, begun = os.pipe()
        code = (
            "import os\\n"
            "def inside():\\n"
            f"    os.write({begun}, b'x')\\n"
            f"    os.read({end}, 1)\\n"
            "inside()\\n"
        )
        other = interpreters.create()
        run = getattr(interpreters, "run_string", None) or interpreters.exec
        thread = threading.Thread(target=run, args=(other, code), daemon=True)
        thread.start()
        os.read(begun_end, 1)
        print("ready")
        sys.stdin.readline()
        """
    )
    threads = dumping.take(program.pid).threads
    inside = [thread for thread in threads if any(frame.name == "inside" for frame in thread.frames)]
    assert [thread.interpreter for thread in inside] == [1]
    assert {thread.interpreter for thread in threads} == {0, 1}


def test_functions_that_come_and_go_keep_their_names(start: Any, sampled: Any) -> None:
    """Functions are made, run and freed all the time, so their code objects use the same addresses again."""
    program = start(
        """
        import gc, itertools, threading
        def churn():
            for n in itertools.count():
                namespace = {}
                at = n % 50
                exec("\\n" * at + f"def made_{n:08d}_{at:02d}():\\n return sum(range(200))\\n", namespace)
                function = namespace.popitem()[1]
                for _ in range(n % 7 * 20):
                    function()
                del function, namespace
                if n % 100 == 0:
                    gc.collect()
        threading.Thread(target=churn, daemon=True).start()
        print("ready")
        churn()
        """
    )
    samples, loop = sampled(program.pid, 4000)
    made = re.compile(r"made_\d{8}_(\d\d)")
    known = {"churn", "<module>", "Thread.run", "Thread._bootstrap_inner", "Thread._bootstrap"}
    while sum(1 for code in samples.codes if made.fullmatch(code.name)) < 200:
        loop.run(0.2)
        samples.take()
    for code in samples.codes:
        match = made.fullmatch(code.name)
        assert match or code.name in known, code
        if match:
            assert code.first_line == int(match[1]) + 1 and code.file == "<string>"
    for row in samples.rows:
        for name, line in row["frames"]:
            match = made.fullmatch(name)
            if match:
                assert line in (int(match[1]) + 1, int(match[1]) + 2)
    counts = samples.sampler.counts()
    assert counts["unresolved"] < counts["samples"] / 20
    assert counts["codes_replaced"] > 0


def test_frames_in_many_chunks_and_generators(start: Any) -> None:
    program = start(
        READY
        + """
def down(n):
    yield 0
    if n:
        yield from helper(n - 1)
    else:
        block()

def helper(n):
    big = [[]] * 3
    return list(down(n))

list(down(300))
"""
    )
    names = [name for name, _ in stacks(program.pid)["MainThread"]]
    assert names == ["block", "down", *(["helper", "down"] * 300), "<module>"]


def test_lines_match_those_of_the_traceback(start: Callable[..., Any]) -> None:
    """What the program says of itself, in a function whose lines are far apart and go backwards."""
    program = start(
        READY
        + """
import traceback

def report():
    print(" ".join(f"{frame.name}:{frame.lineno}" for frame in traceback.extract_stack()[::-1][1:]))
    block()

def wide(n):
    values = [
        n,
"""
        + "        0,\n" * 300
        + """
        (report(),
         n),
    ]
    return values

def loop():
    for _ in range(1):
        while True:
            wide(
                1
            )

loop()
""",
        wait=False,
    )
    expected = program.read()
    assert program.read() == "ready"
    found = stacks(program.pid)["MainThread"][2:]
    assert " ".join(f"{name}:{line}" for name, line in found) == expected
