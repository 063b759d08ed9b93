"""The oracle gives the bits and the times of the C machine on the sample kernels, at tiny sizes."""

from __future__ import annotations

import pytest

from tests.kernels.cases import Case, bits, smallest


@pytest.mark.smoke
@pytest.mark.parametrize("case", smallest(), ids=str)
def test_right(case: Case) -> None:
    """On the oracle alone, which is all there is without a C compiler."""
    _, _, after = case.launch(case.kernel, mode="fast", engine="oracle")
    case.check(after)


@pytest.mark.parametrize("case", smallest(), ids=str)
def test_same_as_the_machine(case: Case, needs_c: None) -> None:
    machine, _, after_machine = case.launch(case.kernel, mode="timed")
    oracle, _, after_oracle = case.launch(case.kernel, mode="timed", engine="oracle")
    assert bits(after_oracle) == bits(after_machine)
    assert machine.times is not None
    assert oracle.times is not None
    assert oracle.times.cycles == machine.times.cycles
    assert machine.counts is not None
    assert oracle.counts is not None
    assert (oracle.counts == machine.counts).all()
