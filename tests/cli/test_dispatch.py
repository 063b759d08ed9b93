"""Verbs, aliases, help, and errors of usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import topsprof
from topsprof import cli as dispatcher

import tops_kit


@pytest.mark.smoke
def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatcher.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {verb} " in text for verb in dispatcher.VERBS)


@pytest.mark.smoke
def test_help_loads_no_heavy_module() -> None:
    code = (
        "import sys; from topsprof.cli import main; main(['--help'])\n"
        "heavy = {'pyarrow', 'numpy', 'pandas', 'duckdb', 'tops_kit.topscc'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", _with_path(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _with_path(code: str) -> str:
    # an editable install is no folder on sys.path but a finder, which a Python without site does not load
    folders = [str(Path(str(module.__file__)).parent.parent) for module in (topsprof, tops_kit)]
    return f"import sys; sys.path[:] = {[*folders, *sys.path]!r}\n{code}"


@pytest.mark.smoke
def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatcher.main(["--version"]) == 0
    name, version = capsys.readouterr().out.split()
    assert name == "topsprof" and version[0].isdigit()


@pytest.mark.smoke
@pytest.mark.parametrize(("word", "meant"), [("stat", "stats"), ("imprt", "import"), ("profil", "profile")])
def test_unknown_verb_is_one_line_with_a_suggestion(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatcher.main([word]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"'{meant}'" in error


@pytest.mark.smoke
@pytest.mark.parametrize("words", [["run", "--dur", "3", "true"], ["run", "--outp", "x", "true"]])
def test_options_are_not_abbreviated(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    # an abbreviation would change its meaning when a later version adds an option
    assert dispatcher.main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "--duraton", "3", "true"], "--duration"),
        (["run", "--duraton=3", "true"], "--duration"),
        (["run", "--stat", "--", "true"], "--stats"),
        (["stats", "--reprot", "x", "y"], "--report"),
        (["sessions", "--jsn"], "--json"),
        (["sessions", "--qqqqqq"], ""),
    ],
)
def test_a_mistyped_option_gets_a_suggestion(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatcher.main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words[1] in error
    assert (f"did you mean {meant}?" if meant else "--help") in error


@pytest.mark.smoke
def test_export_without_a_type_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatcher.main(["export", "x"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "-t TYPE" in error and "chrome, perfetto" in error


@pytest.mark.smoke
@pytest.mark.parametrize("verb", list(dispatcher.VERBS))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatcher.main([verb, "--help"]) == 0
    assert f"topsprof {verb}" in capsys.readouterr().out


@pytest.mark.smoke
@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("words", [["--help"], *([verb, "--help"] for verb in dispatcher.VERBS)])
def test_help_fits_the_terminal(
    words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert dispatcher.main(words) == 0
    lines = re.sub("\x1b[^m]*m", "", capsys.readouterr().out).splitlines()
    # examples stay in one line, to be copied
    assert max(len(line) for line in lines if not line.startswith("  topsprof ")) <= min(columns, 100)


@pytest.mark.smoke
def test_an_option_may_stand_between_the_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatcher.main(["sql", str(tmp_path / "none"), "-f", "csv", "select 1"]) == 2
    assert "unrecognized" not in capsys.readouterr().err


def test_a_missing_module_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(dispatcher.VERBS, "later", ("no_such_module", "of a later version"))
    assert dispatcher.main(["later"]) == 2
    assert capsys.readouterr().err == "topsprof: 'later' is not part of this version of topsprof\n"


def test_the_vendors_spelling_without_a_verb_runs(cli: Any) -> None:
    done = cli("--print-app-log", "-o", "x", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert (cli.cwd / "x.topsprof").is_dir()


def test_profile_is_run(cli: Any) -> None:
    done = cli("profile", "--force-overwrite=true", "-o", "x", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")


def test_a_reader_that_goes_away_is_no_error(cli: Any) -> None:
    end, begin = os.pipe()
    os.close(end)
    process = cli.start("--help", stdout=begin)
    os.close(begin)
    _, error = process.communicate(timeout=60)
    assert error == b""


@pytest.mark.parametrize("verb", ["run", "start", "stop", "sessions", "doctor"])
def test_recording_says_that_it_needs_linux(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert dispatcher.main([verb, *(["true"] if verb == "run" else [])]) == 2
    error = capsys.readouterr().err
    assert "needs Linux" in error and error.count("\n") == 1


def test_later_options_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatcher.main(["run", "--export-visual-profiler", "true"]) == 2
    assert "not part of this version" in capsys.readouterr().err
