"""Fixtures for tests of importers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topsprof.importers.base import ImportOptions
from topsprof.importers.job import JobOptions, import_files

from tops_kit.session import Session

Import = Callable[..., Session]


@pytest.fixture(params=["c", "twin"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs the test with the C scanner and with its Python twin."""
    if request.param == "twin":
        monkeypatch.setenv("TOPSKIT_PURE", "1")
    else:
        monkeypatch.delenv("TOPSKIT_PURE", raising=False)
        pytest.importorskip("topsprof.importers._scan", reason="the C scanner is not built")
    return str(request.param)


@pytest.fixture
def import_bytes(tmp_path: Path) -> Import:
    """Import the bytes of one file; keyword arguments are those of ImportOptions, `importer` and `name`."""
    count = 0

    def run(data: bytes, *, name: str = "trace.json", importer: str | None = None, **options: Any) -> Session:
        nonlocal count
        count += 1
        folder = tmp_path / f"import{count}"
        folder.mkdir()
        file = folder / name
        file.write_bytes(data)
        target = folder / "out.topsprof"
        import_files([file], target, JobOptions(options=ImportOptions(**options), importer=importer))
        return Session.open(target)

    return run


@pytest.fixture
def import_events(import_bytes: Import) -> Import:
    """Import a list of trace events (as values of json); `top` are keys beside them."""

    def run(events: list[Any], *, top: dict[str, Any] | None = None, **options: Any) -> Session:
        text = json.dumps({**(top or {}), "traceEvents": events})
        return import_bytes(text.encode(), **{"importer": "chrome", **options})

    return run
