"""Output names: patterns, the free number, and nothing overwritten unasked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topsprof import naming

from tops_kit.errors import UserError

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("plain", "plain"),
        ("run-%p", "run-42"),
        ("%h_%p", "box_42"),
        ("r%n", "r7"),
        ("100%%", "100%"),
        ("%q{JOB}.%q{RANK}", "sim.3"),
        ("%%p", "%p"),
        ("/a b/%p/ü", "/a b/42/ü"),
    ],
)
def test_patterns(pattern: str, expected: str) -> None:
    environ = {"JOB": "sim", "RANK": "3"}
    assert naming.expand(pattern, pid=42, number=7, host="box", environ=environ) == expected


@pytest.mark.parametrize("pattern", ["%z", "a%", "%q", "%q{", "%q{}", "%q{NOT_SET}"])
def test_wrong_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UserError, match="output name"):
        naming.expand(pattern, pid=1, environ={})


@given(st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))))
def test_an_escaped_name_comes_out_as_it_was(text: str) -> None:
    assert naming.expand(text.replace("%", "%%"), pid=1, environ={}) == text


def test_the_suffix_is_added_once() -> None:
    assert naming.with_suffix("a", ".topsprof") == Path("a.topsprof")
    assert naming.with_suffix("a.topsprof", ".topsprof") == Path("a.topsprof")
    assert naming.with_suffix("a.topsprof/", ".topsprof") == Path("a.topsprof")
    assert naming.with_suffix("v1.2", ".topsprof") == Path("v1.2.topsprof")


@given(st.sets(st.integers(1, 30)))
def test_the_lowest_free_number_is_taken(taken: set[int]) -> None:
    names = {Path(f"report{number}.topsprof") for number in taken}
    path = naming.output_path(None, pid=1, force=False, exists=names.__contains__)
    free = next(number for number in range(1, 40) if number not in taken)
    assert path == Path(f"report{free}.topsprof")


def test_an_existing_output_needs_force(tmp_path: Path) -> None:
    (tmp_path / "a.topsprof").mkdir()
    with pytest.raises(UserError, match="-f to overwrite"):
        naming.output_path(str(tmp_path / "a"), pid=1, force=False)
    assert naming.output_path(str(tmp_path / "a"), pid=1, force=True) == tmp_path / "a.topsprof"


@pytest.mark.parametrize("text", ["", "/", "//"])
def test_an_empty_name_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="empty"):
        next(naming.candidates(text, pid=1))
