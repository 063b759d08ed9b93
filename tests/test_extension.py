"""C extensions that were built from other sources than lie here are not used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
from topstx import nvtx_injection

from tops_kit import extension

CHOOSERS = {
    "tops_kit.collect._drain": "tops_kit.collect.backend",
    "tops_kit.session._lanes": "tops_kit.session.backend",
    "topsprof.importers._scan": "topsprof.importers.scan",
    "topsprof.importers._wire": "topsprof.importers.wire",
    "topsprof.exporters._assemble": "topsprof.exporters.assemble",
}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOPSKIT_PURE", "TOPSKIT_REQUIRE_C"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.smoke
@pytest.mark.parametrize("name", CHOOSERS)
def test_each_chooser_looks_at_the_stamp(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser: Any = importlib.import_module(CHOOSERS[name])
    stale = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, stale)
    for stamp in (None, chooser._INTERFACE + 1):
        if stamp is not None:
            stale.INTERFACE = stamp  # type: ignore[attr-defined]
        part = name.rpartition(".")[2]
        assert chooser.problem() == f"{part} was built from other sources: pip install -e . again"
    stale.INTERFACE = chooser._INTERFACE  # type: ignore[attr-defined]
    assert chooser.problem() == ""
    monkeypatch.setenv("TOPSKIT_PURE", "1")
    assert chooser.problem() == "TOPSKIT_PURE is set"


@pytest.mark.parametrize("name", CHOOSERS)
def test_what_is_built_here_is_used(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not built")
    assert importlib.import_module(CHOOSERS[name]).problem() == ""


def test_twins_serve_for_stale_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    from topsprof.importers import scan, scan_twin

    from tops_kit.collect import backend as collector
    from tops_kit.session import backend as session

    for name in CHOOSERS:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert collector.load()[1] == "twin" and session.backend_name() == "twin"
    assert scan.scanner_class() is scan_twin.Scanner


def test_without_an_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    module, reason = extension.load("tops_kit._none_such", 1)
    assert module is None and reason == "not built: no C compiler when this was installed"
    monkeypatch.setenv("TOPSKIT_REQUIRE_C", "1")
    with pytest.raises(ImportError):
        extension.load("tops_kit._none_such", 1)


def test_a_stale_nvtx_library(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx_injection, "_HERE", tmp_path)
    assert nvtx_injection.problem().startswith("not built")
    library = tmp_path / "_nvtx.some.so"
    library.write_bytes(b"\x7fELF old")
    assert nvtx_injection.library_path() is None and "other sources" in nvtx_injection.problem()
    library.write_bytes(b"\x7fELF " + nvtx_injection._STAMP)
    assert nvtx_injection.library_path() == str(library)
