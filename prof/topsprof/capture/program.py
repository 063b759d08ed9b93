"""What is to be run: the words after the options, resolved to an executable file as a shell would."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError

EXIT_NOT_EXECUTABLE: Final = 126
EXIT_NOT_FOUND: Final = 127

PYTHON_NAME: Final = re.compile(r"(python|pypy)[0-9.]*t?(\.exe)?$")
"""Names of files that are Pythons."""
_FLAGS_WITH_VALUE: Final = "WX"
_FLAGS_THAT_END_THE_OPTIONS: Final = "cm"


class ProgramError(UserError):
    """The program can't be started; the exit code is the one that a shell gives."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Program:
    """An executable file and the arguments it gets (`argv[0]` included)."""

    executable: str
    argv: tuple[str, ...]

    @property
    def python_flag(self) -> str | None:
        """The option of a Python program that keeps it from being recorded, such as `-I`, if any."""
        interpreter = _interpreter_words(self)
        return _isolating_flag(interpreter) if interpreter else None

    @property
    def python(self) -> str | None:
        """The Python that this program starts, as far as its file tells; None for another kind of program."""
        words = _interpreter_words(self)
        return words[0] if words else None


def resolve(
    words: Sequence[str], *, module: bool = False, environ: Mapping[str, str] = os.environ
) -> Program:
    """The program that `words` name; with `module` they are a Python module and its arguments.

    A Python script that is not executable is run by Python. Raises ProgramError with 127 for a program that
    is not found and 126 for one that can't be executed.
    """
    if module:
        python = default_python(environ)
        return Program(python, (python, "-m", *words))
    name = words[0]
    if name.endswith(".py") and Path(name).is_file() and not os.access(name, os.X_OK):
        python = default_python(environ)
        return Program(python, (python, *words))
    if "/" in name:
        return Program(_checked(name), tuple(words))
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is not None:
        return Program(found, tuple(words))
    if name.endswith(".py") and Path(name).is_file():  # executable, in the current folder
        return Program(_checked(f"./{name}"), (f"./{name}", *words[1:]))
    raise ProgramError(f"'{name}' is not found: check the name and PATH", EXIT_NOT_FOUND)


def _checked(path: str) -> str:
    try:
        mode = Path(path).stat().st_mode
    except PermissionError:
        raise ProgramError(
            f"'{path}' can't be reached: a folder on the way denies it", EXIT_NOT_EXECUTABLE
        ) from None
    except OSError:
        raise ProgramError(f"'{path}' is not found: check the path", EXIT_NOT_FOUND) from None
    if stat.S_ISDIR(mode):
        raise ProgramError(f"'{path}' is a folder: name a program in it", EXIT_NOT_EXECUTABLE)
    if not os.access(path, os.X_OK):
        raise ProgramError(
            f"'{path}' is not executable: chmod +x it, or name its interpreter", EXIT_NOT_EXECUTABLE
        )
    return path


def default_python(environ: Mapping[str, str] = os.environ) -> str:
    """The Python for scripts and modules: the one of the active virtual environment, else our own."""
    active = environ.get("VIRTUAL_ENV")
    if active:
        candidate = Path(active) / "bin" / "python"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    return sys.executable


def _interpreter_words(program: Program) -> list[str] | None:
    """The Python command line that `program` amounts to: its own, or the one of its `#!` line."""
    if PYTHON_NAME.match(Path(program.executable).name):
        return [program.executable, *program.argv[1:]]
    try:
        with Path(program.executable).open("rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = os.fsdecode(first[2:]).split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    if not words or not PYTHON_NAME.match(Path(words[0]).name):
        return None
    found = shutil.which(words[0])
    return [found or words[0], *words[1:], program.executable]


def _isolating_flag(words: Sequence[str]) -> str | None:
    """The first of -I, -E, -S among a Python's own options: with these it ignores our environment."""
    position = 1
    while position < len(words) and words[position].startswith("-") and len(words[position]) > 1:
        word = words[position]
        if word.startswith("--"):
            if word == "--":
                return None
            position += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for index, letter in enumerate(word[1:], 1):
            if letter in "IES":
                return f"-{letter}"
            if letter in _FLAGS_THAT_END_THE_OPTIONS:
                return None
            if letter in _FLAGS_WITH_VALUE:
                position += index == len(word) - 1  # the value is the next word
                break
        position += 1
    return None
