"""The examples of docs/runtime.md run, one after another as they stand, and name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import tops_kit as tops

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "runtime.md").read_text(encoding="utf-8")


def test_the_examples_run(needs_c: None, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the host, in the middle of a stream" in done.stdout
    assert "topsErrorAssert (710): kernel wrong, launched at" in done.stdout


def test_names_on_the_page_exist() -> None:
    names = set(re.findall(r"\btops\.([A-Za-z_]\w*)", TEXT))
    for name in sorted(names):
        assert hasattr(tops, name), name
