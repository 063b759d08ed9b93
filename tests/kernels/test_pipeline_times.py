"""How long a round of a loop takes that loads ahead: as docs/cost-model.md says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def page(repo_root: Path) -> str:
    return " ".join((repo_root / "docs" / "cost-model.md").read_text(encoding="utf-8").split())


def test_the_rounds_that_the_page_names(page: str) -> None:
    named = re.search(r"with a compute of 412, .* takes (\d+) cycles with two slots, (\d+) with three", page)
    assert named is not None
    for slots, cycles in zip((2, 3), named.groups(), strict=True):
        assert abs(cycles_of_a_round(1, slots) - int(cycles)) <= 1


def test_the_gemm_that_the_page_names(page: str, repo_root: Path, tmp_path: Path, needs_c: None) -> None:
    """The kernel of docs/kernel-language.md with other numbers of slots: the cycles that stand there."""
    named = re.search(
        r"takes ([\d,]+) cycles with one slot, ([\d,]+) with two, ([\d,]+) with three or four, "
        r"and ([\d,]+) with five or eight",
        page,
    )
    assert named is not None
    one, two, three, five = (int(number.replace(",", "")) for number in named.groups())
    text = (repo_root / "docs" / "kernel-language.md").read_text(encoding="utf-8")
    source = re.search(r"@tops\.kernel\ndef gemm\(.*?\n\n", text, re.DOTALL)
    assert source is not None
    a, c, bias = (
        np.zeros((1000, 1000), np.float16),
        np.zeros((1000, 1000), np.float32),
        np.zeros(1000, np.float32),
    )
    for slots, expected in {1: one, 2: two, 3: three, 4: three, 5: five, 8: five}.items():
        gemm = _kernel(tmp_path / f"gemm{slots}.py", source[0].replace("slots=2", f"slots={slots}"))
        assert abs(gemm.on("s60")[24](a, a, bias, c).cycles - expected) <= 1000


def _kernel(path: Path, text: str) -> Any:
    path.write_text(f"import tops_kit as tops\n\n{text}", encoding="utf-8")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.gemm
