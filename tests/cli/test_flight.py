"""`topsprof run --keep-last`: a recording of the last seconds, and snapshots of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session

# Steps on demand: each line of its input is Python to execute.
SERVES = """
import sys, time, topstx
def storm():
    for _ in range(1000):
        with topstx.annotate("slow"):
            time.sleep(1e-5)
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
BUSY = """
import os, time, topstx
from pathlib import Path
number = 0
while not Path("go").exists():
    number += 1
    with topstx.annotate(f"round {number % 50}", payload="x" * 200):
        pass
    if number % 100 == 0:
        time.sleep(0.001)
"""


@pytest.fixture
def serve(cli: Any, read_line: Any) -> Any:
    """Start `run --keep-last` of a program that executes what it is told; `process.tell(line)`."""

    def start(*words: str, program: str = SERVES) -> Any:
        run = cli.start(
            "run", "-o", "svc", *words, "--", sys.executable, cli.script(program), stdin=subprocess.PIPE
        )
        assert read_line(run) == "ready"

        def tell(line: str) -> None:
            run.stdin.write(line.encode() + b"\n")
            run.stdin.flush()
            assert read_line(run) == "done"

        run.tell = tell
        return run

    return start


def end(run: Any) -> str:
    """Let the program end; what topsprof said."""
    run.stdin.close()
    assert run.wait(60) == 0
    return run.stderr.read().decode()  # type: ignore[no-any-return]


def taken(cli: Any, pattern: str) -> list[Path]:
    return sorted(cli.cwd.glob(pattern))


def test_the_program_asks_for_a_snapshot(cli: Any, serve: Any, until: Any) -> None:
    run = serve("--keep-last", "60s")
    run.tell("topstx.push_range('open'); topstx.mark('before')")
    run.tell("topstx.snapshot('slow checkout/7')")
    until(lambda: taken(cli, "svc-*.topsprof"))
    run.tell("topstx.mark('after')")
    (path,) = taken(cli, "svc-*.topsprof")
    assert path.name == "svc-slow-checkout-71.topsprof"
    rows = {row["name"]: row for row in cli.table(path.name, "tx")}
    assert set(rows) == {"open", "before"}
    assert rows["open"]["unfinished"] and not rows["before"]["unfinished"]
    assert rows["open"]["thread_id"] == rows["before"]["thread_id"]
    facts = json.loads(cli("info", "--json", path).stdout)
    assert facts["status"] == "complete" and facts["ledger"]["clean"]
    assert facts["attributes"]["snapshot"]["by"] == "program"
    assert facts["attributes"]["snapshot"]["label"] == "slow checkout/7"
    said = end(run)
    assert f"snapshot: {path.name} (slow checkout/7)" in said
    assert cli.names("svc.topsprof") == ["after", "before", "open"]


def test_a_person_asks_by_command_and_by_signal(cli: Any, serve: Any, until: Any) -> None:
    run = serve("--keep-last", "60s", "--sample", "off")
    run.tell("topstx.mark('here')")
    by_default = cli("snapshot")
    assert by_default.returncode == 0, by_default.stderr
    assert by_default.stdout == f"{cli.cwd}/svc-snapshot1.topsprof\n"
    program = json.loads(cli("sessions", "--json").stdout)[0]["program_pid"]
    for number, what in enumerate((str(run.pid), str(program), "svc", "svc.topsprof")):
        done = cli("snapshot", what, "-o", f"mine{number}")
        assert done.returncode == 0, done.stderr
        assert cli.names(f"mine{number}.topsprof") == ["here"]
    run.send_signal(signal.SIGUSR2)
    until(lambda: taken(cli, "svc-snapshot2.topsprof"))
    assert "(SIGUSR2)" in end(run)


