"""What counts as a difference from a kernel's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tops_kit.runtime.examples import Reference, compare

INF, NAN = np.inf, np.nan


def wrong(got: Any, expected: Any, **tolerances: float) -> int:
    reference = Reference(lambda: None, **{"rtol": 1e-5, "atol": 1e-6, "half_atol": 0.0, **tolerances})
    return compare("y", np.asarray(got), expected, reference).wrong


@pytest.mark.parametrize("value", [0.0, -1.5, INF, -INF, NAN])
@pytest.mark.parametrize("other", [0.0, -1.5, INF, -INF, NAN])
def test_what_is_no_number_is_equal_to_itself_only(value: float, other: float) -> None:
    same = value == other or (np.isnan(value) and np.isnan(other))
    assert wrong(np.float32([value]), np.float32([other])) == (not same)


def test_tolerances_are_for_floats() -> None:
    near = np.float32([1.0 + 2**-20, 2.0])
    assert wrong(near, np.float32([1.0, 2.0])) == 0
    assert wrong(near, [1.0, 2.0]) == 0
    assert wrong(np.float32([2.0 + 2**-20]), 2.0) == 0
    assert wrong(near, np.float32([1.0, 2.1])) == 1
    assert wrong(np.int32([100_000_000, 2]), np.int32([100_000_001, 2])) == 1
    assert wrong(np.float16([1.001]), np.float16([1.0])) == 0
    assert wrong(np.float16([0.001]), np.float16([0.0]), half_atol=2.0) == 0
