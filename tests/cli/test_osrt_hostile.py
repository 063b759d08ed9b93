"""`topsprof run -t osrt` of programs that make it hard: they must not notice, and what is lost is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx import osrt_injection

pytestmark = pytest.mark.skipif(bool(osrt_injection.problem()), reason="the library is not built")

PROGRAMS = Path(__file__).parent / "osrt"
Compile = Callable[..., Path]
ALL = ("run", "-t", "osrt", "--osrt-threshold", "0", "-o", "a", "--wait", "all", "--")


@pytest.fixture
def compiled(cli: Any) -> Compile:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")

    def build(name: str, *flags: str, to: str = "") -> Path:
        target: Path = cli.cwd / (to or name)
        command = ["gcc", "-O1", "-D_GNU_SOURCE", "-pthread", str(PROGRAMS / f"{name}.c"), "-o", str(target)]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
        if done.returncode and "-static" in flags:
            pytest.skip("no static C library")
        assert done.returncode == 0, done.stderr
        return target

    return build


def counts(cli: Any) -> Counter[str]:
    return Counter(row["name"] for row in cli.table("a.topsprof", "osrt"))


def ledger(cli: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((cli.cwd / "a.topsprof" / "session.json").read_text())[
        "ledger"
    ]
    return entries


def dropped(cli: Any) -> int:
    return sum(int(entry["count"]) for entry in ledger(cli) if entry["kind"] == "dropped")


def test_signal_handlers(cli: Any, compiled: Compile) -> None:
    done = cli(*ALL, compiled("signals"))
    assert done.returncode == 0, done.stderr
    # what a handler does while it interrupts the recording, or on too small a stack, is not recorded
    assert counts(cli)["write"] > 29_000


def test_processes(cli: Any, compiled: Compile) -> None:
    program = compiled("processes")
    plain = subprocess.run([program], cwd=cli.cwd, capture_output=True, text=True, check=False)
    before = (cli.cwd / "shared").read_text()
    done = cli(*ALL, program)
    assert (
        (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (42, "of a vfork\nreplaced\n")
    )
    assert sorted((cli.cwd / "shared").read_text().split("\n")) == sorted(before.split("\n"))
    rows = [row for row in cli.table("a.topsprof", "osrt") if (row["target"] or "").endswith("/shared")]
    writes = Counter(row["size_bytes"] for row in rows if row["name"] == "write")
    assert writes == {7: 641, 12: 10}
    assert len({row["process_id"] for row in rows}) == 66
    assert counts(cli)["fork"] == 64 and counts(cli)["pthread_mutex_lock"] >= 1
    assert {"system", "popen", "pclose", "execvp"} <= counts(cli).keys()
    assert dropped(cli) == 0


def test_a_daemon(cli: Any, compiled: Compile) -> None:
    done = cli(*ALL, compiled("daemon"))
    assert done.returncode == 0 and (cli.cwd / "daemon.log").read_text() == "alive\nstill\n"
    rows = [row for row in cli.table("a.topsprof", "osrt") if (row["target"] or "").endswith("daemon.log")]
    assert Counter(row["name"] for row in rows) == {"open": 2, "write": 2}


@pytest.mark.parametrize("how", [[], ["syscall"]], ids=["prctl", "seccomp"])
def test_a_sandbox(how: list[str], cli: Any, compiled: Compile) -> None:
    done = cli(*ALL, compiled("sandbox"), *how)
    assert done.returncode == 0, done.stderr
    assert counts(cli)["write"] + dropped(cli) == 20_001


@pytest.mark.slow
def test_ten_thousand_connections(cli: Any, compiled: Compile) -> None:
    done = cli(*ALL, compiled("server"), "10000")
    assert done.returncode == 0, done.stderr
    many = int(done.stdout)
    found = counts(cli)
    assert found["accept"] == found["connect"] == many
    assert found["send"] == 2 * many and found["recv"] >= 2 * many
    targets = {row["target"] for row in cli.table("a.topsprof", "osrt")}
    assert len(targets) < 20 and dropped(cli) == 0


@pytest.mark.slow
def test_a_million_calls(cli: Any) -> None:
    text = (
        "import os\nfd = os.open('/dev/null', os.O_WRONLY)\nfor _ in range(1_000_000): os.write(fd, b'abc')\n"
    )
    done = cli(*ALL, sys.executable, cli.script(text))
    assert done.returncode == 0, done.stderr
    rows = sum(
        1
        for row in cli.table("a.topsprof", "osrt")
        if row["name"] == "write" and row["target"] == "/dev/null"
    )
    assert rows + dropped(cli) == 1_000_000


def test_what_the_user_preloads_comes_first(cli: Any, compiled: Compile) -> None:
    library = compiled("counting", "-fPIC", "-shared", "-ldl", to="counting.so")
    code = "import os\nfor _ in range(3): os.write(1, b'a\\n')\nprint(os.environ['LD_PRELOAD'])"
    env = {"LD_PRELOAD": str(library), "COUNTED": str(cli.cwd / "counted")}
    done = cli(*ALL, sys.executable, cli.script(code), env=env)
    *lines, preloaded = done.stdout.splitlines()
    assert done.returncode == 0 and lines == ["a"] * 3
    assert preloaded.split(":")[0] == str(library) and preloaded.endswith(osrt_injection.library_path() or "")
    assert max(map(int, (cli.cwd / "counted").read_text().split())) >= 4
    assert [row["size_bytes"] for row in cli.table("a.topsprof", "osrt") if row["name"] == "write"].count(
        2
    ) >= 3


def test_an_allocator_that_calls_us(cli: Any, compiled: Compile) -> None:
    library = compiled("allocator", "-fPIC", "-shared", to="allocator.so")
    done = cli(*ALL, "sh", "-c", "echo one; exec echo two", env={"LD_PRELOAD": str(library)})
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr
    assert counts(cli)["write"] >= 1 and len(cli.table("a.topsprof", "process")) == 2


def test_static_programs_are_named(cli: Any, compiled: Compile) -> None:
    program = compiled("daemon", "-static", to="static")
    done = cli("run", "-t", "osrt", "-o", "a", "--", program)
    assert done.returncode == 0
    (entry,) = [entry for entry in ledger(cli) if entry["code"] == "osrt_not_loaded"]
    assert "static is linked statically" in entry["note"] and "is linked statically" in done.stderr
    done = cli("run", "-f", "-t", "osrt", "-o", "a", "--", "sh", "-c", "./static; ./static; true")
    assert done.returncode == 0
    notes = [entry["note"] for entry in ledger(cli) if "is linked statically" in entry["note"]]
    assert len(notes) == 1 and "./static" in notes[0]


def test_a_library_that_is_missing(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from topsprof.capture.options import RecordOptions
    from topsprof.capture.osrt import Preload
    from topsprof.capture.program import Program

    from tops_kit.errors import UserError

    program = Program(sys.executable, (sys.executable,))
    assert Preload(program, RecordOptions()).environment(os.environ) == {}
    monkeypatch.setattr(osrt_injection, "_HERE", cli.cwd)
    with pytest.raises(UserError, match="not built"):
        Preload(program, RecordOptions(traces=("osrt",)))
    (cli.cwd / "a b").mkdir()
    (cli.cwd / "a b" / "_osrt.x.so").write_bytes(osrt_injection._STAMP)
    monkeypatch.setattr(osrt_injection, "_HERE", cli.cwd / "a b")
    with pytest.raises(UserError, match="a blank or a colon"):
        Preload(program, RecordOptions(traces=("osrt",)))
