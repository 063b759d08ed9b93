"""The sample kernels give what numpy gives; in every mode, on any host threads, the same bits and times."""

from __future__ import annotations

import re

import pytest

import tops_kit as tops
from tests.kernels.cases import CASES, FOLDER, Case, bits, smallest
from tops_kit.runtime import topscc_command


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


def test_every_file_is_tried_and_listed() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert {case.name for case in CASES} == files
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[(\w+)\]", page, re.MULTILINE)) == files


def test_sample(case: Case, needs_c: None) -> None:
    """Against numpy; then modes and runs against each other."""
    kernel = case.kernel
    _, _, after = case.launch(kernel, mode="fast", host_threads=1)
    case.check(after)
    timed, _, after_timed = case.launch(kernel, mode="timed", host_threads=1)
    assert bits(after_timed) == bits(after)
    assert timed.times is not None
    for host_threads in (2, 5):
        again, _, after_again = case.launch(kernel, mode="timed", host_threads=host_threads)
        assert bits(after_again) == bits(after)
        assert again.times is not None
        assert again.times.cycles == timed.times.cycles
    for defer in (False, True):
        checked, _, after_checked = case.launch(kernel, mode="sanitized", defer=defer)
        assert checked.faults.clean, str(checked.faults)
        assert bits(after_checked) == bits(after)


def test_any_number_of_threads(case: Case, needs_c: None) -> None:
    if "THREADS" in case.options:
        pytest.skip("the kernel states its threads")
    for threads in (1, 5, 48):
        if case.name == "stencil" and threads > 24:
            continue  # its threads wait for each other: all must fit
        _, _, after = case.launch(case.kernel, threads=threads, mode="fast")
        case.check(after)


@pytest.mark.parametrize("case", smallest(), ids=str)
def test_topscc_runs_it(case: Case, needs_c: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--arg={name}={value}" for name, value in case.options.items()]
    path = str(FOLDER / f"{case.name}.py")
    assert topscc_command.main(["run", path, "-arch", "s60,i20,t20", "--sanitize", *words]) == 0
    out = capsys.readouterr().out
    assert out.count("as the reference") == 3
    assert out.count("nothing found") == 3


def test_a_stencil_of_odd_steps_is_refused(needs_c: None) -> None:
    case = Case("stencil", {"rows": 5, "cols": 6, "steps": 3, "BM": 4, "BN": 4})
    with pytest.raises(tops.KernelFault, match="steps is even"):
        case.launch(case.kernel, mode="fast")
