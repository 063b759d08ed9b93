"""Programs to sample, on every Python that is found here, each telling when it is where a test wants it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("3.11", "3.12", "3.13")
DEADLINE_S = 60.0


@cache
def find_python(version: str) -> str | None:
    """An ordinary Python of that version: our own, of pyenv, or on PATH."""
    candidates = [sys.executable] if sys.version.startswith(f"{version}.") else []
    root = os.environ.get("PYENV_ROOT", str(Path("~/.pyenv").expanduser()))
    candidates += sorted(map(str, Path(root, "versions").glob(f"{version}.*/bin/python{version}")))
    on_path = shutil.which(f"python{version}")
    candidates += [on_path] if on_path else []
    question = "import sys, sysconfig; print(sys.version, sysconfig.get_config_var('Py_GIL_DISABLED'))"
    for candidate in candidates:
        try:
            done = subprocess.run(
                [candidate, "-I", "-c", question], capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if (
            done.returncode == 0
            and done.stdout.startswith(f"{version}.")
            and not done.stdout.endswith(" 1\n")
        ):
            return candidate
    return None


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    """Each Python in turn."""
    found = find_python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} is installed here")
    return found


@pytest.fixture(autouse=True)
def _needs_extension() -> None:
    from topsprof.capture.sampling import extension

    problem = extension.problem()
    if problem:
        pytest.skip(f"sampling needs the C extension: {problem}")


class Program:
    """A running program. `read` waits for a line of its output, `tell` gives it one."""

    def __init__(self, process: subprocess.Popen[str], source: str) -> None:
        self.process = process
        self.pid = process.pid
        self.lines = source.splitlines()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the program ended with {self.process.wait()}"
        return line.rstrip("\n")

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line_of(self, text: str) -> int:
        """The number of the only line that contains `text`."""
        found = [number for number, line in enumerate(self.lines, 1) if text in line]
        assert len(found) == 1, (text, found)
        return found[0]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(python: str, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts programs on the Python of the test; waits for their line "ready"."""
    programs: list[Program] = []

    def begin(source: str, *words: str, wait: bool = True, executable: str = python) -> Program:
        text = textwrap.dedent(source).lstrip("\n")
        file = tmp_path / f"program{len(programs)}.py"
        file.write_text(text, encoding="utf-8")
        process = subprocess.Popen(
            [executable, "-I", "-u", str(file), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        program = Program(process, text)
        programs.append(program)
        if wait:
            assert program.read() == "ready"
        return program

    yield begin
    for program in programs:
        program.end()


def until(condition: Callable[[], Any]) -> Any:
    """The first true value of `condition`, asked again and again."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
    raise AssertionError("it did not become so")


@pytest.fixture(name="until")
def _until() -> Callable[[Callable[[], Any]], Any]:
    return until


class Samples:
    """All that a sampler gave, put together: rows as dicts with their names and stacks resolved."""

    def __init__(self, sampler: Any) -> None:
        from topsprof.capture.sampling import extension

        self.sampler = sampler
        self.rows: list[dict[str, Any]] = []
        self._codes: dict[int, Any] = {}
        self._nodes: dict[int, tuple[int, int, int]] = {}
        self._natives: dict[int, Any] = {}
        self._tasks: dict[int, str] = {0: ""}
        self._tool = extension.load()

    def take(self) -> list[dict[str, Any]]:
        """The rows of a new batch."""
        batch = self.sampler.batch()
        self._codes |= {code.id: code for code in batch.codes}
        self._nodes |= {node: (parent, code, line) for node, parent, code, line in batch.nodes()}
        self._natives |= dict(batch.natives)
        self._tasks |= dict(batch.task_names)
        new = []
        for index in range(len(batch)):
            row = {
                name: getattr(batch, name)[index]
                for name in ("time_ns", "weight_ns", "tid", "stack", "native", "holder", "flags")
            }
            row["state"] = self._tool.STATES[batch.state[index]]
            row["wait"] = self._tool.WAITS[batch.wait[index]]
            row["task"] = self._tasks[batch.task[index]]
            row["place"] = self._natives.get(row["native"])
            row["frames"] = self.frames(row["stack"])
            new.append(row)
        self.rows += new
        return new

    def frames(self, stack: int) -> list[tuple[str, int]]:
        """(name, line), innermost first."""
        found = []
        while stack >= 0:
            stack, code, line = self._nodes[stack]
            found.append((self._codes[code].name if code else "<cut>", line))
        return found

    def code(self, name: str) -> Any:
        return next(code for code in self._codes.values() if code.name == name)

    @property
    def codes(self) -> list[Any]:
        return list(self._codes.values())


@pytest.fixture
def sampled() -> Callable[..., tuple[Samples, Any]]:
    """Begins to sample a process: (samples, loop)."""
    from topsprof.capture.sampling.sampler import Sampler, SamplingLoop

    def begin(pid: int, rate_hz: float = 1000, **options: Any) -> tuple[Samples, Any]:
        sampler, loop = Sampler(pid, **options), SamplingLoop(rate_hz)
        loop.add(sampler)
        return Samples(sampler), loop

    return begin


@pytest.fixture
def topsprof() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command."""

    def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "topsprof", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    return run


@pytest.fixture
def dumped(topsprof: Any) -> Callable[..., dict[str, Any]]:
    """What `topsprof dump --json` tells of a process."""

    def dump(pid: int, *words: str) -> dict[str, Any]:
        done = topsprof("dump", "--json", *words, pid)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return dump
