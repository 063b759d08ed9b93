"""`topsprof doctor`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof.capture import checkup


def test_it_works_here(cli: Any) -> None:
    done = cli("doctor", env={"PATH": f"{Path(sys.executable).parent}:/bin"})
    assert done.returncode == 0, done.stdout
    assert "recording: works" in done.stdout
    assert "\x1b" not in done.stdout


def test_commands_that_are_no_pythons_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python3.11", "python3.12", "python3.13"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 127\n# " + name)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = checkup.pythons()
    assert check.name.endswith(" and 2 more") and check.value == "does not answer"


def test_json_shadowed_commands_and_the_twin(cli: Any, tmp_path: Path) -> None:
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    for name in ("topsprof", "efsmi"):
        (vendor / name).write_text("#!/bin/sh\n")
        (vendor / name).chmod(0o755)
    done = cli("doctor", "--json", "--no-trial", env={"PATH": f"{vendor}:/bin", "TOPSKIT_PURE": "1"})
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["state"] == "note"
    shadowed = {check["name"] for check in report["checks"] if check["section"] == "commands"}
    assert {"topsprof", "efsmi"} <= shadowed
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["recorder"]["state"] == "note" and "TOPSKIT_PURE" in checks["recorder"]["value"]
    assert "TOPSKIT_PURE" in checks["trace JSON"]["value"]
