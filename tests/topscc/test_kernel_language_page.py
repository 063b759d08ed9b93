"""The page about the kernel language: its code runs, and it names every word."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from tops_kit.topscc import language


@pytest.fixture(scope="session")
def page(repo_root: Path) -> str:
    return (repo_root / "docs" / "kernel-language.md").read_text(encoding="utf-8")


def test_the_code_runs(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tops_kit.engine.launch import ENGINES

    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine for its times: {ENGINES.why_not}")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 6
    file = tmp_path / "page.py"
    file.write_text("\n".join(blocks), encoding="utf-8")
    specification = importlib.util.spec_from_file_location("page", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    out = capsys.readouterr().out
    assert "modelled on s60" in out
    assert "tile [0., 1., 2., 3.] mean 1.500" in out
    assert "SIP 0, cycles 0 to" in out

    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 96), dtype=np.float32)
    y = np.empty_like(x)
    module.softmax[5](x, y, 7, 96)
    (difference,) = [module.softmax.examples.expected({"x": x}, ("y",))["y"] - y]
    assert abs(difference).max() < 1e-6


def test_every_word_is_on_the_page(page: str) -> None:
    missing = [
        name
        for name in language.__all__
        if not re.search(rf"\b{re.escape(name)}\b", page) and name != "OutsideKernelError"
    ]
    assert missing == []
