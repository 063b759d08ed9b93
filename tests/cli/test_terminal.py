"""Colour, progress and tables: for people only."""

from __future__ import annotations

import io
import sys

import pytest
from topsprof import terminal
from topsprof.textwidth import display_width

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


def test_columns_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.columns(io.StringIO()) is None
    monkeypatch.setenv("COLUMNS", "132")
    assert terminal.columns(Tty()) == 132
    monkeypatch.setenv("COLUMNS", "wide")
    assert terminal.columns(Tty()) == 80  # it has no size: as if it were an old one


def test_messages_are_one_line_except_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a message that is longer than the terminal is wide; it names '/a/path/that/nobody/breaks'"
    terminal.error(text)
    assert capsys.readouterr().err == f"topsprof: {text}\n"
    stream = Tty()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", stream)
    terminal.warn(text)
    lines = stream.getvalue().splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= 40
    assert all(line.startswith(" " * len("topsprof: ")) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == f"topsprof: {text}"


def test_a_table_keeps_to_its_width() -> None:
    rows = [("name", "pid", "command"), ("训练", "7", "python train.py --epochs 3")]
    assert terminal.table(rows, right=(1,), width=24) == "name  pid  command\n训练    7  python tra..."
    assert terminal.table(rows, right=(1,), width=15) == "name  pid\n训练    7"


def test_a_name_in_a_table_can_not_command_the_terminal() -> None:
    assert "\x1b" not in terminal.table([("\x1b[2J",)])


def test_a_long_detail_of_progress_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "50")
    stream = Tty()
    with terminal.Progress("work", 10, stream=stream) as bar:
        bar.update(5, detail="训" * 100)
    line = stream.getvalue().split("\x1b")[0].lstrip("\r")
    assert display_width(line) <= 49
