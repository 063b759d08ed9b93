"""`topsprof run`: the program's own behaviour is untouched, and its session is where it was asked for."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof.capture import record
from topsprof.capture.program import Program

ANNOTATED = "import topstx\nwith topstx.annotate('work'):\n    topstx.mark('here')\n"


@pytest.mark.smoke
def test_an_annotated_program_is_recorded(cli: Any) -> None:
    done = cli("run", "--strict", "-o", "a", "--", sys.executable, cli.script(ANNOTATED))
    assert (done.returncode, done.stdout) == (0, "")
    *before, last = done.stderr.splitlines()
    assert last == "topsprof: session: a.topsprof"
    # without a compiler nothing can be sampled, which one line says
    assert not before or (len(before) == 1 and "sampling needs topsprof's C extension" in before[0])
    assert cli.names("a.topsprof") == ["here", "work"]
    assert not (cli.cwd / "a.topsprof" / "control").exists()


@pytest.mark.smoke
def test_exit_code_output_and_input_are_the_programs(cli: Any) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('to stderr', file=sys.stderr); sys.exit(37)"
    done = cli("run", sys.executable, "-c", code, input=b"some words")
    assert (done.returncode, done.stdout) == (37, "SOME WORDS\n")
    assert done.stderr.splitlines()[0] == "to stderr"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_how_a_short_program_died_is_known(number: int, cli: Any) -> None:
    """It may be gone before the collector knows of it."""
    program = cli.script(f"import os, topstx\ntopstx.mark('here')\nos.kill(os.getpid(), {int(number)})\n")
    for name in ("a", "b", "c"):
        assert cli("run", "-o", name, "--", sys.executable, program).returncode == 128 + number
        (row,) = cli.table(f"{name}.topsprof", "process")
        assert (row["exit_status"], row["ended_by"]) == (-number, "signal")


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


def test_a_module_needs_no_python(cli: Any) -> None:
    cli.script("import sys; print(*sys.argv[1:])\n" + ANNOTATED, "script.py")
    done = cli("run", "-o", "b", "-m", "script", "--", "-o", "c")
    assert (done.returncode, done.stdout) == (0, "-- -o c\n")
    assert cli.names("b.topsprof") == ["here", "work"]


def test_patterns_name_the_programs_pid_and_death_by_a_signal_is_128_and_its_number(cli: Any) -> None:
    command = ["sh", "-c", "echo $$; kill -9 $$"]
    done = cli("run", "-o", "s-%p-%q{WHO}", "--", *command, env={"WHO": "me"})
    assert done.returncode == 137
    folder = cli.cwd / f"s-{done.stdout.strip()}-me.topsprof"
    assert json.loads((folder / "session.json").read_text())["attributes"]["exit_code"] == 137


def test_nothing_is_overwritten_unasked(cli: Any) -> None:
    assert cli("run", "-o", "a", cli.script(ANNOTATED)).returncode == 0  # by our Python: it is not executable
    assert cli.names("a.topsprof") == ["here", "work"]
    again = cli("run", "-o", "a", "--", "touch", "ran")
    assert again.returncode == 2 and "use -f" in again.stderr
    assert not (cli.cwd / "ran").exists()
    assert cli("run", "-f", "-o", "a", "--", "touch", "ran").returncode == 0
    assert cli.names("a.topsprof") == []


def test_force_keeps_the_old_session_when_the_program_does_not_start(cli: Any) -> None:
    assert cli("run", "-o", "a", cli.script(ANNOTATED)).returncode == 0
    broken = cli.script("#!/no/such/interpreter\n", "broken")
    broken.chmod(0o755)
    assert cli("run", "-f", "-o", "a", "--", broken).returncode == 127
    assert cli.names("a.topsprof") == ["here", "work"]
    forgotten = cli.cwd / ".a.topsprof.4194305.old"  # of a topsprof that was killed; no pid is so high
    forgotten.mkdir()
    assert cli("run", "-f", "-o", "a", "--", "true").returncode == 0
    assert cli.names("a.topsprof") == []
    assert [path.name for path in cli.cwd.glob(".*")] == []


def test_force_removes_sessions_only(cli: Any) -> None:
    folder = cli.cwd / "mine.topsprof"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    done = cli("run", "-f", "-o", "mine", "true")
    assert done.returncode == 2 and "not a session" in done.stderr
    assert (folder / "thesis.txt").exists()


def test_a_folder_that_is_not_there_is_not_made(cli: Any) -> None:
    done = cli("run", "-o", "nosuch/dir/x", "--", "touch", "ran")
    assert done.returncode == 2 and "'nosuch/dir' does not exist" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (cli.cwd / "nosuch").exists() and not (cli.cwd / "ran").exists()


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
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "file is a file" in done.stderr
    assert not (cli.cwd / "ran").exists()


def test_open_files_and_signal_settings_are_what_a_shell_gives(cli: Any, tmp_path: Path) -> None:
    code = (
        "import os, sys; print(*[line for line in open('/proc/self/status') if line[:6] in "
        "('SigBlk', 'SigIgn')], os.pread(int(sys.argv[1]), 99, 0))"
    )
    file = tmp_path / "data"
    file.write_text("through fd")
    with file.open("rb") as inherited:
        number = inherited.fileno()
        command = [sys.executable, "-S", "-c", code, str(number)]
        direct = subprocess.run(command, capture_output=True, check=True, pass_fds=[number])
        process = cli.start("run", "--", *command, pass_fds=[number])
        output, error = process.communicate(timeout=60)
    assert b"through fd" in output and output == direct.stdout
    assert b"nothing recorded: python -S" in error


@pytest.mark.parametrize(
    ("options", "program", "reason"),
    [
        ([], ["true"], "no process of the program has a recorder"),
        (["-p", "never"], ["{python}", "-c", "pass"], "'never' never began"),
    ],
)
def test_nothing_recorded_says_why(options: list[str], program: list[str], reason: str, cli: Any) -> None:
    words = [word.replace("{python}", sys.executable) for word in program]
    done = cli("run", "--sample", "off", *options, "--", *words)
    assert done.returncode == 0
    line = done.stderr.splitlines()[0]
    assert "nothing recorded" in line and reason in line


@pytest.mark.parametrize(
    ("words", "program", "reason"),
    [
        ([], ["-c", "pass"], "made no topstx call"),
        ([], ["-I", "-c", "pass"], "python -I"),
        ([], ["-E", "-c", "pass"], "python -E"),
        (["--delay", "1000"], ["-c", "pass"], "before its --delay of 1000 s"),
        (["-c", "topsProfilerApi"], ["-c", "pass"], "never called topstx.profiler_start"),
        (["--profile-from-start", "off"], ["-c", "pass"], "was never switched on"),
        (["-t", "none"], ["-c", "pass"], "-t none"),
        (["--topstx-domain-include", "io"], ["-c", "pass"], "domain that --topstx-domain-include"),
    ],
)
def test_reasons_for_nothing(words: list[str], program: list[str], reason: str, here: Any) -> None:
    active = here(*words)
    active.run(sys.executable, *program)
    assert active.names() == []
    said: list[str] = []
    argv = (sys.executable, *program)
    record.conclude(Program(sys.executable, argv), active.recording, 0, 1, said.append)
    assert "nothing recorded" in said[0] and reason in said[0]


def test_a_collector_that_has_not_ended_leaves_the_rest_unsaid(here: Any) -> None:
    active = here()
    active.run(sys.executable, "-c", "pass")
    active.names()
    active.recording.problem = "the collector does not end"
    program = Program("sh", ("sh",))
    said: list[str] = []
    record.conclude(program, active.recording, 0, 1, said.append)
    assert "made no topstx call" in said[1] or "no process" in said[1]  # it is complete: nothing to see above
    active.recording.collector.ended = False
    said.clear()
    assert not record.conclude(program, active.recording, 0, 1, said.append).readable
    assert said[0] == active.recording.problem and "not known yet" in said[1] and len(said) == 2


def test_disabled_by_the_environment(cli: Any) -> None:
    for sample in ("off", "1000"):
        done = cli(
            "run",
            "--sample",
            sample,
            "--",
            cli.script(ANNOTATED + "for i in range(10**7): pass\n"),
            env={"TOPSTX_DISABLE": "1"},
        )
        assert done.returncode == 0 and "recorded: TOPSTX_DISABLE is set" in done.stderr


def test_strict_tells_an_incomplete_session_by_its_code_and_default_names_count_up(cli: Any) -> None:
    for number, (program, code) in enumerate(((["true"], 99), (["sh", "-c", "exit 3"], 3)), 1):
        done = cli("run", "--strict", *program)
        assert done.returncode == code
        assert f"report{number}.topsprof" in done.stderr


def test_a_log_file_takes_our_messages_and_the_programs_words_stay_its_own(cli: Any) -> None:
    cli.script('echo "shell $*"; echo err >&2', "tool").chmod(0o755)  # no first line: sh runs it
    words = ["-o", "b", "--", "--strict", "-h"]
    done = cli("run", "--log-file", "log", "-o", "a", "./tool", *words)
    assert (done.stdout, done.stderr) == ("shell -o b -- --strict -h\n", "err\n")
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


@pytest.mark.parametrize("streams", [">&- 2>&-", "<&- >&- 2>&-", "2>&-"])
def test_closed_streams(streams: str, cli: Any) -> None:
    words = shlex.join(cli.command("run", "-o", "a", "--", sys.executable, str(cli.script(ANNOTATED))))
    done = subprocess.run(
        ["sh", "-c", f"{words} {streams}"], cwd=cli.cwd, env=cli.environ, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cli.names("a.topsprof") == ["here", "work"]


def test_nobody_who_reads_our_messages_costs_neither_the_program_nor_its_exit_code(cli: Any) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    shell = "trap 'exit 6' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done"
    process = cli.start("run", "--duration", "0", "-o", "a", "--", "sh", "-c", shell, stderr=writer)
    os.close(writer)
    assert process.wait(60) == 6


@pytest.mark.parametrize("name", [".hidden", "a" * 220])
def test_any_file_name_names_a_session(name: str, cli: Any) -> None:
    assert cli("run", "-o", name, "true").returncode == 0
    assert (cli.cwd / f"{name}.topsprof").is_dir()


def test_names_and_words_that_are_no_utf8(cli: Any) -> None:
    done = cli("run", "-o", os.fsdecode(b"s\xff"), "--", "sh", "-c", "exit 3", os.fsdecode(b"\xfe"))
    assert done.returncode == 3
    manifest = json.loads((cli.cwd / os.fsdecode(b"s\xff.topsprof") / "session.json").read_text())
    assert manifest["command"][-1] == "\\xfe"


def test_an_unknown_export_is_told_before_the_program_runs(cli: Any) -> None:
    done = cli("run", "--export", "csv,nosuch", "--", "touch", "ran")
    assert done.returncode == 2 and "nosuch" in done.stderr and done.stderr.count("\n") == 1
    assert list(cli.cwd.iterdir()) == []


def test_a_full_disk_is_one_line(cli: Any) -> None:
    with Path("/dev/full").open("wb") as full:
        process = cli.start("--help", stdout=full)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (2, b"topsprof: No space left on device\n")


def test_ignored_children_are_no_error(cli: Any) -> None:
    (cli.cwd / "a.topsprof").mkdir()
    shell = f"trap '' CHLD; exec {shlex.join(cli.command('run', '-o', 'a', 'true'))}"
    done = subprocess.run(
        ["bash", "-c", shell], cwd=cli.cwd, env=cli.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
