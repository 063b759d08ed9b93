"""Two processes on one device: their memory adds up, and their kernels wait for each other.

topsprof run --stats -- python shared_device.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from typing import TextIO

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": 10, "medium": 30, "large": 100}  # launches of each process, alone and together
N = 2_000_000
THREADS = tops.device_properties()["sips"]


@tops.kernel
def work(x: tops.ptr(), rounds: tops.i32):
    # has all of the device, though one thread does it all: nobody else's kernel can run beside it
    if tops.thread_id() == 0:
        t = tops.load(x[0:64])
        for _ in range(rounds):
            t = tops.sqrt(t + 2.0)
        tops.store(x[0:64], t)


def run(name: str, launches: int, meet: Callable[[], None]) -> None:
    """What both processes do. Without `synchronize` in the loop, launches queue up on the device."""
    x = tops.zeros(N)
    work[THREADS](x, 1)  # compiled
    tops.synchronize()
    for turn in ("first", "second", "together"):
        meet()
        if turn in (name, "together"):
            with topstx.annotate(f"{name} {'together' if turn == 'together' else 'alone'}"):
                for _ in range(launches):
                    work[THREADS](x, 10_000)
                tops.synchronize()
    if name == "first":
        print(tops.memory_summary())
    meet()  # nobody ends before the summary is printed
    assert np.allclose(x[:8].numpy(), 2.0, atol=1e-2)


def meeting(there: TextIO, here: TextIO) -> Callable[[], None]:
    """A function that waits until the other process calls it too; over the pipes between them."""

    def meet() -> None:
        print("here", file=there, flush=True)
        if here.readline() != "here\n":
            sys.exit("the other process is gone")

    return meet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--second", action="store_true", help="what the first process starts")
    arguments = parser.parse_args()
    launches = SIZES[arguments.size]
    if arguments.second:
        run("second", launches, meeting(sys.stdout, sys.stdin))
        return
    command = [sys.executable, __file__, "--size", arguments.size, "--second"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        run("first", launches, meeting(other.stdin, other.stdout))
    sys.exit(other.returncode)


if __name__ == "__main__":
    main()
