"""topscc with what goes wrong around it: outputs, terminals, numbers, files that raise."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tops_kit.engine.launch import ENGINES
from tops_kit.runtime.topscc_command import main

FILE = """
import numpy as np
import tops_kit as tops

@tops.kernel
def add(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1)):
    print("größe", x.shape[0])
    n = min(x.shape[0], 64)
    tops.store(y[0:n], tops.load(x[0:n]) + 1.0)

@add.example
def _(rng):
    return dict(x=np.zeros(4, np.float32), y=np.zeros(4, np.float32), threads=1)
"""


@pytest.fixture
def k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "k.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return "k.py"


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert said
    return said[-1]


def test_outputs_that_would_do_harm(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    for output, what in (
        ("pipe", "a device or pipe"),
        (".", "a folder"),
        ("", "a folder"),
        ("./k.py", "overwrite"),
    ):
        assert what in refusal([k, "-o", output], capsys)
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
    assert Path(k).read_text(encoding="utf-8") == FILE


@pytest.mark.parametrize(
    "words",
    [
        ["--threads", "2x2"], ["--threads", "0"], ["--threads", str(10**20)], ["--threads", "99999999"],
        ["--seed", "-1"], ["-arch", ",,"], ["-arch", ""], ["--arg", "x=99999999999x99999999"],
        ["--arg", f"x={10**30}"], ["--arg", "x=" + "x".join("1" * 70)],
    ],
)  # fmt: skip
def test_numbers_that_are_not_possible(words: list[str], k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(["run", k, *words], capsys)


@pytest.mark.parametrize("text", ["x = '\0'", "raise BaseException('x')", "raise MemoryError"])
def test_files_that_can_not_be_imported(text: str, k: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.py").write_text(text)
    said = refusal(["bad.py"], capsys)
    assert said.startswith("topscc: bad.py")
    assert "None" not in said


def test_json_is_all_of_the_output(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")
    assert main(["run", k, "--json"]) == 0
    (trial,) = json.loads(capsys.readouterr().out)
    assert trial["output"] == ["größe 4"]


def test_outputs_that_take_nothing(k: str) -> None:
    command = [sys.executable, "-m", "tops_kit.runtime.topscc_command", k, "--emit", "asm"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    closed = subprocess.run(shell, stderr=subprocess.PIPE, check=False)
    assert (closed.returncode, closed.stderr) == (0, b"")
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, env=plain, capture_output=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"gr\\xf6\\xdfe" in shown.stdout
    if Path("/dev/full").is_char_device():
        with Path("/dev/full").open("w") as full:
            filled = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
        assert filled.returncode == 2
        assert filled.stderr == b"topscc: the output can't be written: No space left on device\n"
