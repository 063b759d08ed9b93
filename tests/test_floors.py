"""Dependencies point down the floors of the house; the contracts stand in pyproject.toml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.smoke
def test_imports_point_down(repo_root: Path) -> None:
    pytest.importorskip("importlinter", reason="import-linter is not installed: pip install 'tops-kit[test]'")
    paths = os.pathsep.join(str(repo_root / part) for part in ("tx", ".", "pti", "prof"))
    outcome = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
