"""Programs of calls, exceptions, generators and coroutines, made from trees, and a tracer in Python to which
the recorder is compared call by call.

`python call_programs.py` reads trees (JSON) from stdin, runs each under the reference and then under the
recorder, and prints what the reference saw: for each tree the calls in the order of their ends.
"""

from __future__ import annotations

import dis
import json
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Tree = list[Any]
"""[what, number, children, end]: `what` is call, generator, delegate, coroutine, recurse or builtin; `number`
names the function, or says how often; `end` is return or raise, of generators also close, throw and leave."""

SLICED = 0x20 | 0x80 | 0x200


class PlannedError(Exception):
    """What programs raise."""


def run(tree: Tree) -> None:
    """Do what a tree says; its exception goes no further."""
    what, number, children, end = tree
    try:
        if what == "call":
            FUNCTIONS[number](children, end)
        elif what == "recurse":
            recurse(number * 40, children, end)
        elif what == "builtin":
            list(map(run, children))
            sorted([3, 1, 2], key=negative)
        elif what == "coroutine":
            drive(coroutine(children, end, number))
        else:
            iterate(generator(children, end) if what == "generator" else delegate(children, end), number, end)
    except PlannedError:
        pass


def negative(value: int) -> int:
    return -value


def first(children: list[Tree], end: str) -> None:
    for child in children:
        run(child)
    if end == "raise":
        raise PlannedError


def second(children: list[Tree], end: str) -> None:
    try:
        first(children, end)
    finally:
        negative(1)


def third(children: list[Tree], end: str) -> None:
    (lambda: second(children, end))()


FUNCTIONS: tuple[Callable[[list[Tree], str], None], ...] = (first, second, third)


def recurse(depth: int, children: list[Tree], end: str) -> None:
    if depth:
        recurse(depth - 1, children, end)
    else:
        first(children, end)


def generator(children: list[Tree], end: str) -> Iterator[int]:
    try:
        for index, child in enumerate(children):
            run(child)
            yield index
    finally:
        negative(2)
    if end == "raise":
        raise PlannedError


def delegate(children: list[Tree], end: str) -> Iterator[int]:
    yield from generator(children, end)


def iterate(made: Any, count: int, end: str) -> None:
    for _, _ in zip(range(count), made, strict=False):
        negative(3)
    if end == "close":
        made.close()
    elif end == "throw":
        made.throw(PlannedError())
    elif end != "leave":
        for _ in made:
            negative(4)


class Pause:
    """Awaiting it gives control up, once or more often."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __await__(self) -> Iterator[None]:
        for _ in range(self.count):
            yield None


async def coroutine(children: list[Tree], end: str, number: int) -> None:
    await Pause(number)
    for child in children:
        run(child)
        await Pause(1)
    await helper(end)
    async for _ in ticks(number):
        negative(5)


async def helper(end: str) -> None:
    await Pause(1)
    if end == "raise":
        raise PlannedError


async def ticks(count: int) -> Any:
    for index in range(count):
        await Pause(1)
        yield index


def drive(made: Any) -> None:
    while True:
        try:
            made.send(None)
        except StopIteration:
            return


UNSTARTED = {"RETURN_GENERATOR", "POP_TOP"}
ENDS = {"RETURN_VALUE": "return", "RETURN_CONST": "return", "YIELD_VALUE": "yield"}
ENDS["RESUME"] = "yield"  # 3.13: the instruction after it


def at(frame: FrameType) -> str:
    """The instruction that a frame is at."""
    return dis.opname[frame.f_code.co_code[max(frame.f_lasti, 0)]]


class Reference:
    """Calls by sys.setprofile: (name, depth, resumed, how it ended)."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, bool, str]] = []
        self.stack: list[tuple[FrameType, bool]] = []
        self.seen: list[FrameType] = []  # of generators; kept, so that their identities stay theirs

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename != __file__ or code.co_name == "at" or code.co_qualname.startswith("Reference"):
            return
        if event == "call":
            # thrown into before it ran: no call
            resumed = any(frame is other for other in self.seen) or at(frame) in UNSTARTED
            if code.co_flags & SLICED and not resumed:
                self.seen.append(frame)
            self.stack.append((frame, resumed))
        elif event == "return" and self.stack and self.stack[-1][0] is frame:
            _, resumed = self.stack.pop()
            ended = ENDS.get(at(frame), "raise")
            if code.co_name in {"generator", "delegate"} and ended == "yield" and argument is None:
                ended = "raise"  # they yield numbers: what was thrown into it came out at once
            self.found.append((code.co_qualname, len(self.stack), resumed, ended))


def main() -> None:
    import topstx
    from topstx.recorder.calls import CallOptions, Calls

    trees: list[Tree] = json.load(sys.stdin)
    sys.setrecursionlimit(5000)
    recorder = Calls(topstx._recorder, CallOptions([__file__]))
    expected = []
    for tree in trees:
        reference = Reference()
        sys.setprofile(reference)
        run(tree)
        sys.setprofile(None)
        expected.append(reference.found)
    for tree in trees:
        topstx.mark("next")
        recorder.start()
        run(tree)
        recorder.stop()
    json.dump(expected, sys.stdout)


if __name__ == "__main__":
    main()
