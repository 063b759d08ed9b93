"""A recording of the last seconds beside what else may happen: ends, other disks, readers, attach."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session

BUSY = """
import os, sys, time, topstx
from pathlib import Path
print("ready", flush=True)
number = 0
while not Path("go").exists():
    number += 1
    with topstx.annotate("round", payload="x" * 200):
        pass
    if number % 100 == 0:
        time.sleep(0.001)
print("done", flush=True)
"""
PLAIN = """
import time
from pathlib import Path
def wait_for_go():
    while not Path("go").exists():
        time.sleep(0.01)
print("ready", flush=True)
wait_for_go()
"""


@pytest.fixture
def busy(cli: Any, read_line: Any) -> Any:
    def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
        run: subprocess.Popen[bytes] = cli.start(
            "run", *words, "--", sys.executable, cli.script(BUSY), **options
        )
        assert read_line(run) == "ready"
        return run

    return start


def test_ctrl_c_completes_the_window(cli: Any, busy: Any) -> None:
    run = busy("-o", "svc", "--keep-last", "5s", start_new_session=True)
    assert cli("snapshot", "-o", "shot").returncode == 0
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    assert run.wait(60) == 130
    for name in ("svc.topsprof", "shot.topsprof"):
        session = Session.open(cli.cwd / name)
        assert session.info["status"] == "complete" and session.tables()["tx"] > 0


def test_shutdown_leaves_the_program_running(cli: Any, busy: Any, read_line: Any) -> None:
    run = busy("-o", "svc", "--keep-last", "5s")
    assert cli("stop", "--shutdown").returncode == 0
    assert Session.open(cli.cwd / "svc.topsprof").tables()["tx"] > 0
    refused = cli("snapshot", "svc")
    assert refused.returncode == 2 and "no session named 'svc' is running" in refused.stderr
    (cli.cwd / "go").touch()
    assert read_line(run) == "done" and run.wait(60) == 0


def test_readers_read_while_old_segments_go(cli: Any, busy: Any, until: Any) -> None:
    run = busy("-o", "svc", "--keep-last", "1s")
    folder = cli.cwd / "svc.topsprof"
    until(lambda: '"aged"' in (folder / "session.json").read_text())
    for words in (["stats", "svc", "-r", "tx_sum", "-q"], ["info", "svc"]):
        done = cli(*words)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    (cli.cwd / "go").touch()
    assert run.wait(60) == 0
    assert cli("info", "--verify", "svc").returncode == 0


def test_a_snapshot_on_another_disk_is_a_copy(cli: Any, busy: Any) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == cli.cwd.stat().st_dev or not os.access(other, os.W_OK):
        pytest.skip("there is no other file system here")
    place = Path(tempfile.mkdtemp(dir=other))
    try:
        run = busy("-o", "svc", "--keep-last", "5s", "--snapshot-output", f"{place}/%s-%p-%n")
        done = cli("snapshot", "--name", "far away")
        assert done.returncode == 0, done.stderr
        path = Path(done.stdout.strip())
        assert path.parent == place and path.name.startswith("far-away-")
        assert Session.open(path).tables()["tx"] > 0
        assert [entry.name for entry in place.iterdir()] == [path.name]
        (cli.cwd / "go").touch()
        assert run.wait(60) == 0
    finally:
        shutil.rmtree(place)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 100 MB: a recording needs 72 of them."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("making a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"can't mount a small file system here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_costs_the_older_part_of_the_window(
    cli: Any, busy: Any, until: Any, small_disk: Path
) -> None:
    run = busy("-o", str(small_disk / "svc"), "--keep-last", "1h", "--sample", "off")
    manifest = small_disk / "svc.topsprof" / "session.json"

    def given_up() -> int:
        entries = json.loads(manifest.read_text())["ledger"]
        return sum(entry["count"] for entry in entries if entry["code"] == "window_size")

    until(manifest.exists)
    free = shutil.disk_usage(small_disk).free
    with (small_disk / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - (2 << 20))
    until(lambda: given_up() > 0)
    before = given_up()
    until(lambda: given_up() > before)  # it goes on, and becomes full again
    done = cli("snapshot", str(small_disk / "svc.topsprof"), "-o", "shot")  # another disk, with room
    assert done.returncode == 0, done.stderr
    (cli.cwd / "go").touch()
    assert run.wait(60) == 0
    session = Session.open(small_disk / "svc.topsprof")
    assert session.info["status"] == "complete" and session.tables()["tx"] > 0
    assert Session.open(cli.cwd / "shot.topsprof").tables()["tx"] > 0


def test_attach_keeps_the_last_seconds(cli: Any, read_line: Any, until: Any) -> None:
    program = subprocess.Popen(
        [sys.executable, cli.script(PLAIN)], cwd=cli.cwd, stdout=subprocess.PIPE, env=cli.environ
    )
    cli.running.append(program)
    assert read_line(program) == "ready"
    attached = cli.start("attach", str(program.pid), "-o", "svc", "--keep-last", "2s")
    manifest = cli.cwd / "svc.topsprof" / "session.json"
    until(lambda: manifest.exists() and cli.table("svc.topsprof", "sample"))
    done = cli("snapshot", str(program.pid))
    assert done.returncode == 0, done.stderr
    attached.send_signal(signal.SIGUSR2)
    until(lambda: (cli.cwd / "svc-snapshot2.topsprof").exists())
    (cli.cwd / "go").touch()
    assert attached.wait(60) == 0 and program.wait(60) == 0
    assert b"snapshot: svc-snapshot2.topsprof (SIGUSR2)" in attached.stderr.read()  # type: ignore[union-attr]
    for name in ("svc", "svc-snapshot1", "svc-snapshot2"):
        names = {row["name"] for row in cli.table(f"{name}.topsprof", "stack")}
        assert "wait_for_go" in names
        assert cli.table(f"{name}.topsprof", "sample")
