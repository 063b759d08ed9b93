"""The argument parser of a verb: errors of one line, and help that fits the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from topsprof import terminal
from topsprof.textwidth import wrap

EXIT_USAGE: Final = 2

_WIDEST: Final = 100
"""Longer lines are hard to read, however wide the terminal."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def __init__(self, verb: str, summary: str) -> None:
        super().__init__(
            prog=f"topsprof {verb}",
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self._positionals.title = "arguments"

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """`parse_args`, with options anywhere between the arguments; an error of an unknown long option names
        the one that was probably meant."""
        whole = any(action.nargs == argparse.REMAINDER for action in self._actions)  # what follows isn't ours
        parse = self.parse_known_args if whole else self.parse_known_intermixed_args
        found, unknown = parse(words)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return found

    def _meant(self, unknown: Sequence[str]) -> str:
        import difflib

        options = [name for name in self._option_string_actions if name.startswith("--") and "=" not in name]
        for word in unknown:
            name = word.partition("=")[0]
            close = difflib.get_close_matches(name, options, n=1) if name.startswith("--") else []
            if close:
                return f"; did you mean {close[0]}?"
        return ""

    def error(self, message: str) -> NoReturn:
        terminal.error(f"{message} (see '{self.prog} --help')", mark=self.prog)
        self.exit(EXIT_USAGE)


class _Formatter(argparse.HelpFormatter):
    """Help with the value of an option said once, examples as they are, and headings that stand out."""

    def __init__(self, prog: str) -> None:
        import shutil  # loads compression libraries, for which only help has the time

        width = min(shutil.get_terminal_size().columns, _WIDEST) - 2
        super().__init__(prog, max_help_position=28, width=width)

    def start_section(self, heading: str | None) -> None:
        super().start_section(
            heading if heading is None else terminal.styled(heading, "bold", stream=sys.stdout)
        )

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(sorted(action.option_strings, key=lambda name: name.startswith("--")))
        if action.nargs == 0:
            return names
        if action.nargs == argparse.REMAINDER:
            return f"{names} {action.metavar} ..."
        return f"{names} {self._format_args(action, self._get_default_metavar_for_optional(action))}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs, filled; those whose lines are indented stay as they are."""
        paragraphs = []
        for paragraph in text.strip("\n").split("\n\n"):
            lines = paragraph.split("\n")
            if not any(line.startswith(" ") for line in lines):
                lines = wrap(" ".join(lines), width - len(indent))
            paragraphs.append("\n".join(indent + line for line in lines))
        return "\n\n".join(paragraphs)
