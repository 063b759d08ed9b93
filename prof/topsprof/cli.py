"""The `topsprof` command: finds the verb, loads its module, turns errors into one line and an exit code.

A verb's module is loaded only when it is used, so `topsprof --help` loads neither pyarrow nor any command.
Each module `topsprof.commands.<module>` offers `add_arguments(parser)` and `run(args) -> exit code`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

from tops_kit import libraries
from tops_kit.errors import UserError
from topsprof import faults, terminal
from topsprof.parser import EXIT_USAGE, Parser

VERBS: Final[dict[str, tuple[str, str]]] = {
    "run": ("run", "run a program and record it into a session"),
    "attach": ("attach", "sample a Python program that runs already"),
    "start": ("start", "switch the recording of a running session on"),
    "snapshot": ("snapshot", "write a session of the last seconds of a recording that keeps those only"),
    "stop": ("stop", "switch the recording of a running session off, or end the session"),
    "sessions": ("sessions", "list the sessions that are being recorded now"),
    "import": ("import_", "make a session of a trace file of another tool"),
    "stats": ("stats", "print summary tables of a session"),
    "sql": ("sql", "ask a session in SQL"),
    "export": ("export", "write a session in the format of another tool"),
    "info": ("info", "say what a session holds"),
    "pack": ("pack", "pack a session into one file"),
    "unpack": ("unpack", "make a session of a packed file"),
    "recover": ("recover", "complete a session whose recording crashed"),
    "dump": ("dump", "show what the threads and tasks of a running Python program do"),
    "doctor": ("doctor", "show what recording uses and is limited by on this machine"),
}
"""Verb -> (module in topsprof.commands, one line of help), in the order in which help lists them."""

ALIASES: Final[dict[str, str]] = {"profile": "run"}
"""Spellings of other profilers -> our verb."""

LEADING_OPTIONS: Final[dict[str, str]] = {"--import": "import", "--help-reports": "stats"}
"""Options that stand for a verb when a command line begins with them: the vendor's tool has no verbs."""

_PAGE_COLUMNS: Final = 80
_SESSION: Final = "A SESSION is a session folder, a packed one, or a trace file of another tool."
_FIRST_STEPS: Final = (
    ("topsprof run --stats -- python app.py", "record a program, sum it up"),
    ("topsprof stats trace.json.gz", "sum up a trace of another tool"),
    ("topsprof VERB --help", "options of a verb, examples"),
    ("topsprof --version", "version"),
)

EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


class Command(Protocol):
    """What a module of topsprof.commands offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _make_streams_safe()
    libraries.watch()
    try:
        code = dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        terminal.error(str(error))
        return error.exit_code
    except BrokenPipeError:
        # the reader of our output went away (`topsprof ... | head`): nothing is wrong
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        terminal.error("interrupted")
        return EXIT_INTERRUPTED
    except SystemExit as leaving:  # argparse: help and errors
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else EXIT_USAGE
    except Exception as error:
        line = faults.explained(error)
        if line is None:
            raise
        terminal.error(line)
        return EXIT_USAGE
    finally:
        _drop_output()


def _make_streams_safe() -> None:
    """See that messages can always be printed.

    Where we were started with closed streams /dev/null stands for them (closed again in what we start), so
    that no pipe gets their numbers. A file name that is no UTF-8 is shown with escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for good
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Where a stream takes no more, what is left goes nowhere: Python would make an error of it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def dispatch(words: list[str]) -> int:
    """Run one command line. Raises UserError, and SystemExit for help and errors of usage."""
    if not words or words[0] in ("-h", "--help", "help"):
        if len(words) == 2 and words[0] == "help":
            return _run_verb(words[1], ["--help"])
        print(overview())
        return 0
    if words[0] in ("-V", "--version", "version"):
        from topstx._version import VERSION

        print(f"topsprof {VERSION}")
        return 0
    first = words[0].partition("=")[0]
    if first in LEADING_OPTIONS:
        verb = LEADING_OPTIONS[first]
        if verb == "import":  # --import FILE and --import=FILE: the file is the verb's first argument
            return _run_verb(verb, [words[0].partition("=")[2], *words[1:]] if "=" in words[0] else words[1:])
        return _run_verb(verb, words)
    if first.startswith("-"):
        return _run_verb("run", words)
    return _run_verb(words[0], words[1:])


def _run_verb(word: str, rest: list[str]) -> int:
    verb = ALIASES.get(word, word)
    if verb not in VERBS:
        raise UserError(_unknown(word))
    command = load_command(verb)
    parser = Parser(verb, VERBS[verb][1])
    command.add_arguments(parser)
    return command.run(parser.parse(rest))


def load_command(verb: str) -> Command:
    """The module of `verb`. Raises UserError when this installation lacks it."""
    name = f"topsprof.commands.{VERBS[verb][0]}"
    try:
        return cast(Command, importlib.import_module(name))
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UserError(f"'{verb}' is not part of this version of topsprof") from None


def overview() -> str:
    """The text of `topsprof --help`, for the terminal that it goes to."""
    width = terminal.columns(sys.stdout) or _PAGE_COLUMNS
    indent = max(map(len, VERBS)) + 4
    lines = [
        "usage: topsprof VERB [options]",
        "",
        "Records programs and reads recordings and traces.",
        "",
        _bold("verbs:"),
        *(
            f"  {verb:<{indent - 2}}{terminal.hanging(text, width, indent)}"
            for verb, (_, text) in VERBS.items()
        ),
        "",
        terminal.hanging(_SESSION, width, 0),
        "",
        _bold("to begin with:"),
    ]
    indent = max(len(words) for words, _ in _FIRST_STEPS) + 4
    if indent + max(len(text) for _, text in _FIRST_STEPS) <= width:
        lines += [f"  {words:<{indent - 2}}{text}" for words, text in _FIRST_STEPS]
    else:
        lines += [f"  {words}\n      {text}" for words, text in _FIRST_STEPS]
    return "\n".join(lines)


def _bold(text: str) -> str:
    return terminal.styled(text, "bold", stream=sys.stdout)


def _unknown(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, [*VERBS, *ALIASES], n=1)
    if close:
        return f"unknown verb '{word}': did you mean '{close[0]}'?"
    hint = " (to record a program: topsprof run -- PROGRAM)"
    return f"unknown verb '{word}': 'topsprof --help' lists the verbs{hint}"


if __name__ == "__main__":
    sys.exit(main())
