"""The distribution `topstx`: built from tx/ alone, without dependencies, at work in a fresh environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_both_build_files_agree(repo_root: Path) -> None:
    """The packages' C extensions are listed twice: here with paths from the root, there from tx/."""
    whole = tomllib.loads((repo_root / "pyproject.toml").read_text())
    alone = tomllib.loads((repo_root / "tx" / "pyproject.toml").read_text())
    assert alone["project"]["dependencies"] == []
    assert alone["project"]["requires-python"] == whole["project"]["requires-python"]

    def extensions(config: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
        found = []
        for extension in config["tool"]["setuptools"]["ext-modules"]:
            if extension["name"].startswith("topstx."):
                plain = dict(extension)
                plain["sources"] = [path.removeprefix(prefix) for path in plain["sources"]]
                plain["include-dirs"] = [path.removeprefix(prefix) for path in plain["include-dirs"]]
                del plain["depends"]
                found.append(plain)
        return found

    assert extensions(whole, "tx/") == extensions(alone, "")
    assert all(extension["optional"] for extension in extensions(alone, ""))


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Callable[[str], Path]:
    """Builds the wheel from a copy of tx/, offline, with a compiler or without one."""
    pytest.importorskip("setuptools", "77")
    pytest.importorskip("pip")

    def make(compiler: str) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        leave_out = shutil.ignore_patterns("__pycache__", "*.so", "build", "*.egg-info")
        shutil.copytree(repo_root / "tx", folder / "tx", ignore=leave_out)
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "-q",
        ]
        subprocess.run(
            [*command, "-w", str(folder), str(folder / "tx")],
            check=True,
            timeout=300,
            env={**os.environ, "CC": compiler} if compiler else None,
            stdin=subprocess.DEVNULL,
        )
        (wheel,) = folder.glob("topstx-*.whl")
        return wheel

    return make


_PROGRAM = """
import sys, topstx
from topstx import nvtx_injection
with topstx.annotate("range", payload={"a": 1}):
    topstx.mark("mark")
print(topstx.backend(), nvtx_injection.library_path() is not None, topstx.__file__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["", "/bin/false"], ids=["with a compiler", "without"])
def test_the_wheel_works_in_a_fresh_environment(
    build: Callable[[str], Path], ring_reader: Any, compiler: str, tmp_path: Path
) -> None:
    named = os.environ.get("CC") or "gcc"
    if not compiler and (
        not shutil.which(named)
        or subprocess.run([named, "--version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no C compiler")
    wheel = build(compiler)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        assert "Requires-Dist" not in archive.read(metadata).decode()
    include = "topstx/recorder/include"
    assert {f"{include}/topstx.h", f"{include}/topstx_layout.h", "topstx/py.typed", "topstx/otel.py"} <= names
    assert all(name.startswith(("topstx/", "topstx-")) for name in names)

    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # what an installer does, without needing one there
    folder = ring_reader.create_session(tmp_path / "session")
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("TOPS", "PYTHON"))}
    output = subprocess.run(
        [python, "-I", "-c", _PROGRAM],
        env={**keep, "TOPSTX_SESSION": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()
    assert output[:2] == (["twin", "False"] if compiler else ["c", "True"])
    assert output[2].startswith(str(home))
    process = ring_reader.read_recording(folder).only
    assert [(record.name, record.payload) for record in process.of()] == [("range", {"a": 1})]
    assert process.names(2) == ["mark"]
