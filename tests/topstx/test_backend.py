"""Which recorder is taken."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import topstx.recorder
from topstx._backend import choose


class _OfOtherLayout:
    """Has every name, and another number than the sources."""

    INTERFACE = 0

    def __getattr__(self, name: str) -> object:
        return object()


@pytest.mark.parametrize("extension", [SimpleNamespace(NAME="c"), _OfOtherLayout()])
def test_an_extension_of_older_sources_is_not_taken(
    extension: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOPSKIT_PURE", "TOPSKIT_REQUIRE_C", "TOPSTX_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(topstx.recorder, "_crec", extension, raising=False)
    backend, reason = choose()
    assert backend.NAME == "twin" and "pip install" in reason
    monkeypatch.setenv("TOPSKIT_REQUIRE_C", "1")
    with pytest.raises(ImportError, match="other sources"):
        choose()


def test_without_an_extension_the_reason_is_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOPSKIT_PURE", "TOPSKIT_REQUIRE_C", "TOPSTX_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delattr(topstx.recorder, "_crec", raising=False)
    monkeypatch.setitem(sys.modules, "topstx.recorder._crec", None)
    backend, reason = choose()
    assert backend.NAME == "twin" and reason == "not built: no C compiler when this was installed"
