"""Widths on a terminal: what takes two cells, what none, and texts that keep to a width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topsprof.textwidth import chunks, display_width, printable, truncate, wrap

pytestmark = pytest.mark.smoke

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("训练", 4), ("e\u0301", 1), ("한글", 4), ("\u1112\u1161\u11ab", 2), ("🇨🇳", 2), ("", 0)],
)
def test_cells(text: str, width: int) -> None:
    assert display_width(text) == width


def test_what_terminals_disagree_on_is_shown_without_it() -> None:
    assert printable("❤\ufe0f") == "❤"
    assert printable("a\u200db") == "a\\u200db"


def test_controls_and_what_the_encoding_lacks_are_escapes() -> None:
    assert printable("\x1b[2J\n") == "\\x1b[2J\\n"
    assert printable("é训", "latin-1") == "é\\u8bad"


@given(TEXT, st.integers(0, 30))
def test_truncated_texts_fit(text: str, width: int) -> None:
    assert display_width(truncate(text, width)) <= width


@given(TEXT, st.integers(2, 30))
def test_chunks_fit_and_lose_nothing(text: str, width: int) -> None:
    parts = chunks(text, width)
    assert "".join(parts) == text and all(display_width(part) <= width for part in parts)


@given(st.lists(st.text("ab训/.", min_size=1, max_size=12)), st.integers(1, 40))
def test_wrapping_keeps_words_whole(words: list[str], width: int) -> None:
    lines = wrap(" ".join(words), width)
    assert " ".join(lines).split() == words
    assert all(display_width(line) <= width or " " not in line for line in lines)
