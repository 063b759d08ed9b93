"""How long a round of a loop takes that loads ahead: as docs/cost-model.md says."""

from __future__ import annotations

import numpy as np
import pytest

import tops_kit as tops

FLOATS = 12_800  # 51,200 bytes: 600 cycles of latency and 400 of flow on an s60


@tops.kernel
def summing(
    x: tops.ptr(tops.f32, 2),
    rounds: tops.i32,
    COLS: tops.constexpr,
    WORK: tops.constexpr,
    SLOTS: tops.constexpr,
):
    row = tops.l1(tops.f32, (COLS,), slots=SLOTS)
    total = tops.zeros(tops.f32, (COLS,))
    for r in tops.pipeline(0, rounds, load=(row, lambda r: x[r])):
        for _ in tops.static_range(WORK):
            total += row[r]
    tops.store(x[0], total)


def cycles_of_a_round(work: int, slots: int) -> float:
    """Where the ramp is over."""
    x = np.zeros((48, FLOATS), np.float32)
    few, many = (summing.on("s60")[1](x, n, FLOATS, work, slots).cycles for n in (24, 48))
    return (many - few) / 24


@pytest.mark.parametrize(("work", "slots"), [(1, 2), (1, 3), (2, 2), (3, 2), (4, 2), (3, 3)])
def test_a_round_of_a_pipeline(work: int, slots: int) -> None:
    transfer, flow, compute = 1000, 400, 412 * work
    expected = max(compute, flow, (transfer + compute) / slots)
    got = cycles_of_a_round(work, slots)
    assert expected - 5 <= got <= expected + 5, (got, expected)
