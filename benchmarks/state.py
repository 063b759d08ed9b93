"""What shared device state costs a program: memory, pointers, notes of use; and a look at it from outside."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from benchmarks.rows import Row, compare
from tops_kit.gcu.state import Device, devices

DESCRIPTION = "device memory, pointers, notes of use, efsmi: CPU time"

_BURSTS = 20
_BURST = 2000
_BLOCKS = 20_000


def rows() -> Iterator[Row]:
    """All claims about device state."""
    with tempfile.TemporaryDirectory() as folder:
        device = devices({"TOPS_STATE_DIR": folder, "TOPS_DEVICES": "s60"})[0]
        yield from _rows(device)
        device.close()
        command = [sys.executable, "-m", "tops_kit.efsmi", "--json-format"]
        looks = []
        for _ in range(5):
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            looks.append(time.perf_counter() - begin)
        yield compare("efsmi, a process of its own", "ms", 1e3 * min(looks), None, "", note="least of 5")


def _rows(device: Device) -> Iterator[Row]:
    memory, usage = device.memory, device.usage
    addresses: list[int] = []
    empty = _least(lambda: None)

    def allocate() -> None:
        addresses.append(memory.allocate(512).address)

    def free() -> None:
        memory.free(addresses.pop())

    def page() -> None:
        memory.free(memory.allocate(1 << 20).address)

    taken, given = _pairs(allocate, free)
    yield _row("a block of 512 bytes", taken, empty, 10)
    yield _row("its free", given, empty, 10)
    yield _row("a block of 1 MiB and its free", _least(page), empty, None)
    chance = random.Random(0)
    for what, sizes in (("small", (1, 8000)), ("large", (20_000, 1_000_000))):
        blocks = [memory.allocate(chance.randrange(*sizes)) for _ in range(_BLOCKS)]
        inside = iter(
            [block.address + block.size_bytes // 2 for block in chance.choices(blocks, k=_BURSTS * _BURST)]
        )
        yield _row(
            f"the block around a pointer, of {_BLOCKS:,} {what} ones",
            _least(lambda i=inside: memory.find(next(i))),
            empty,
            1,
        )
    times = iter(range(0, _BURSTS * _BURST * 2000, 2000))
    yield _row(
        "a note that a kernel ran", _least(lambda: usage.note(t := next(times), t + 1000, 24)), empty, None
    )
    yield _row("free and total bytes", _least(memory.info), empty, None)


def _row(claim: str, ours_us: float, empty_us: float, bar_us: float | None) -> Row:
    return compare(
        claim, "us CPU", ours_us, empty_us, "an empty call", bar=bar_us, bar_on="ours",
        note=f"least of {_BURSTS} bursts of {_BURST}",
    )  # fmt: skip


def _least(call: Callable[[], object]) -> float:
    """Microseconds of CPU of a call: the least of the bursts."""
    return min(_burst(call) for _ in range(_BURSTS))


def _pairs(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """The least of each of two that undo each other."""
    both = [(_burst(first), _burst(second)) for _ in range(_BURSTS)]
    return min(one for one, _ in both), min(other for _, other in both)


def _burst(call: Callable[[], object]) -> float:
    begin = time.thread_time_ns()
    for _ in range(_BURST):
        call()
    return (time.thread_time_ns() - begin) / _BURST / 1000
