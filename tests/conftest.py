"""Fixtures that every part of the test suite shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repo_root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def traces_dir() -> Path:
    """The folder of real traces; tests that need it skip, and say so, where it is absent."""
    for candidate in (os.environ.get("TOPSKIT_TRACES"), ROOT.parent / "shared" / "traces"):
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    pytest.skip("no folder of real traces: set TOPSKIT_TRACES to one")
