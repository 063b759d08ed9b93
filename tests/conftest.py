"""Fixtures that every part of the test suite shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# how long an example takes says how busy the machine is, and nothing of the code
settings.register_profile("topskit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("topskit")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def _own_device_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests use devices of their own, not those of programs that run on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPS_STATE_DIR", str(tmp_path_factory.mktemp("devices")))
        for name in ("TOPS_DEVICES", "TOPS_VISIBLE_DEVICES"):
            patch.delenv(name, raising=False)
        yield


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
