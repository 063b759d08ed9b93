"""More of any one resource makes no sample kernel slower: the same events, timed on other parts."""

from __future__ import annotations

import pytest

from tests.kernels.cases import CASES, Case, smallest
from tops_kit.engine import timing
from tops_kit.gcu import Specification
from tops_kit.gcu.specification import RESOURCES

FACTORS = (1.25, 2, 4, 7)
DEVICE = [name for name in RESOURCES if name not in ("host", "pcie", "link")]  # what a launch runs on


def worst(case: Case, part: str) -> tuple[float, str]:
    """How much slower a launch gets at most, as a fraction, and with more of what."""
    kernel = case.kernel.on(part)
    result, program, _ = case.launch(kernel, mode="timed", events=True)
    assert result.events is not None
    assert result.times is not None
    before = _seconds(kernel.part, result.times.cycles)
    out = [(0.0, "")]
    for resource in DEVICE:
        for factor in FACTORS:
            more = kernel.part.scaled(**{resource: factor})
            times = timing.times(program, more, result.events, block_threads=result.block[0])
            out.append((_seconds(more, times.cycles) / before - 1, f"{resource} x{factor}"))
    return max(out)


def _seconds(spec: Specification, cycles: int) -> float:
    return cycles / spec.clock_hz


@pytest.mark.parametrize("part", ["s60", "i20", "t20"])
@pytest.mark.parametrize("case", [case for case in CASES if case.dtype is None], ids=str)
def test_more_is_never_slower(case: Case, part: str, needs_c: None) -> None:
    slower, with_more = worst(case, part)
    assert slower < 1e-12, with_more


@pytest.mark.parametrize("part", ["s60", "i20", "t20"])
@pytest.mark.parametrize("case", smallest(), ids=str)
def test_at_the_size_of_the_example(case: Case, part: str, needs_c: None) -> None:
    """Long launches that are bound by memory."""
    causal = {"CAUSAL": True} if case.options.get("CAUSAL") else {}
    slower, with_more = worst(Case(case.name, causal), part)
    assert slower < 1e-12, with_more
