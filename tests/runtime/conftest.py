"""Fixtures for kernels that run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tops_kit.engine.launch import ENGINES
from tops_kit.runtime.process import RUNTIME


@pytest.fixture(scope="session")
def needs_c() -> None:
    """Skips where the C engine isn't built: the Python oracle takes minutes, or checks nothing."""
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")


@pytest.fixture
def model_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime that begins at 0 of the model's time."""
    RUNTIME.end()
    monkeypatch.setenv("TOPS_CLOCK", "model")
    yield
    RUNTIME.end()
