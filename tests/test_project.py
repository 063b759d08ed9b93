"""Facts about the project that are easy to break without noticing."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest


def _tracked(root: Path) -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [root / name for name in listing.stdout.decode().split("\0") if name]


def test_every_c_extension_is_optional(repo_root: Path) -> None:
    config = tomllib.loads((repo_root / "pyproject.toml").read_text())
    for extension in config["tool"]["setuptools"]["ext-modules"]:
        assert extension["optional"] is True, extension["name"]
        assert all((repo_root / source).is_file() for source in extension["sources"]), extension["name"]


def test_all_excludes_torch_and_peers(repo_root: Path) -> None:
    extras = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    everything = " ".join(extras["all"])
    assert "torch" not in everything
    assert "bench" not in everything


def test_readmes_give_the_same_commands(repo_root: Path) -> None:
    blocks = [
        re.findall(r"```sh\n(.*?)```", (repo_root / name).read_text(encoding="utf-8"), re.DOTALL)[:2]
        for name in ("README.md", "README.zh-CN.md")
    ]
    assert blocks[0] == blocks[1]
    assert len(blocks[0]) == 2


def test_no_machine_paths_in_what_is_committed(repo_root: Path) -> None:
    needle = re.compile(rb"/(?:work|root)/[a-z.]|\.libr[a]ry/")
    offenders = [
        str(path.relative_to(repo_root))
        for path in _tracked(repo_root)
        if path.is_file() and needle.search(path.read_bytes())
    ]
    assert offenders == []
