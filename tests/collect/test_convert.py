"""Picking rows of a part's columns."""

from __future__ import annotations

import numpy as np
import pytest

from tops_kit.collect import convert
from tops_kit.collect.convert import Columns


def _columns(rows: int) -> Columns:
    numbers = np.arange(rows)
    return Columns(*[numbers.copy() for _ in range(10)])


@pytest.mark.parametrize("dropped", [[], [0], [9], [4], [0, 4, 5, 9], [1, 3, 5, 7, 9], list(range(10))])
@pytest.mark.parametrize(("most", "shortest"), [(32, 1), (2, 1), (32, 4)])
def test_runs_hold_the_kept_rows_in_order(
    dropped: list[int], most: int, shortest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "_MOST_RUNS", most)
    monkeypatch.setattr(convert, "_SHORTEST_RUN", shortest)
    columns = _columns(10)
    keep = ~np.isin(columns.begin, dropped)
    runs = columns.runs(keep)
    for name in ("begin", "duration", "more"):
        assert np.concatenate([getattr(run, name) for run in runs]).tolist() == columns.begin[keep].tolist()


def test_a_few_other_records_cost_no_copy() -> None:
    columns = _columns(4 * convert._SHORTEST_RUN)
    keep = np.ones(len(columns), bool)
    keep[[convert._SHORTEST_RUN, 2 * convert._SHORTEST_RUN + 1]] = False
    runs = columns.runs(keep)
    assert len(runs) == 3
    assert all(np.shares_memory(run.begin, columns.begin) for run in runs)
