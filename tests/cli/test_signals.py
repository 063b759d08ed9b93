"""Signals and job control: the program gets each exactly once, and the session closes well."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topsprof.capture.sampling import extension as sampling

from tops_kit.session import Session

COUNTER = """
import os, signal, sys, topstx
seen = []
def got(number, frame):
    seen.append(number)
    os.write(1, f"got {number}\\n".encode())  # print can't be entered again while it prints "up"
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
    signal.signal(getattr(signal, name), got)
topstx.mark("up")
print("up", flush=True)
sys.stdin.readline()
print("total", len(seen), flush=True)
"""
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

ReadLine = Callable[..., str]


def _closed_well(cli: Any, session: str) -> bool:
    return cli.names(session) == ["up"] and not (cli.cwd / session / "control").exists()


@pytest.mark.parametrize("whole_group", [True, False])
def test_a_signal_arrives_once(whole_group: bool, cli: Any, read_line: ReadLine) -> None:
    program = cli.script(COUNTER)
    process = cli.start(
        "run", "-o", "a", "--", sys.executable, program, stdin=-1, bufsize=0, start_new_session=True
    )
    assert read_line(process) == "up"
    for number in NUMBERS:
        (os.killpg if whole_group else os.kill)(process.pid, number)
        assert read_line(process) == f"got {int(number)}"
    process.stdin.write(b"\n")
    assert read_line(process) == f"total {len(NUMBERS)}"
    assert process.wait(60) == 0
    assert _closed_well(cli, "a.topsprof")


def test_a_program_that_dies_of_it(cli: Any, read_line: ReadLine) -> None:
    program = cli.script(
        "import signal, topstx\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "topstx.mark('up')\nprint('up', flush=True)\nsignal.pause()\n"
    )
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
    running = {
        number: cli.start("run", "-o", number.name, "--", sys.executable, program, bufsize=0)
        for number in codes
    }
    for number, process in running.items():
        assert read_line(process) == "up"
        process.send_signal(number)
    for number, process in running.items():
        assert process.wait(60) == codes[number]
        assert _closed_well(cli, f"{number.name}.topsprof")


class Terminal:
    """A process in a terminal of its own, of whose session it is the leader."""

    def __init__(self, command: list[str], cwd: Path, environ: dict[str, str]) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(command[0], command, environ)
        self.text = ""

    def wait_for(self, text: str) -> None:
        while text not in self.text:
            chunk = os.read(self.descriptor, 4096)
            assert chunk, self.text
            self.text += chunk.decode()

    def key(self, index: int) -> None:
        """Press a control key: index of a termios character such as VINTR."""
        os.write(self.descriptor, termios.tcgetattr(self.descriptor)[6][index])

    def wait(self) -> int:
        while True:
            try:
                if not (chunk := os.read(self.descriptor, 4096)):
                    break
            except OSError:  # EIO: the last process has closed it
                break
            self.text += chunk.decode()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_control_c_reaches_the_program_once(cli: Any) -> None:
    program = cli.script(COUNTER)
    terminal = Terminal(cli.command("run", "-o", "a", "--", sys.executable, program), cli.cwd, cli.environ)
    terminal.wait_for("up")
    terminal.key(termios.VINTR)
    terminal.wait_for("got 2")
    os.write(terminal.descriptor, b"\n")
    assert terminal.wait() == 0
    assert "total 1" in terminal.text
    assert _closed_well(cli, "a.topsprof")


def test_control_z_stops_and_fg_continues(cli: Any) -> None:
    # a shell with job control in the middle, as a person has it
    code = "import sys, topstx; topstx.mark('up'); print('up', flush=True); print(sys.stdin.readline())"
    program = cli.script(code)
    words = cli.command("run", "-o", "a", "--", sys.executable, str(program))
    shell = cli.script('set -m\n"$@"\necho "stopped $?"\nfg\necho "ended $?"\n', "job.sh")
    terminal = Terminal(["/bin/bash", str(shell), *words], cli.cwd, cli.environ)
    terminal.wait_for("up")
    terminal.key(termios.VSUSP)
    terminal.wait_for("stopped ")
    os.write(terminal.descriptor, b"hello\n")
    terminal.wait()
    assert "hello" in terminal.text and "ended 0" in terminal.text
    assert _closed_well(cli, "a.topsprof")


def test_a_killed_run_is_recorded_to_the_programs_end(
    cli: Any, read_line: ReadLine, until: Callable[..., Any]
) -> None:
    program = cli.script(
        "import os, topstx\ntopstx.mark('up')\nprint(os.getpid(), flush=True)\nos.read(0, 1)\n"
        "topstx.mark('later')\n"
    )
    process = cli.start("run", "-o", "a", "--", sys.executable, program, stdin=-1, bufsize=0)
    program_pid = read_line(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    helpers = [pid for pid in children if pid != program_pid]
    assert len(helpers) == 2  # the collector, and the witness of signals
    process.kill()
    process.wait()
    until(lambda: sum(_runs(pid) for pid in helpers) == 1)  # the witness is gone, the collector is not
    process.stdin.write(b"\n")  # the program itself goes on, unharmed
    until(lambda: not any(_runs(pid) for pid in helpers))
    assert cli.names("a.topsprof") == ["later", "up"]
    session = Session.open(cli.cwd / "a.topsprof")
    assert session.info["status"] == "complete"
    (entry,) = [e for e in session.ledger.entries if not e.clean and e.stream == "collector"]
    assert entry.code == "topsprof_killed" and entry.note.startswith("topsprof was killed: recording went on")


def test_samples_of_a_killed_run_end_and_the_ledger_says_where(
    cli: Any, read_line: ReadLine, until: Callable[..., Any]
) -> None:
    if sampling.problem():
        pytest.skip("sampling needs the C extension")
    program = cli.script(
        "import os, select\nprint(os.getpid(), flush=True)\n"
        "while not select.select([0], [], [], 0)[0]:\n    sum(range(10000))\n"
    )
    process = cli.start("run", "-o", "a", "--", sys.executable, program, stdin=-1, bufsize=0)
    read_line(process)
    until(lambda: list((cli.cwd / "a.topsprof" / "segments").glob("sample-*")))
    process.kill()
    process.wait()
    process.stdin.write(b"\n")
    until(lambda: not (cli.cwd / "a.topsprof" / "control").exists())
    session = Session.open(cli.cwd / "a.topsprof")
    (entry,) = [e for e in session.ledger.entries if not e.clean and e.stream.startswith("samples:")]
    assert (entry.kind, entry.code) == ("repaired", "samples_end")
    assert "topsprof was killed, and samples end" in entry.note


def _collector(process: Any) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    words = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children}
    return next(pid for pid, line in words.items() if b"tops_kit.collect" in line)


def test_a_shutdown_lets_programs_end_first(cli: Any, read_line: ReadLine, until: Callable[..., Any]) -> None:
    """The system sends SIGTERM to all processes at once; what a program still records is not lost."""
    program = cli.script(
        "import os, topstx\ntopstx.mark('up')\nprint(os.getpid(), flush=True)\nos.read(0, 1)\n"
        "topstx.mark('later')\n"
    )
    process = cli.start(
        "run", "-o", "a", "--", sys.executable, program, stdin=-1, bufsize=0,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}),
    )  # fmt: skip
    read_line(process)
    collector = _collector(process)
    os.kill(collector, signal.SIGTERM)  # which it takes, although whoever started topsprof held it back
    until(lambda: not _pending(collector))
    process.stdin.write(b"\n")
    assert process.wait() == 0
    assert cli.names("a.topsprof") == ["later", "up"]
    assert not (cli.cwd / "a.topsprof" / "control").exists()


def test_a_second_sigterm_ends_a_collector_at_once(
    cli: Any, read_line: ReadLine, until: Callable[..., Any]
) -> None:
    program = cli.script("import os\nprint(os.getpid(), flush=True)\nos.read(0, 1)\n")
    process = cli.start("run", "-o", "a", "--", sys.executable, program, stdin=-1, bufsize=0)
    read_line(process)
    collector = _collector(process)
    for _ in range(2):
        os.kill(collector, signal.SIGTERM)
        until(lambda: not _runs(str(collector)) or not _pending(collector))
    until(lambda: not _runs(str(collector)))  # while the program runs on
    process.stdin.write(b"\n")
    assert process.wait() == 0


def _pending(pid: int) -> bool:
    """Whether a SIGTERM waits to be taken by a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(
        int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1 for line in lines if line.startswith("ShdPnd:")
    )


def _runs(pid: str) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
