"""Sample programs, recorded as a user records them, and asked through the commands' JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tops_kit.engine.launch import ENGINES

ROOT = Path(__file__).resolve().parents[2]
APPS = ROOT / "sample_apps"
REPORTS = "tx_sum,api_sum,gcu_kern_sum,kern_line,mem_alloc,mem_time_sum,graph_sum,tx_gcu_proj_sum"


@pytest.fixture(scope="session", autouse=True)
def needs_c() -> None:
    """Skips where the C engine isn't built: the oracle takes minutes for these."""
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")


@dataclass
class Recorded:
    """A program's session, and what it printed."""

    session: Path
    stdout: str
    stderr: str
    environ: dict[str, str]

    def sql(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        rows: list[dict[str, Any]] = self._json("sql", self.session, query, "-f", "json")
        return rows

    def value(self, query: str) -> Any:
        """The only number or text of a query's only row."""
        (row,) = self.sql(query)
        (out,) = row.values()
        return out

    def report(self, name: str) -> list[dict[str, Any]]:
        """The rows of a report."""
        return self._reports[name]

    @cached_property
    def _reports(self) -> dict[str, list[dict[str, Any]]]:
        """All that tests ask for, by one command."""
        out: dict[str, list[dict[str, Any]]] = self._json("stats", self.session, "-r", REPORTS, "-f", "json")
        return out

    def _json(self, *words: str | Path) -> Any:
        return json.loads(topsprof(self.environ, *words).stdout)


def topsprof(environ: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command; it has to succeed."""
    command = [sys.executable, "-m", "topsprof", *map(str, words)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="session")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Programs begin with a device of their own, in model time: the same in every run."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TOPS_", "TOPSTX_", "TOPSPROF_"))}
    return keep | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "tx", "pti", "prof")),
        "TOPS_STATE_DIR": str(tmp_path_factory.mktemp("state")),
        "TOPS_CLOCK": "model",
    }


@pytest.fixture(scope="session")
def command(environ: dict[str, str]) -> Callable[..., str]:
    """Runs `topsprof` with these words, in time as it passes, and gives what it prints."""
    return lambda *words: topsprof(environ | {"TOPS_CLOCK": "virtual"}, *words).stdout


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Callable[..., Recorded]:
    """`recorded("gaps")`: that program at its small size, recorded once for all tests."""
    folder = tmp_path_factory.mktemp("sessions")
    kept: dict[str, Recorded] = {}

    def record(app: str, program: Path | None = None) -> Recorded:
        if app not in kept:
            # in model time processes would have the device each for itself
            clock = {"TOPS_CLOCK": "virtual"} if app == "shared_device" else {}
            done = topsprof(
                environ | clock, "run", "-o", folder / app, "--metrics", "all", "--",
                sys.executable, program or APPS / f"{app}.py", "--size", "small",
            )  # fmt: skip
            kept[app] = Recorded(folder / f"{app}.topsprof", done.stdout, done.stderr, environ)
        return kept[app]

    return record