def test_what_can_not_be_is_one_line(cli: Any, serve: Any) -> None:
    assert "start one with 'topsprof run --keep-last 30s'" in cli("snapshot").stderr
    run = serve("--keep-last", "60s")
    (cli.cwd / "there.topsprof").mkdir()
    for words, line in (
        (("-o", "there"), "'there.topsprof' exists"),
        (("-o", "nowhere/a"), "'nowhere' does not exist"),
        (("4000000",), "process 4000000 is not recorded"),
        (("other",), "no session named 'other' is running"),
    ):
        done = cli("snapshot", *words)
        assert (done.returncode, done.stdout) == (2, "") and line in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1
    end(run)
    for words, line in (
        (("--when", "a > 1s"), "--when needs --keep-last"),
        (("--keep-last", "soon"), "'soon' is no time"),
        (("--keep-last", "10ms"), "a second is the least"),
        (("--keep-last", "3s", "--when", "a"), "write a range and a time"),
        (("--keep-last", "3s", "--snapshot-output", "no/where"), "'no' does not exist"),
        (("--keep-last", "3s", "--snapshot-output", "%x"), "'%x' is no pattern"),
    ):
        done = cli("run", "-o", "other", *words, "--", "true")
        assert done.returncode == 2 and line in done.stderr, done.stderr
    assert not (cli.cwd / "other.topsprof").exists()
    plain = cli.start("run", "-o", "plain", "--", sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    while not (cli.cwd / "plain.topsprof" / "session.json").exists():
        assert plain.poll() is None
    assert "keeps all it records" in cli("snapshot", "plain.topsprof").stderr
    assert plain.communicate(b"\n")[1] is not None


def test_a_slow_range_is_a_snapshot(cli: Any, serve: Any, until: Any) -> None:
    rules = ["--when", "GET /* > 200ms", "--when", "job@work > 200ms", "--when-cooldown", "0"]
    run = serve("--keep-last", "60s", "--sample", "off", "--snapshot-output", "bad-%n-%s", *rules)
    run.tell("with topstx.annotate('GET /fast'): pass")
    run.tell("with topstx.annotate('job'): time.sleep(0.3)")  # of another domain
    run.tell("with topstx.annotate('GET /slow'): time.sleep(0.3)")
    until(lambda: taken(cli, "bad-1-GET-slow.topsprof"))
    run.tell("with topstx.annotate('job', domain='work'): time.sleep(0.3)")
    until(lambda: taken(cli, "bad-1-job.topsprof"))
    said = end(run)
    assert "GET /slow" in said and "(GET /* > 200ms)" in said and "(job@work > 200ms)" in said
    assert len(taken(cli, "bad-*")) == 2
    assert cli.names("bad-1-GET-slow.topsprof") == ["GET /fast", "GET /slow", "job"]


def test_a_range_that_hangs_is_a_snapshot_once(cli: Any, serve: Any, until: Any) -> None:
    run = serve("--keep-last", "60s", "--sample", "off", "--when", "hangs > 100ms", "--when-cooldown", "0")
    run.tell("topstx.push_range('hangs')")
    until(lambda: taken(cli, "svc-hangs1.topsprof"))
    (row,) = cli.table("svc-hangs1.topsprof", "tx")
    assert row["unfinished"] and row["duration_ns"] > 100e6
    run.tell("topstx.pop_range(); topstx.mark('x')")
    cli("snapshot", "-o", "later")  # all that came before is in segments then, and was looked at
    assert "hangs is open for" in end(run)
    assert len(taken(cli, "svc-hangs*")) == 1


def test_a_storm_of_slow_ranges_is_held_back(cli: Any, serve: Any, until: Any) -> None:
    limits = ["--when-limit", "2", "--when-cooldown", "0"]
    run = serve("--keep-last", "60s", "--sample", "off", "--when", "slow > 1us", *limits)
    for number in range(1, 4):
        run.tell("storm()")
        if number < 3:
            until(lambda number=number: len(taken(cli, "svc-slow*")) >= number)
    assert cli("snapshot", "-o", "later").returncode == 0
    end(run)
    assert len(taken(cli, "svc-slow*")) == 2
    ledger = Session.open(cli.cwd / "svc.topsprof").ledger
    assert ledger.clean and ledger.total("dropped", "snapshots", "held_back") >= 990


def test_what_is_older_than_the_window_goes(cli: Any, until: Any) -> None:
    run = cli.start("run", "-o", "svc", "--keep-last", "2s", "--", sys.executable, cli.script(BUSY))

    def aged() -> int:
        manifest = json.loads((cli.cwd / "svc.topsprof" / "session.json").read_text())
        return sum(entry["count"] for entry in manifest["ledger"] if entry["code"] == "aged")

    until(lambda: (cli.cwd / "svc.topsprof" / "session.json").exists() and aged() > 100_000)
    assert cli("snapshot", "-o", "shot").returncode == 0
    (cli.cwd / "go").touch()
    assert run.wait(60) == 0
    for name, least in (("shot.topsprof", 1.5), ("svc.topsprof", 1.5)):
        session = Session.open(cli.cwd / name)
        starts = session.table("tx", ["start_ns"]).column(0).to_pylist()
        # A second until it is written, one until it is looked at, and what a busy machine takes.
        assert least < (max(starts) - min(starts)) / 1e9 < 15
        assert session.ledger.clean and session.ledger.total("dropped", "window:tx", "aged") > 0
        written = session.ledger.total("written", f"process:{session.table('process').to_pylist()[0]['pid']}")
        assert written == len(starts) + session.ledger.total("dropped", "window:tx", "aged")
        assert session.tables()["sample"] > 0
    stacks = {row["stack_id"] for row in cli.table("shot.topsprof", "stack")}
    used = {row["stack_id"] for row in cli.table("shot.topsprof", "sample")} - {None}
    assert used and used <= stacks


def test_folder_stays_small_whatever_comes(cli: Any, until: Any) -> None:
    run = cli.start(
        "run", "-o", "svc", "--keep-last", "1h", "--keep-size", "8M", "--", sys.executable, cli.script(BUSY)
    )
    folder = cli.cwd / "svc.topsprof"

    def lost() -> int:
        if not (folder / "session.json").exists():
            return 0
        manifest = json.loads((folder / "session.json").read_text())
        return sum(entry["count"] for entry in manifest["ledger"] if entry["code"] == "window_size")

    until(lambda: lost() > 100_000)
    size = 0
    for file in (folder / "segments").rglob("*"):
        try:
            size += file.stat().st_size
        except FileNotFoundError:
            continue  # it was deleted meanwhile
    assert size < 64 << 20
    (cli.cwd / "go").touch()
    assert run.wait(60) == 0
    session = Session.open(folder)
    assert not session.ledger.clean and session.tables()["tx"] > 0
    assert "no room for the whole window" in run.stderr.read().decode()


@pytest.mark.parametrize("victim", ["topsprof", "program", "both", "collector"])
def test_kills_leave_the_window(cli: Any, serve: Any, until: Any, victim: str) -> None:
    run = serve("--keep-last", "60s")
    folder = cli.cwd / "svc.topsprof"
    run.tell("topstx.mark('here'); topstx.push_range('open')")
    assert cli("snapshot", "-o", "shot").returncode == 0
    live = json.loads(cli("sessions", "--json").stdout)[0]
    from tops_kit.collect.control import open_control

    collector = open_control(folder).collector_pid
    if victim in ("topsprof", "both"):
        os.kill(run.pid, signal.SIGKILL)
    if victim in ("program", "both"):
        os.kill(live["program_pid"], signal.SIGKILL)
    if victim == "collector":
        os.kill(collector, signal.SIGKILL)
    if victim == "topsprof":  # the collector goes on, and can still be asked
        run.wait(60)
        assert cli("snapshot", "svc.topsprof", "-o", "orphan").returncode == 0
        assert cli.names("orphan.topsprof") == ["here", "open"]
    if victim == "collector":
        refused = cli("snapshot", "svc")
        assert refused.returncode == 2 and "ended" in refused.stderr
    run.stdin.close()
    run.wait(60)
    until(lambda: not _runs(live["program_pid"]) and not _runs(collector))
    if victim == "collector":
        assert cli("recover", "svc").returncode == 0
    assert cli.names("svc.topsprof") == ["here", "open"]
    assert not (folder / "snapshots").exists()
    assert cli.names("shot.topsprof") == ["here", "open"]


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_snapshot_at_the_very_end_is_made(cli: Any) -> None:
    program = "import topstx; topstx.mark('last'); topstx.snapshot('end')"
    done = cli("run", "-o", "svc", "--keep-last", "5s", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert cli.names("svc-end1.topsprof") == ["last"] and "snapshot: svc-end1.topsprof" in done.stderr


def test_pause_keeps_what_was(cli: Any, serve: Any, until: Any) -> None:
    """What was recorded before `stop` does not age while recording is off."""
    run = serve("--keep-last", "1s", "--sample", "off")
    run.tell("topstx.mark('before')")
    assert cli("stop").returncode == 0
    run.tell("time.sleep(3)")
    assert cli("snapshot", "-o", "shot").returncode == 0
    assert cli.names("shot.topsprof") == ["before"]
    end(run)


def test_with_delay_and_duration(cli: Any) -> None:
    program = """
import time, topstx
if not topstx.is_recording():
    topstx.mark("early")  # a busy machine may come here after the delay
while not topstx.is_recording(): time.sleep(0.01)
topstx.mark("within")
while topstx.is_recording(): time.sleep(0.01)
topstx.mark("late")
"""
    words = ["--keep-last", "30s", "--delay", "0.5", "--duration", "1"]
    done = cli("run", "-o", "svc", *words, "--", sys.executable, cli.script(program))
    assert done.returncode == 0, done.stderr
    assert cli.names("svc.topsprof") == ["within"]


def test_children_and_many_snapshots_at_once(cli: Any, serve: Any, until: Any) -> None:
    run = serve("--keep-last", "60s", "--sample", "off")
    run.tell("import multiprocessing, os; topstx.mark('parent')")
    run.tell("pool = multiprocessing.get_context('fork').Pool(2)")
    run.tell("pool.map(topstx.mark, ['child'] * 4)")
    run.tell("pool.map(topstx.snapshot, [f'shot {n}' for n in range(8)])")
    until(lambda: len(taken(cli, "svc-shot-*")) == 8)
    waiting = [cli.start("snapshot", "svc", "-o", f"mine{n}") for n in range(3)]
    assert [process.wait(60) for process in waiting] == [0, 0, 0]
    for path in [*taken(cli, "svc-shot-*"), *taken(cli, "mine*")]:
        assert cli.names(path.name) == ["child"] * 4 + ["parent"]
    run.tell("pool.terminate()")
    end(run)
