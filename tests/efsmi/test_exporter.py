"""The exporter, over HTTP, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tops_kit.gcu.state import Devices, devices

Begin = Callable[..., str]
SECOND = 1_000_000_000


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Devices]:
    found = devices({"TOPS_STATE_DIR": str(tmp_path), "TOPS_DEVICES": "s60,i20"})
    yield found
    found.close()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start an exporter; returns HOST:PORT."""
    running: list[subprocess.Popen[str]] = []

    def start(**variables: str) -> str:
        environ = {**os.environ, "TOPS_STATE_DIR": str(tmp_path), "TOPS_DEVICES": "s60,i20", **variables}
        process = subprocess.Popen(
            [sys.executable, "-m", "tops_kit.efsmi", "--exporter", "--port", "0"],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        return urlsplit(found[0]).netloc

    yield start
    for process in running:
        process.kill()
        process.communicate()


def _get(address: str, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    connection = HTTPConnection(address, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.smoke
def test_metrics(machine: Devices, begin: Begin) -> None:
    address = begin()
    assert address.startswith("127.0.0.1:")
    machine[0].memory.allocate(12345)
    machine[0].usage.note(0, SECOND // 4, 24)
    machine[0].usage.freeze(SECOND)
    status, text = _get(address)
    assert status == 200
    values = dict(
        re.findall(r'^enflame_gcu_(\w+)\{dev="0",[^}]*simulated="true"\} (\S+)$', text, re.MULTILINE)
    )
    assert values["usage"] == values["sip_usage"] == "25"
    assert values["memory_used_bytes"] == "12345"
    assert float(values["power_consumption"]) == pytest.approx(115.5)
    assert 38 < float(values["temperatures"]) < 40
    assert f'pid="{os.getpid()}"}} 12345' in text
    for line in text.splitlines():
        assert re.fullmatch(
            r'# (HELP|TYPE) enflame_gcu_\w+ .+|enflame_gcu_\w+\{(\w+="[^"]*",?)+\} [-+.e\d]+', line
        )
    helped = re.findall(r"^# HELP (\w+) Simulated: ", text, re.MULTILINE)
    assert sorted(helped) == sorted(set(re.findall(r"^(enflame_gcu_\w+)\{", text, re.MULTILINE)))
    machine[0].memory.allocate(5)
    assert 'pid="' in _get(address)[1]
    assert "} 12350" in _get(address)[1]


def test_what_it_refuses(begin: Begin) -> None:
    address = begin()
    assert _get(address, Host="attacker.example")[0] == 403
    assert _get(address, Host=f"localhost:{address.rsplit(':', 1)[1]}")[0] == 200
    assert _get(address, "/etc/passwd")[0] == 404
    assert _get(address, "/") == (200, "efsmi exporter of simulated devices: /metrics\n")


def test_a_token(begin: Begin) -> None:
    address = begin(TOPS_EFSMI_TOKEN="secret")
    assert _get(address)[0] == 401
    assert _get(address, Authorization="Bearer wrong")[0] == 401
    assert _get(address, Authorization="Bearer secret")[0] == 200


def test_a_port_that_is_taken(begin: Begin) -> None:
    port = begin().rsplit(":", 1)[1]
    done = subprocess.run(
        [sys.executable, "-m", "tops_kit.efsmi", "--exporter", "--port", port],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"efsmi: port {port} of 127.0.0.1 can't be used: Address already in use: ")
    assert done.stderr.endswith("name another with --port (0: any)\n")
    assert done.stderr.count("\n") == 1
