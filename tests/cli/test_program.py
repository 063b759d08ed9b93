"""Finding the program that the words of a command line mean."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from topsprof.capture.program import Program, ProgramError, default_python, resolve

pytestmark = pytest.mark.smoke


def _file(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_program_on_path(tmp_path: Path) -> None:
    tool = _file(tmp_path / "tool")
    assert resolve(["tool", "-x"], environ={"PATH": str(tmp_path)}) == Program(str(tool), ("tool", "-x"))


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="needs POSIX permissions")
def test_exit_codes_are_a_shells(tmp_path: Path) -> None:
    plain = _file(tmp_path / "plain", mode=0o644)
    for word, code in (
        (str(plain), 126),
        (str(tmp_path), 126),
        (str(tmp_path / "none"), 127),
        ("no-such-tool", 127),
    ):
        with pytest.raises(ProgramError) as caught:
            resolve([word])
        assert caught.value.exit_code == code
        assert "\n" not in str(caught.value)


def test_a_script_without_x_is_run_by_python(tmp_path: Path) -> None:
    script = _file(tmp_path / "s.py", mode=0o644)
    assert resolve([str(script), "a"], environ={}) == Program(
        sys.executable, (sys.executable, str(script), "a")
    )


def test_an_executable_script_is_run_by_itself(tmp_path: Path) -> None:
    script = _file(tmp_path / "s.py")
    assert resolve([str(script), "a"]) == Program(str(script), (str(script), "a"))


def test_a_module() -> None:
    assert resolve(["json.tool", "-h"], module=True, environ={}).argv == (
        sys.executable,
        "-m",
        "json.tool",
        "-h",
    )


def test_the_active_environments_python_is_used(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = _file(tmp_path / "bin" / "python")
    assert default_python({"VIRTUAL_ENV": str(tmp_path)}) == str(python)
    assert default_python({"VIRTUAL_ENV": str(tmp_path / "gone")}) == sys.executable


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["-I", "x.py"], "-I"),
        (["-uE", "x.py"], "-E"),
        (["-X", "dev", "-S", "-m", "pip"], "-S"),
        (["-W", "ignore", "x.py", "-I"], None),
        (["-Wignore", "-s", "x.py"], None),
        (["-c", "print()", "-I"], None),
        (["-m", "mod", "-E"], None),
        (["-Im", "mod"], "-I"),
        (["--check-hash-based-pycs", "never", "-I", "x"], "-I"),
        (["--", "-I"], None),
        (["-", "-I"], None),
        ([], None),
    ],
)
def test_flags_that_keep_a_python_from_being_recorded(words: list[str], flag: str | None) -> None:
    assert Program("/usr/bin/python3.12", ("python3.12", *words)).python_flag == flag


def test_flags_of_a_scripts_first_line(tmp_path: Path) -> None:
    isolated = _file(tmp_path / "tool", "#!/usr/bin/env -S python3 -I\n")
    assert Program(str(isolated), ("tool",)).python_flag == "-I"
    plain = _file(tmp_path / "other", f"#!{sys.executable}\n")
    assert Program(str(plain), ("other", "-I")).python_flag is None
    assert Program(str(plain), ("other",)).python == sys.executable
    shell = _file(tmp_path / "shell")
    assert Program(str(shell), ("shell", "-I")).python is None
