"""A machine of one s60 whose state is the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tops_kit.gcu.state import Devices, devices


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TOPS_STATE_DIR": str(tmp_path), "TOPS_DEVICES": "s60"}


@pytest.fixture
def machine(environ: dict[str, str]) -> Iterator[Devices]:
    found = devices(environ)
    yield found
    found.close()
