"""Running the command as a user does: in a folder of its own, as a process. And, for what is not about that
process, recording with this one in its place, which takes a tenth of the time.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 60.0


@dataclass
class Cli:
    """`topsprof` in the folder `cwd`, with a runtime folder and a cache of the test's own."""

    cwd: Path
    environ: dict[str, str]
    running: list[subprocess.Popen[bytes]]
    begin: list[str] = field(default_factory=lambda: [sys.executable, "-m", "topsprof"])

    def command(self, *words: str | Path) -> list[str]:
        return [*self.begin, *map(str, words)]

    def __call__(
        self,
        *words: str | Path,
        input: bytes = b"",
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words),
            cwd=cwd or self.cwd,
            env=self.environ | (env or {}),
            input=input,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def start(self, *words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start it; stdout and stderr are pipes unless `options` of Popen say otherwise."""
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        env = self.environ | options.pop("env", {})
        process = subprocess.Popen(self.command(*words), cwd=self.cwd, env=env, **(settings | options))
        self.running.append(process)
        return process

    def script(self, text: str, name: str = "program.py") -> Path:
        path = self.cwd / name
        path.write_text(text, encoding="utf-8")
        return path

    def table(self, session: str, table: str) -> list[dict[str, Any]]:
        """Rows of a table of a session, in no special order; none when the session lacks it."""
        from tops_kit.session import Session

        opened = Session.open(self.cwd / session)
        return opened.table(table).to_pylist() if table in opened.tables() else []

    def names(self, session: str) -> list[str]:
        """Names of the ranges and marks of a session, sorted."""
        return sorted(row["name"] for row in self.table(session, "tx"))


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests share, as building the recorder for another Python takes seconds."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cli(tmp_path: Path, cache_home: Path) -> Iterator[Cli]:
    if sys.platform != "linux":
        pytest.skip("recording needs Linux")
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    work = tmp_path / "work"
    work.mkdir()
    # TOPSKIT_REQUIRE_C is for this Python's extensions, not for those of the Pythons that the tests record
    dropped = ("TOPSTX_SESSION", "TOPSTX_DISABLE", "TOPSKIT_REQUIRE_C", "VIRTUAL_ENV", "NO_COLOR")
    environ = {key: value for key, value in os.environ.items() if key not in dropped}
    environ |= {"XDG_RUNTIME_DIR": str(runtime), "XDG_CACHE_HOME": str(cache_home)}
    started: list[subprocess.Popen[bytes]] = []
    yield Cli(work, environ, started)
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            pipe.close()  # not read to the end: a program that was left behind may hold the other end


@pytest.fixture(scope="session", autouse=True)
def _signals_as_in_a_terminal() -> Iterator[None]:
    """Programs die of the signals that tests send, also where the tests run in the background (nohup, &)."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Here:
    """A recording as `topsprof run` makes it, of programs that the test starts one after the other."""

    def __init__(self, cli: Cli, words: tuple[str, ...]) -> None:
        from topsprof.capture import claim, recording
        from topsprof.commands import run

        parser = argparse.ArgumentParser(allow_abbrev=False)
        run.add_arguments(parser)
        options = run.record_options(parser.parse_args(["-o", str(cli.cwd / "a"), *words, "program"]))
        self._cli = cli
        self.recording = recording.Recording(claim.claim_folder(options, 1).folder, options, ["program"])
        self.recording.begin()

    def run(self, *command: str | Path, env: dict[str, str] | None = None) -> str:
        """Run a program to its end, recorded; what it wrote, stderr after stdout. Fails when it fails."""
        from topsprof.capture import inject

        done = subprocess.run(
            [*map(str, command)],
            cwd=self._cli.cwd,
            env=inject.environment(self.recording.folder, self._cli.environ | (env or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode() + done.stderr.decode()

    def names(self) -> list[str]:
        """End the recording; names of its ranges and marks, sorted."""
        self.recording.close()
        assert self.recording.problem == ""
        return self._cli.names("a.topsprof")


@pytest.fixture
def here(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Here]]:
    """Begin a recording with options of `run`; the test's own process is its collector."""
    import tops_kit.collect
    from tops_kit.collect import backend, collector, control, finishing, journal
    from tops_kit.session import SessionWriter

    class InPlace:
        process = argparse.Namespace(poll=lambda: None)
        ended = True  # for who concludes

        def __init__(self, folder: Path, command: list[str], **_: Any) -> None:
            writer = SessionWriter.create(folder, command=command)
            switches = control.open_control(folder)
            self._collector = collector.begin(folder, switches, writer, backend.load()[0])
            self._collector.beat()

        def stop(self) -> None:
            finishing.finish(self._collector, "complete")
            assert self._collector.failure is None

    monkeypatch.setattr(tops_kit.collect, "start", InPlace)
    monkeypatch.setattr(journal, "SIZES", (1 << 18,))
    begun: list[Here] = []

    def begin(*words: str) -> Here:
        begun.append(Here(cli, words))
        return begun[-1]

    yield begin
    for each in begun:
        each.recording.close()


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Wait for a condition to hold, and return what it returned; fail when it never does."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.02)
        return value

    return wait


@pytest.fixture
def read_line() -> Callable[[subprocess.Popen[bytes]], str]:
    """The next line that a process started with unbuffered pipes writes to stdout."""

    def read(process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
            assert ready, f"no line came; so far {line!r}"
            byte = os.read(process.stdout.fileno(), 1)
            assert byte, f"the output ended; so far {line!r}"
            line += byte
        return line.decode().strip()

    return read
