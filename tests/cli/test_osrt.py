"""`topsprof run -t osrt`: calls of the operating system, in programs of any kind."""

from __future__ import annotations

import json
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

Compile = Callable[..., Path]


@pytest.fixture
def compiled(cli: Any) -> Compile:
    """Compile a C program into the test's folder."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")

    def build(text: str, name: str = "program", *flags: str) -> Path:
        source = cli.cwd / f"{name}.c"
        source.write_text(text, encoding="utf-8")
        target: Path = cli.cwd / name
        command = ["gcc", "-O1", "-D_GNU_SOURCE", "-pthread", str(source), "-o", str(target), *flags]
        subprocess.run(command, check=True)
        return target

    return build


def calls(cli: Any, session: str = "a.topsprof") -> list[dict[str, Any]]:
    return sorted(cli.table(session, "osrt"), key=lambda row: row["start_ns"])


def of(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["name"] == name]


COPY = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <time.h>
#include <errno.h>
int main(void) {
    static char data[5000];
    struct timespec pause = {0, 20000000};
    int fd = open("data.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(fd, data, sizeof data) != sizeof data || pread(fd, data, 4500, 1000) != 4000) return 1;
    errno = 77;
    if (nanosleep(&pause, NULL) || errno != 77) return 2;
    if (close(fd)) return 3;
    if (open("/no/such/file", O_RDONLY) != -1 || errno != ENOENT) return 4;
    puts("done");
    return 5;
}
"""


def test_a_c_program(cli: Any, compiled: Compile) -> None:
    done = cli("run", "-t", "osrt", "--osrt-threshold", "0", "-o", "a", "--strict", "--", compiled(COPY))
    assert (done.returncode, done.stdout) == (5, "done\n")
    rows = calls(cli)
    (write,) = [row for row in of(rows, "write") if row["target"].endswith("data.bin")]
    (read,) = of(rows, "pread")
    path = str((cli.cwd / "data.bin").resolve())
    assert (write["size_bytes"], write["return_value"], write["target"], write["error"]) == (
        5000,
        5000,
        path,
        "",
    )
    assert (read["size_bytes"], read["target"], read["fd"]) == (4000, path, write["fd"])
    (sleep,) = of(rows, "nanosleep")
    assert sleep["duration_ns"] >= 20_000_000 and sleep["fd"] is None and sleep["size_bytes"] is None
    (failed,) = [row for row in of(rows, "open") if row["error"]]
    assert (failed["target"], failed["error"], failed["return_value"]) == ("/no/such/file", "ENOENT", -1)
    (process,) = cli.table("a.topsprof", "process")
    assert {row["process_id"] for row in rows} == {process["process_id"]}
    assert process["exit_status"] == 5
    out = cli("stats", "a.topsprof", "-r", "osrt_sum", "-f", "csv").stdout
    head, first, *_ = out.splitlines()
    assert head.startswith("Time (%),Total Time (ns),Num Calls,Avg (ns)") and first.endswith("nanosleep")
    out = cli("stats", "a.topsprof", "-r", "osrt_target_sum", "-f", "json").stdout
    (told,) = [
        row for row in json.loads(out)["osrt_target_sum"] if row["Target"] == path and row["Name"] == "write"
    ]
    assert (told["Num Calls"], told["Total (MB)"], told["Failed"]) == (1, 0.005, 0)
    trace = cli("export", "a.topsprof", "-t", "chrome", "-o", "a.json")
    assert trace.returncode == 0 and '"nanosleep"' in (cli.cwd / "a.json").read_text()


PYTHON = """
import os, socket, subprocess, threading
with open("text", "w") as file:
    file.write("x" * 70000)
ours, theirs = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
client.sendall(b"x" * 1000)
assert len(accepted.recv(5000)) == 1000
lock = threading.Lock()
started = threading.Event()
def wait():
    started.set()
    lock.acquire()
lock.acquire()
thread = threading.Thread(target=wait)
thread.start()
started.wait()
subprocess.run(["sh", "-c", "echo from a shell | cat"], check=True)
lock.release()
thread.join()
"""


def test_a_python_program(cli: Any) -> None:
    done = cli(
        "run", "-t", "osrt", "--osrt-threshold", "0", "-o", "a", "--", sys.executable, cli.script(PYTHON)
    )
    assert (done.returncode, done.stdout) == (0, "from a shell\n"), done.stderr
    rows = calls(cli)
    written = [row["size_bytes"] for row in of(rows, "write") if (row["target"] or "").endswith("/text")]
    assert sum(written) == 70000
    (sent,) = [row for row in of(rows, "send") if row["size_bytes"] == 1000]
    (received,) = [row for row in of(rows, "recv") if row["size_bytes"] == 1000]
    port = sent["target"].rpartition(":")[2]
    assert sent["target"] == f"tcp 127.0.0.1:{port}" and received["target"] == f"tcp :{port} from 127.0.0.1"
    longest = max(of(rows, "sem_wait") + of(rows, "sem_clockwait"), key=lambda row: row["duration_ns"])
    assert longest["target"].startswith("semaphore 0x")
    assert not [row for row in rows if "a.topsprof" in (row["target"] or "")]  # our own files
    pipes = Counter(row["target"] for row in rows if (row["target"] or "").startswith("pipe:["))
    assert pipes and {"sh", "cat"} & {
        Path(row["name"] or "").name for row in cli.table("a.topsprof", "process")
    }


def test_short_calls_are_counted(cli: Any, compiled: Compile) -> None:
    program = compiled("""
#include <fcntl.h>
#include <unistd.h>
int main(void) {
    int fd = open("/dev/null", O_WRONLY);
    for (int k = 0; k < 1000000; k++) if (write(fd, "abcde", 5) != 5) return 1;
    return 0;
}
""")
    done = cli("run", "-t", "osrt", "--osrt-threshold", "1ms", "-o", "a", "--strict", "--", program)
    assert done.returncode in (0, 99), done.stderr
    short = [row for row in cli.table("a.topsprof", "osrt_short") if row["name"] == "write"]
    recorded = of(calls(cli), "write")
    assert sum(row["calls"] for row in short) + len(recorded) == 1_000_000
    assert sum(row["size_bytes"] for row in short) + 5 * len(recorded) == 5_000_000
    assert sum(row["total_ns"] for row in short) > 1_000_000
    out = cli("stats", "a.topsprof", "-r", "osrt_short_sum", "-f", "csv").stdout
    assert any(line.endswith(",write") for line in out.splitlines())
