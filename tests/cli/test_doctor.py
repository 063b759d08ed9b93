"""`topsprof doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_it_works_here(cli: Any) -> None:
    done = cli("doctor")
    assert done.returncode == 0, done.stdout
    assert "recording: works" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_and_shadowed_commands(cli: Any, tmp_path: Path) -> None:
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    for name in ("topsprof", "efsmi"):
        (vendor / name).write_text("#!/bin/sh\n")
        (vendor / name).chmod(0o755)
    path = f"{vendor}:{cli.environ.get('PATH', '')}"
    done = cli("doctor", "--json", "--no-trial", env={"PATH": path})
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["state"] == "note"
    shadowed = {check["name"] for check in report["checks"] if check["section"] == "commands"}
    assert {"topsprof", "efsmi"} <= shadowed


def test_the_twin_is_named(cli: Any) -> None:
    done = cli("doctor", "--json", "--no-trial", env={"TOPSKIT_PURE": "1"})
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["recorder"]["state"] == "note" and "TOPSKIT_PURE" in checks["recorder"]["value"]
