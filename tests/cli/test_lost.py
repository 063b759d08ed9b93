"""What a recording says of processes that could not be recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.parametrize("pure", ["", "1"])
def test_a_fork_child_that_gets_no_files_is_counted(cli: Any, pure: str) -> None:
    program = cli.script(
        "import topstx, os, resource\n"
        "topstx.mark('parent')\n"
        "first = os.open('/', os.O_RDONLY)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (first, first))\n"
        "if not os.fork():\n"
        "    topstx.mark('child')\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = cli("run", "-o", "a", "--strict", program, env={"TOPSKIT_PURE": pure})
    assert done.returncode == 99, done.stderr
    assert "dropped 1 (process without files)" in done.stderr
    assert cli.names("a.topsprof") == ["parent"]
    entries = json.loads((cli.cwd / "a.topsprof" / "session.json").read_text())["ledger"]
    assert [(e["stream"], e["count"]) for e in entries if e["code"] == "process_without_files"] == [
        ("collector", 1)
    ]
