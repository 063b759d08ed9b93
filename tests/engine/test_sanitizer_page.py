"""The page about the sanitizer: its code gives the report that is shown."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tops_kit.isa.faults import FAULTS

pytestmark = pytest.mark.usefixtures("c_engine")


@pytest.fixture
def page(repo_root: Path) -> str:
    return (repo_root / "docs" / "sanitizer.md").read_text(encoding="utf-8")


def test_the_report_is_the_one_shown(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "double.py"
    file.write_text(code, encoding="utf-8")
    specification = importlib.util.spec_from_file_location("double", file)
    assert specification is not None and specification.loader is not None
    specification.loader.exec_module(importlib.util.module_from_spec(specification))
    out, err = (text.replace(str(file), "double.py") for text in capsys.readouterr())
    assert out == shown
    assert err.splitlines() == [line for line in shown.splitlines() if not line.startswith("    ")]


def test_every_kind_is_on_the_page(page: str) -> None:
    for kind in FAULTS:
        if kind.number >= 32:
            assert f"`{kind.name}`" in page
