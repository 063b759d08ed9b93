"""Names of native code as people read them."""

from __future__ import annotations

import pytest
from topsprof.capture.sampling import symbols

CASES = [
    ("PyObject_Call", "PyObject_Call"),
    ("_ZN2at6detail17computeContiguousEN3c108ArrayRefIlEEmm", "at::detail::computeContiguous"),
    ("_Z3addIiET_S0_S0_", "add"),
    ("_ZN12_GLOBAL__N_13runEv", "(anonymous)::run"),
    ("_ZN4PoolclEi", "Pool::operator()"),
    ("_ZlsRSoRK4Pool", "operator<<"),
    ("_ZN4PoolD2Ev", "Pool::~Pool"),
    ("_Znotmangled", "_Znotmangled"),
    ("_GLOBAL__sub_I_VPlanRecipes.cpp", "initializers of VPlanRecipes.cpp"),
]  # fmt: skip


@pytest.mark.parametrize(("symbol", "name"), CASES)
def test_names(symbol: str, name: str) -> None:
    if symbols._demangler() is None and symbol.startswith("_Z"):
        pytest.skip("no C++ library here")
    assert symbols.readable(symbol) == name


def test_long_names_are_cut() -> None:
    assert len(symbols.readable("a" * 500)) == symbols.LONGEST
    assert len(symbols.readable("_Z" + "9" * 5000)) == symbols.LONGEST


def test_without_a_demangler_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "_demangler", lambda: None)
    assert symbols.readable("_ZN4PoolclEi") == "_ZN4PoolclEi"
