"""More of any one resource never makes a sample kernel slower: the same events, timed on other parts."""

from __future__ import annotations

import pytest

from tests.kernels.cases import CASES, Case
from tops_kit.engine import timing
from tops_kit.gcu import Specification
from tops_kit.gcu.specification import RESOURCES

FACTORS = (1.25, 2, 7)
DEVICE = [name for name in RESOURCES if name not in ("host", "pcie", "link")]  # what a launch runs on


def seconds(spec: Specification, cycles: int) -> float:
    return cycles / spec.clock_hz


@pytest.mark.parametrize("part", ["s60", "i20", "t20"])
@pytest.mark.parametrize("case", [c for c in CASES if c.dtype is None], ids=str)
def test_more_is_never_slower(case: Case, part: str, needs_c: None) -> None:
    kernel = case.kernel.on(part)
    result, program, _ = case.launch(kernel, mode="timed", events=True)
    assert result.events is not None
    assert result.times is not None
    block = result.block[0]
    before = seconds(kernel.part, result.times.cycles)
    slower = []
    for resource in DEVICE:
        for factor in FACTORS:
            more = kernel.part.scaled(**{resource: factor})
            after = seconds(more, timing.times(program, more, result.events, block_threads=block).cycles)
            if after > before * (1 + 1e-12):
                slower.append(f"{resource} x{factor}: {after / before - 1:.2%}")
    assert not slower
