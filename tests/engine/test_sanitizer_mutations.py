"""Known-good double buffering is clean; the same with one mistake put in is blamed for it, at its line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.double_buffering import MISTAKES, Plan, build
from tops_kit.engine.fault import KernelFault
from tops_kit.engine.findings import Report
from tops_kit.engine.result import LaunchResult

Launch = Callable[..., LaunchResult]
relaxed = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
shapes = {
    "slots": st.integers(2, 4),
    "outputs": st.integers(1, 3),
    "rounds": st.integers(5, 9),
    "columns": st.sampled_from((1, 32, 70)),
    "threads": st.integers(2, 4),
    "defer": st.booleans(),
}


def sanitized(run: Launch, plan: Plan, threads: int, *, defer: bool) -> tuple[Report, np.ndarray, np.ndarray]:
    x = np.arange(threads * plan.rounds * plan.columns, dtype=np.float32)
    x = x.reshape(threads, plan.rounds, plan.columns)
    y = np.zeros_like(x)
    try:
        report = run(build(plan).program, x, y, block=threads, mode="sanitized", defer=defer).faults
    except KernelFault as fault:
        assert fault.report is not None
        report = fault.report
    return report, x, y


@relaxed
@given(**shapes)
def test_right_ones_are_clean(
    run: Launch, slots: int, outputs: int, rounds: int, columns: int, threads: int, defer: bool
) -> None:
    report, x, y = sanitized(run, Plan(slots, outputs, rounds, columns), threads, defer=defer)
    assert report.clean, str(report)
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("mistake", MISTAKES)
@relaxed
@given(at=st.integers(0, 8), **shapes)
def test_one_mistake_is_blamed(
    run: Launch,
    mistake: str,
    at: int,
    slots: int,
    outputs: int,
    rounds: int,
    columns: int,
    threads: int,
    defer: bool,
) -> None:
    last = rounds - 2 if mistake in ("wrong slot", "load too early") else rounds - 1
    first = outputs if mistake == "no wait for the store" else 0
    plan = Plan(slots, outputs, rounds, columns, mistake, first + at % (last + 1 - first))
    report, _, _ = sanitized(run, plan, threads, defer=defer)
    blamed = {(finding.kind, finding.line) for finding in report}
    assert blamed, "nothing was found"
    assert blamed <= {(plan.kind, line) for line in build(plan).lines}, str(report)
    assert report.findings[0].access.thread == 0
