"""Greenlets: a sample has the stack of the one that runs, and of no other."""

from __future__ import annotations

from typing import Any

import pytest

PROGRAM = """
import greenlet

def burn_first(count):
    return sum(range(count))

def burn_second(count):
    return sum(range(count))

def first():
    while True:
        burn_first(20000)
        main.switch()

def second(depth=20):
    if depth:
        second(depth - 1)
    while True:
        burn_second(20000)
        main.switch()

main = greenlet.getcurrent()
both = greenlet.greenlet(first), greenlet.greenlet(second)
print("ready", flush=True)

def switches():
    while True:
        for one in both:
            one.switch()

switches()
"""


def test_the_stack_is_that_of_the_running_greenlet(start: Any, sampled: Any, until: Any, python: str) -> None:
    import subprocess

    if subprocess.run([python, "-I", "-c", "import greenlet"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no greenlet")
    program = start(PROGRAM)
    samples, loop = sampled(program.pid)

    def seen(name: str) -> list[list[str]]:
        stacks = [[function for function, _ in row["frames"]] for row in samples.rows]
        return [stack for stack in stacks if name in stack]

    def look() -> bool:
        loop.run(0.1)
        samples.take()
        return len(seen("burn_first")) > 50 and len(seen("burn_second")) > 50

    until(look)
    assert {tuple(stack) for stack in seen("burn_first")} == {("burn_first", "first")}
    assert {tuple(stack) for stack in seen("burn_second")} == {("burn_second", *["second"] * 21)}
    assert all(stack[-1] == "<module>" for stack in seen("switches"))
