"""`topsprof run`: the program's own behaviour is untouched, and its session is where it was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ANNOTATED = "import topstx\nwith topstx.annotate('work'):\n    topstx.mark('here')\n"


@pytest.mark.smoke
def test_an_annotated_program_is_recorded(cli: Any) -> None:
    done = cli("run", "-o", "a", "--", sys.executable, cli.script(ANNOTATED))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == ["topsprof: session: a.topsprof"]
    assert cli.names("a.topsprof") == ["here", "work"]
    assert not (cli.cwd / "a.topsprof" / "control").exists()


@pytest.mark.smoke
def test_exit_code_output_and_input_are_the_programs(cli: Any) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('to stderr', file=sys.stderr); sys.exit(37)"
    done = cli("run", sys.executable, "-c", code, input=b"some words")
    assert (done.returncode, done.stdout) == (37, "SOME WORDS\n")
    assert done.stderr.splitlines()[0] == "to stderr"


def test_death_by_a_signal_is_128_and_its_number(cli: Any) -> None:
    done = cli("run", "-o", "a", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 137
    assert (cli.cwd / "a.topsprof" / "session.json").exists()


@pytest.mark.parametrize(("word", "code"), [("./nothing", 127), ("no-such-tool", 127), ("/", 126)])
def test_what_cannot_be_started_leaves_nothing(word: str, code: int, cli: Any) -> None:
    done = cli("run", "--", word)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert list(cli.cwd.iterdir()) == []


def test_a_missing_interpreter(cli: Any) -> None:
    cli.script("#!/no/such/interpreter\n", "tool").chmod(0o755)
    done = cli("run", "--", "./tool")
    assert done.returncode == 127
    assert "interpreter is not found" in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in cli.cwd.iterdir()] == ["tool"]


def test_a_script_without_a_first_line_is_run_by_sh(cli: Any) -> None:
    cli.script("echo shell $1\n", "tool").chmod(0o755)
    assert cli("run", "--", "./tool", "x").stdout == "shell x\n"


def test_a_python_script_and_a_module_need_no_python(cli: Any) -> None:
    cli.script("import sys; print(*sys.argv[1:])\n" + ANNOTATED, "script.py")
    assert cli("run", "-o", "a", "script.py").returncode == 0
    assert cli.names("a.topsprof") == ["here", "work"]
    done = cli("run", "-o", "b", "-m", "script", "--", "-o", "c")
    assert (done.returncode, done.stdout) == (0, "-- -o c\n")
    assert cli.names("b.topsprof") == ["here", "work"]


def test_options_after_the_program_are_its_own(cli: Any) -> None:
    done = cli("run", "-o", "a", "echo", "-o", "b", "--", "--strict", "-h")
    assert done.stdout == "-o b -- --strict -h\n"


def test_default_names_count_up(cli: Any) -> None:
    for number in (1, 2):
        assert f"report{number}.topsprof" in cli("run", "true").stderr


def test_patterns_name_the_programs_pid(cli: Any) -> None:
    done = cli("run", "-o", "s-%p-%q{WHO}", "--", "sh", "-c", "echo $$", env={"WHO": "me"})
    assert (cli.cwd / f"s-{done.stdout.strip()}-me.topsprof").is_dir()


def test_nothing_is_overwritten_unasked(cli: Any) -> None:
    program = cli.script(ANNOTATED)
    assert cli("run", "-o", "a", program).returncode == 0
    again = cli("run", "-o", "a", "--", "touch", "ran")
    assert again.returncode == 2 and "use -f" in again.stderr
    assert not (cli.cwd / "ran").exists()
    assert cli("run", "-f", "-o", "a", "--", "touch", "ran").returncode == 0
    assert cli.names("a.topsprof") == []


def test_force_removes_sessions_only(cli: Any) -> None:
    folder = cli.cwd / "mine.topsprof"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    done = cli("run", "-f", "-o", "mine", "true")
    assert done.returncode == 2 and "not a session" in done.stderr
    assert (folder / "thesis.txt").exists()


def test_spaces_and_unicode(cli: Any) -> None:
    folder = cli.cwd / "a b" / "ünï"
    folder.mkdir(parents=True)
    (folder / "prög.py").write_text(ANNOTATED, encoding="utf-8")
    done = cli("run", "-o", "größe 1", "--", sys.executable, "prög.py", "ä b", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert cli.names(str(folder / "größe 1.topsprof")) == ["here", "work"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(cli: Any) -> None:
    cli.cwd.chmod(0o555)
    done = cli("run", "true")
    assert done.returncode == 2 and "-o" in done.stderr and done.stderr.count("\n") == 1


def test_an_output_that_cannot_be_made(cli: Any) -> None:
    (cli.cwd / "file").write_text("")
    done = cli("run", "-o", "file/x", "--", "touch", "ran")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not (cli.cwd / "ran").exists()


def test_inherited_files_stay_open(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("through fd")
    descriptor = os.open(file, os.O_RDONLY)
    process = cli.start("run", "--", "cat", f"/proc/self/fd/{descriptor}", pass_fds=[descriptor])
    os.close(descriptor)
    assert process.communicate(timeout=60)[0] == b"through fd"


def test_signal_settings_are_what_a_shell_gives(cli: Any) -> None:
    code = "print(*[line for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn')])"
    command = ["-S", "-c", code]
    direct = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert _settings(cli("run", "--", sys.executable, *command).stdout) == _settings(direct.stdout)


def _settings(status: str) -> list[int]:
    """The masks, less signals 32 and 33, which glibc takes for itself as soon as a process has threads."""
    return [int(word, 16) & ~(0b11 << 31) for word in status.split() if word[-1] != ":"]


@pytest.mark.parametrize(
    ("options", "program", "reason"),
    [
        ([], ["true"], "no process of the program has a recorder"),
        ([], ["{python}", "-c", "pass"], "made no topstx call"),
        ([], ["{python}", "-I", "-c", "pass"], "python -I"),
        ([], ["{python}", "-E", "-c", "pass"], "python -E"),
        ([], ["{python}", "-S", "-c", "pass"], "python -S"),
        (["-p", "never"], ["{python}", "-c", "pass"], "'never' never began"),
        (["--delay", "1000"], ["{python}", "-c", "pass"], "before its --delay"),
        (["-t", "none"], ["{python}", "-c", "pass"], "-t none"),
    ],
)
def test_nothing_recorded_says_why(options: list[str], program: list[str], reason: str, cli: Any) -> None:
    words = [word.replace("{python}", sys.executable) for word in program]
    done = cli("run", *options, "--", *words)
    assert done.returncode == 0
    line = done.stderr.splitlines()[0]
    assert "nothing recorded" in line and reason in line


def test_disabled_by_the_environment(cli: Any) -> None:
    done = cli("run", "--", cli.script(ANNOTATED), env={"TOPSTX_DISABLE": "1"})
    assert done.returncode == 0 and "TOPSTX_DISABLE is set" in done.stderr


def test_strict_tells_an_incomplete_session_by_its_code(cli: Any) -> None:
    assert cli("run", "--strict", cli.script(ANNOTATED)).returncode == 0
    assert cli("run", "--strict", "true").returncode == 99
    assert cli("run", "--strict", "sh", "-c", "exit 3").returncode == 3


def test_the_exit_code_is_kept_with_the_session(cli: Any) -> None:
    cli("run", "-o", "a", "--", "sh", "-c", "exit 3")
    attributes = json.loads((cli.cwd / "a.topsprof" / "session.json").read_text())["attributes"]
    assert attributes["exit_code"] == 3


def test_a_log_file_takes_our_messages(cli: Any) -> None:
    done = cli("run", "--log-file", "log", "-o", "a", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert "session: a.topsprof" in (cli.cwd / "log").read_text()


def test_stats_come_after_the_programs_output(cli: Any) -> None:
    done = cli("run", "--stats=true", "-o", "a", cli.script("print('mine')\n" + ANNOTATED))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine\n") and "work" in done.stdout


def test_a_recording_within_a_recording(cli: Any) -> None:
    inner = [*cli.command("run", "-o", "inner", "--"), sys.executable, str(cli.script(ANNOTATED))]
    done = cli("run", "-o", "outer", "--", *inner)
    assert done.returncode == 0, done.stderr
    assert cli.names("inner.topsprof") == ["here", "work"]
    assert cli.names("outer.topsprof") == []
