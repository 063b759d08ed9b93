"""The program of the soak: a bit of everything, whose output depends on nothing but the number of rounds.

`python program.py ROUNDS`: threads, asyncio, forks, children, exceptions, generators, garbage, deep
recursion, and after half of the rounds it executes itself anew.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator


def mix(value: int, more: int) -> int:
    return (value * 6364136223846793005 + more + 1442695040888963407) & 0xFFFF_FFFF_FFFF_FFFF


def deep(depth: int) -> int:
    return 1 + deep(depth - 1) if depth else 0


def countdown(count: int) -> Iterator[int]:
    while count:
        yield count
        count -= 1


def raising(depth: int) -> int:
    try:
        if depth:
            return raising(depth - 1)
        raise ValueError(str(depth))
    except ValueError:
        if depth < 20:
            raise
        return depth


def of_threads(number: int) -> int:
    results = [0] * 20

    def work(index: int) -> None:
        total = index
        for step in range(3000):
            total = mix(total, step)
        results[index] = total

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results) + number


async def ticker(number: int, queue: asyncio.Queue[int]) -> int:
    total = 0
    for step in range(30):
        await queue.put(step * number)
        total = mix(total, await queue.get())
        if step % 10 == 0:
            await asyncio.sleep(0)
    return total


async def of_tasks(number: int) -> int:
    queue: asyncio.Queue[int] = asyncio.Queue()
    return sum(
        [await ticker(number, queue), *await asyncio.gather(*(asyncio.sleep(0, 1) for _ in range(50)))]
    )


def of_fork(number: int) -> int:
    child = os.fork()
    if not child:
        total = 0
        for step in range(3000):
            total = mix(total, step)
        os._exit((total + number) & 0x7F)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def of_child(number: int) -> int:
    code = f"print(sum(n * {number} for n in range(20000)))"
    return int(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True).stdout)


def of_garbage(number: int) -> int:
    for step in range(2000):
        one: list[object] = [step]
        one.append(one)
    del one
    return number + (gc.collect() > 0)


def of_made_code(number: int) -> int:
    """Functions that come and go: their addresses are used again."""
    total = 0
    for step in range(30):
        space: dict[str, int] = {}
        exec(f"def made(n):\n    return n * {step} + {number}\nresult = made({step})", space)
        total += space["result"]
    return total


def one_round(number: int, value: int) -> int:
    for more in (
        of_threads(number),
        asyncio.run(of_tasks(number)),
        of_fork(number),
        deep(900),
        raising(100),
        sum(countdown(2000)),
        of_garbage(number),
        of_made_code(number),
        of_child(number) if number % 5 == 0 else 0,
    ):
        value = mix(value, more)
    return value


def main() -> int:
    rounds, first, value = int(sys.argv[1]), *map(int, sys.argv[2:4] or ("0", "1"))
    for number in range(first, rounds):
        value = one_round(number, value)
        print(number, f"{value:016x}", flush=True)
        if number == rounds // 2:
            os.execv(sys.executable, [sys.executable, __file__, str(rounds), str(number + 1), str(value)])
    return value & 0x3F


if __name__ == "__main__":
    sys.exit(main())
