"""Fixtures for kernels that run."""

from __future__ import annotations

import pytest

from tops_kit.engine.launch import ENGINES


@pytest.fixture(scope="session")
def needs_c() -> None:
    """Skips where the C engine isn't built: the oracle is too slow, or checks nothing."""
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")
