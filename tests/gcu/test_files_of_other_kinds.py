"""What stands where a file is expected and is none: one line says so, and nobody waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tops_kit.gcu.reading import SpecificationError, load

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
USE = "import tops_kit as tops; tops.zeros(4)"


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TOPS_STATE_DIR": str(folder), "TOPS_DEVICES": "s60"}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_state_file_that_is_none(make: Callable[[Path], None], tmp_path: Path) -> None:
    assert _run(tmp_path, "-c", USE).returncode == 0
    path = next(path for path in tmp_path.rglob("device0-*") if path.is_file())
    path.unlink()
    make(path)
    program = _run(tmp_path, "-c", USE)
    assert "is no regular file" in program.stderr
    efsmi = _run(tmp_path, "-m", "tops_kit.efsmi")
    assert "is no regular file" in " ".join((efsmi.stdout + efsmi.stderr).split())  # wrapped


def test_a_part_that_has_no_end(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="no regular file"):
        load("/dev/zero")
    big = tmp_path / "big.toml"
    big.write_bytes(b"#" * (1 << 21))
    with pytest.raises(SpecificationError, match="more than"):
        load(str(big))


def test_a_fifo_beside_the_state_is_passed_by(tmp_path: Path) -> None:
    assert _run(tmp_path, "-c", USE).returncode == 0
    path = next(path for path in tmp_path.rglob("device0-*") if path.is_file())
    os.mkfifo(path.with_name(path.name.replace("device0", "device7")))
    assert _run(tmp_path, "-m", "tops_kit.efsmi").returncode == 0
