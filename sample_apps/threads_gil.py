"""Threads that share the GIL: those that compute take turns, and one that should answer at once waits.

topsprof run --stats -- python threads_gil.py
"""

from __future__ import annotations

import argparse
import threading
import time

SIZES = {"small": 1.0, "medium": 4.0, "large": 20.0}  # seconds
WORKERS = 3


def crunch(until: float) -> int:
    """What the workers do: Python alone, which holds the GIL for 5 ms at a time."""
    total = 0
    while time.monotonic() < until:
        for number in range(20_000):
            total += number * number
    return total


def answer(until: float, late_ms: list[float]) -> None:
    """What the thread `answers` does: something short each 5 ms; afterwards it needs the GIL again."""
    while (begin := time.monotonic()) < until:
        time.sleep(0.005)
        late_ms.append((time.monotonic() - begin) * 1e3 - 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    until = time.monotonic() + SIZES[parser.parse_args().size]
    late_ms: list[float] = []
    threads = [threading.Thread(target=crunch, args=(until,), name=f"worker-{n}") for n in range(WORKERS)]
    threads.append(threading.Thread(target=answer, args=(until, late_ms), name="answers"))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    late_ms.sort()
    print(f"{len(late_ms)} answers, late by {late_ms[len(late_ms) // 2]:.1f} ms (median)")


if __name__ == "__main__":
    main()
