"""The sanitizer against a model that looks at every element and every pair of accesses."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.sanitizer_model import SHAPES, Keys, Model, Step, assemble, random_steps
from tops_kit.engine.findings import Report
from tops_kit.engine.result import LaunchResult

Launch = Callable[..., LaunchResult]


def keys(report: Report) -> Keys:
    """The findings as the model gives them."""
    out: Keys = Counter()
    for finding in report:
        second = -1 if finding.second is None else finding.second.location[0].line
        out[finding.kind, finding.line, second] = 1 if finding.kind == "race" else finding.count
    return out


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    length=st.integers(1, 40),
    blocks=st.integers(1, 3),
    threads=st.integers(1, 4),
    rounds=st.integers(1, 3),
    defer=st.booleans(),
)
def test_findings_are_the_models(
    run: Launch, seed: int, length: int, blocks: int, threads: int, rounds: int, defer: bool
) -> None:
    steps = random_steps(random.Random(seed), length, rounds, grid_barriers=seed % 2 == 0)
    check(run, steps, blocks, threads, rounds, defer=defer)


def check(run: Launch, steps: list[Step], blocks: int, threads: int, rounds: int, *, defer: bool) -> None:
    y = np.zeros(SHAPES["L3"], np.float32)
    result = run(assemble(steps, rounds), y, grid=blocks, block=threads, mode="sanitized", defer=defer)
    assert not result.faults.limits
    expected = Model(steps, blocks, threads, rounds).run()
    assert keys(result.faults) == expected, "\n".join(map(str, steps))


@pytest.mark.smoke
def test_findings_are_the_models_of_some(run: Launch) -> None:
    for seed in range(25):
        steps = random_steps(random.Random(seed), 30, 2, grid_barriers=seed % 2 == 0)
        check(run, steps, 2, 3, 2, defer=seed % 3 == 0)
