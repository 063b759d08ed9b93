from __future__ import annotations

import pytest

from tops_kit.session import Ledger

pytestmark = pytest.mark.smoke


def test_counts_add_up_and_keep_the_first_note() -> None:
    ledger = Ledger()
    ledger.count("import:chrome", "dropped:end_without_begin", 2, note="line 17")
    ledger.count("import:chrome", "dropped:end_without_begin", note="line 19")
    assert ledger.lines() == ["import:chrome: dropped 3 (end without begin): line 17"]
    assert ledger.total("dropped") == ledger.total("dropped", "import:chrome", "end_without_begin") == 3


def test_requested_and_written_are_clean() -> None:
    ledger = Ledger()
    ledger.count("process:1", "requested", 10)
    ledger.count("process:1", "written", 10)
    assert ledger.clean
    assert ledger.lines() == []
    assert ledger.lines(all_kinds=True) == ["process:1: requested 10", "process:1: written 10"]
    ledger.count("process:1", "clipped")
    assert not ledger.clean


def test_nothing_leaves_no_entry() -> None:
    ledger = Ledger()
    ledger.count("a", "dropped", 0)
    assert ledger.entries == []


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        Ledger().count("a", "lost")


def test_merge_and_json() -> None:
    first, second = Ledger(), Ledger()
    first.count("a", "moved:x", 1)
    second.count("a", "moved:x", 2, note="why")
    second.count("b", "unsupported", 5)
    first.merge(second)
    again = Ledger.from_json(first.to_json())
    assert again.entries == first.entries
    assert again.total("moved") == 3
    assert first.copy().entries == first.entries


@pytest.mark.parametrize(
    "value", [None, {}, [1], [{}], [{"kind": "dropped", "count": "3"}], [{"kind": "?", "count": 1}]]
)
def test_malformed_json(value: object) -> None:
    with pytest.raises(ValueError):
        Ledger.from_json(value)
