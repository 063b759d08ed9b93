"""The examples of docs/topspti.md run as they stand; every public name is told of."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import topspti

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "topspti.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_examples_run(number: int, tmp_path: Path, needs_c: None) -> None:
    program = tmp_path / "example.py"  # kernels are compiled from a file
    program.write_text(BLOCKS[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_public_kind_and_record_is_told_of() -> None:
    for kind in topspti.ActivityKind:
        assert kind.name in TEXT or kind.name == "INVALID"
    for name in dir(topspti):
        if name.endswith("Record") and name != "Record":
            assert name in TEXT, name
    for field in dir(topspti.CallbackData):
        if not field.startswith("_") and "_" in field:
            assert field in TEXT, field
