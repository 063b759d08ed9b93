"""The corpus: each bad kernel is blamed at the right line, none of the good ones is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.corpus_files import CorpusFile, files

pytestmark = pytest.mark.usefixtures("c_engine")


def _id(file: CorpusFile) -> str:
    return file.path.stem


@pytest.mark.parametrize("defer", [False, True], ids=["", "deferred"])
@pytest.mark.parametrize("file", files("bad"), ids=_id)
def test_bad_kernels_are_blamed(file: CorpusFile, defer: bool) -> None:
    assert file.faults, "the file marks no line"
    blamed, report = file.launch(defer=defer)
    assert blamed == file.faults, str(report)
    named = {f.second.location[0].line for f in report if f.second is not None}
    assert named <= file.others | {line for _, line in file.faults}, str(report)
    assert file.others <= named, str(report)


@pytest.mark.parametrize("defer", [False, True], ids=["", "deferred"])
@pytest.mark.parametrize("file", files("good"), ids=_id)
def test_good_kernels_are_not(file: CorpusFile, defer: bool) -> None:
    assert not file.faults
    blamed, report = file.launch(defer=defer)
    assert not blamed, str(report)
    assert report.clean, str(report)


@pytest.mark.parametrize("file", files("good"), ids=_id)
def test_results_are_those_of_the_fast_mode(file: CorpusFile) -> None:
    module = file.module()

    def result(**options: Any) -> list[np.ndarray[Any, Any]]:
        kept: list[np.ndarray[Any, Any]] = []
        module.launch(Keeping(module.kernel.options(quiet=True, **options), kept))
        return kept

    fast = result(mode="fast")
    for defer in (False, True):
        for expected, got in zip(fast, result(mode="sanitized", defer=defer), strict=True):
            assert np.array_equal(expected, got)


class Keeping:
    """A kernel whose launches keep their arrays."""

    def __init__(self, kernel: Any, kept: list[np.ndarray[Any, Any]]) -> None:
        self._kernel = kernel
        self._kept = kept

    def __getitem__(self, threads: Any) -> Any:
        launcher = self._kernel[threads]

        def launch(*arguments: Any) -> Any:
            self._kept += [a for a in arguments if isinstance(a, np.ndarray)]
            return launcher(*arguments)

        return launch


@pytest.mark.parametrize("file", files("bad"), ids=_id)
def test_reports_are_the_same_every_time(file: CorpusFile) -> None:
    assert [file.launch()[1].to_json() for _ in range(2)] == [file.launch()[1].to_json()] * 2


def test_there_are_enough_of_them() -> None:
    assert len(files("bad")) >= 40
    assert len(files("good")) >= 40
    kinds = {kind for file in files("bad") for kind, _ in file.faults}
    assert kinds >= {"uninitialised", "not-awaited", "in-use", "race", "left-open", "barrier", "compile"}
    assert kinds >= {"slot", "view", "index", "shape", "divide", "assert", "gather", "timeout"}
