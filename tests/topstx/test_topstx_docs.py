"""The examples of docs/topstx.md run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _blocks(repo_root: Path, language: str) -> list[str]:
    text = (repo_root / "docs" / "topstx.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def _block(repo_root: Path, language: str, part: str) -> str:
    (found,) = [block for block in _blocks(repo_root, language) if part in block]
    return found


def test_the_quick_start(program: Any, repo_root: Path) -> None:
    process = program(_block(repo_root, "python", "def load")).only
    assert process.names() == ["load", "step"] * 3
    assert process.of()[1].payload == {"batch": 32, "step": 0}
    assert [record.value for record in process.of(3)] == [1000] * 3
    assert process.names(2) == ["epoch done"]


def test_the_opentelemetry_example(program: Any, repo_root: Path) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    process = program(_block(repo_root, "python", "TopsTXSpanProcessor")).only
    assert process.names() == ["order"] and process.names(2) == ["paid"]


@pytest.mark.parametrize("installed", [True, False])
def test_the_shim_for_libraries(repo_root: Path, installed: bool, tmp_path: Path) -> None:
    block = "" if installed else "import sys; sys.modules['topstx'] = None\n"
    code = (
        block
        + _block(repo_root, "python", "Stands in for")
        + (
            "@annotate()\n"
            "def double(x):\n"
            "    with annotate('inner', payload=x):\n"
            "        return 2 * x\n"
            "assert double(4) == 8\n"
        )
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)


def test_the_c_example(compile_c: Any, ring_reader: Any, repo_root: Path, tmp_path: Path) -> None:
    program = compile_c(_block(repo_root, "c", "int main"), "-Wall", "-Wextra")
    folder = ring_reader.create_session(tmp_path / "session")
    keep = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    subprocess.run([program], env={**keep, "TOPSTX_SESSION": str(folder)}, check=True, timeout=60)
    process = ring_reader.read_recording(folder).only
    assert [(r.name, r.domain, r.depth) for r in process.of()] == [("read", "io", 1), ("work", "", 0)]
    assert process.names(2) == ["halfway"]


def test_every_public_name_is_in_the_table(repo_root: Path) -> None:
    import topstx

    text = (repo_root / "docs" / "topstx.md").read_text()
    missing = [name for name in topstx.__all__ if name not in text and name != "__version__"]
    assert not missing


@pytest.mark.slow
def test_the_commands_record(repo_root: Path, tmp_path: Path) -> None:
    """The lines for the shell, with the files they speak of."""
    pytest.importorskip("nvtx")
    topsprof = Path(sys.executable).with_name("topsprof")
    if not topsprof.exists() or not shutil.which("gcc"):
        pytest.skip("topsprof is not installed, or there is no C compiler")
    (tmp_path / "program.py").write_text(_block(repo_root, "python", "def load"))
    (tmp_path / "annotated_with_nvtx.py").write_text(
        "import nvtx\nwith nvtx.annotate('their range'):\n    pass\n"
    )
    (tmp_path / "program.c").write_text(_block(repo_root, "c", "int main"))
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("TOPSTX_", "NVTX_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = []
    for block in _blocks(repo_root, "sh"):
        if "pip install" in block:
            continue
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            cwd=tmp_path,
            env={**keep, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    first, theirs, c_program = outputs
    assert "step" in first and "load" in first
    assert "io:read" in c_program and "work" in c_program
    from topstx import nvtx_injection

    if nvtx_injection.library_path() is not None:
        assert "their range" in theirs
