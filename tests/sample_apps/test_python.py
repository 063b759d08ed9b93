"""What the sample programs without a device were made to show is in one report of a plain `topsprof run`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

APPS = Path(__file__).resolve().parents[2] / "sample_apps"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _needs_sampling() -> None:
    from topsprof.capture.sampling import extension

    problem = extension.problem()
    if problem:
        pytest.skip(f"sampling needs the C extension: {problem}")


@pytest.fixture
def report(tmp_path: Path, command: Callable[..., str]) -> Callable[..., Rows]:
    """`report("py_sum", "cpu_bound")`: a report of that program."""

    def of(name: str, app: str, *words: str, options: tuple[str, ...] = ()) -> Rows:
        session = tmp_path / app
        command("run", *options, "-o", session, "--", sys.executable, APPS / f"{app}.py", *words)
        rows: Rows = json.loads(command("stats", f"{session}.topsprof", "-r", name, "-f", "json"))[name]
        return rows

    return of


def line_of(app: str, text: str) -> str:
    """`APP.py:LINE` of the only line with that text."""
    lines = (APPS / f"{app}.py").read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{app}.py:{number}"


def test_the_lock_that_an_event_loop_waits_for_is_named_and_who_has_it(report: Callable[..., Rows]) -> None:
    first = report("py_slow", "web_service", "--size", "small", "--cause", "lock")[0]
    assert (first["Cause"], first["Function"]) == ("lock", "Service.get_price")
    assert first["Place"].endswith(line_of("web_service", "with self.prices_lock:  #"))
    assert first["Time (%)"] > 50
    assert first["Meanwhile"].startswith("prices (")
    assert "Service.refresh_prices > Service.fetch_price" in first["Meanwhile"]


def test_what_makes_garbage_while_the_event_loop_waits_is_named(report: Callable[..., Rows]) -> None:
    first = report("py_slow", "web_service", "--size", "small", "--cause", "gc")[0]
    assert first["Cause"] == "gc"
    assert "Service.get_orders" in first["Called By"]
    assert "Order" in first["Function"]
    assert first["Turns"] > 1


def test_a_blocking_call_in_an_event_loop_is_named(report: Callable[..., Rows]) -> None:
    first = report("py_slow", "web_service", "--size", "small", "--cause", "blocking")[0]
    assert (first["Cause"], first["Function"]) == ("socket", "Service.ask_warehouse")
    assert first["Place"].endswith(line_of("web_service", "connection.recv(100)"))
    assert first["Called By"] == "Service.connection > Service.answer > Service.get_stock"


def test_the_functions_that_compute_are_in_their_order(report: Callable[..., Rows]) -> None:
    rows = report("py_sum", "cpu_bound", "--size", "medium")
    assert [row["Name"] for row in rows[:3]] == ["primes", "words", "checksum"]


def test_who_waits_for_the_gil_and_who_has_it_is_told(report: Callable[..., Rows]) -> None:
    rows = report("gil_sum", "threads_gil", "--size", "small")
    late = [row for row in rows if row["Waiting In"] == "answer"]
    held = {row["Held In"] for row in late if row["Samples"] > 3}
    assert held == {"crunch"}
    assert all(row["Waiting Thread"].startswith("answers (") for row in late)
    assert {row["Holding Thread"].partition(" ")[0] for row in rows[:6]} <= {f"worker-{n}" for n in range(3)}


def test_whose_memory_grows_is_told_though_another_allocates_more(report: Callable[..., Rows]) -> None:
    rows = report("pymem_sum", "leaky", "--size", "large", options=("-t", "pymem"))
    assert rows[0]["Name"].startswith("Session.__init__")
    thumbnails = next(row for row in rows if row["Name"] == "Thumbnails.make")
    assert thumbnails["At Peak (MB)"] < rows[0]["At Peak (MB)"] / 4
    assert thumbnails["Allocated (MB)"] > rows[0]["Allocated (MB)"]


def test_without_asking_stats_tell_of_the_slow_turns_and_of_the_gil(
    tmp_path: Path, command: Callable[..., str]
) -> None:
    def stats(app: str, *words: str) -> str:
        program = [sys.executable, APPS / f"{app}.py", "--size", "small", *words]
        return command("run", "--stats", "-o", tmp_path / app, "--", *program)

    slow = stats("web_service", "--cause", "blocking")
    assert slow.index("(py_slow)") < slow.index("Service.ask_warehouse") < slow.index("(py_sum)")
    plain = stats("threads_gil")
    assert "for the GIL" in plain
    assert "(py_slow)" not in plain
