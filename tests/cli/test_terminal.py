"""Colour, progress and tables: for people only."""

from __future__ import annotations

import io

import pytest
from topsprof import terminal

pytestmark = pytest.mark.smoke


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it() -> None:
    assert terminal.uses_colour(Tty(), {})
    assert not terminal.uses_colour(io.StringIO(), {})
    assert not terminal.uses_colour(Tty(), {"NO_COLOR": "1"})
    assert terminal.uses_colour(Tty(), {"NO_COLOR": ""})  # no-color.org: set and not empty
    assert not terminal.uses_colour(Tty(), {"TERM": "dumb"})


def test_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.styled("x", "bold", "red", stream=io.StringIO()) == "x"


def test_progress_is_silent_without_a_terminal() -> None:
    stream = io.StringIO()
    with terminal.Progress("work", 10, stream=stream) as bar:
        bar.update(5)
    assert stream.getvalue() == ""


def test_progress_wipes_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty()
    with terminal.Progress("work", 10, stream=stream) as bar:
        bar.update(5, detail="half")
    text = stream.getvalue()
    assert " 50% half" in text and text.endswith("\r\x1b[K")


def test_table() -> None:
    assert terminal.table([("a", "n"), ("long", "10")], right=(1,)) == "a      n\nlong  10"


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e12, "2.0 TB")])
def test_sizes(size: float, text: str) -> None:
    assert terminal.size_text(size) == text
