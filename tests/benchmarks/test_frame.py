"""The frame of the benchmarks: rows, judgements, the page of results. Nothing is timed here."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys

import pytest


@pytest.fixture
def load(monkeypatch, repo_root):
    """Imports a module of the benchmarks, which are not installed."""
    monkeypatch.syspath_prepend(str(repo_root))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def test_the_list_names_every_benchmark(repo_root, load):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        check=True,
    )
    listed = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert all(len(words) == 2 for words in listed)  # each with what it measures
    claims = {
        f"benchmarks.{path.stem}"
        for path in (repo_root / "benchmarks").glob("*.py")
        if re.search("^DESCRIPTION =", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {load("__main__").NAMES[name] for name, _ in listed} == claims


def test_bars_limit_the_ratio_or_our_own_figure(load):
    compare = load("rows").compare
    assert compare("c", "s", 1.0, 4.0, "p", bar=0.3).ok is True
    assert compare("c", "s", 2.0, 4.0, "p", bar=0.3).ok is False
    assert compare("c", "s", 2.0, 4.0, "p", bar=0.3).ratio == 0.5
    assert compare("c", "s", 2.0, None, "", bar=3, bar_on="ours").ok is True
    assert compare("c", "M/s", 2.0, None, "", bar=3, bar_on="ours", at_least=True).ok is False
    assert compare("c", "s", 1.0, 1.0, "p", bar=1.1, limit=1.2).ok is False
    assert compare("c", "s", 1.0, 1.0, "p").ok is None


def test_a_missing_peer_is_a_row_and_no_failure(load):
    row = load("rows").missing("c", "s", 1.0, "peer", "peer is not installed")
    assert row.ok is None and "not installed" in load("__main__").line(row)
    assert set(row.as_json()) >= {"claim", "ours", "peer", "peer_name", "ratio", "bar", "ok"}


def test_an_interval_needs_thirty_pairs(load):
    upper_limit = load("measure").upper_limit
    with pytest.raises(ValueError):
        upper_limit([1.0] * 29)
    assert upper_limit([1.0] * 30) == 1.0
    assert upper_limit([0.9, 1.1] * 20) > 1.0


def test_children_are_measured_and_their_failures_said(load):
    measure = load("measure")
    usage = measure.run_child(measure.python("-c", "x = bytearray(50_000_000); print('out')"))
    assert usage.stdout == "out\n" and usage.rss_bytes > 50_000_000
    with pytest.raises(measure.ChildError, match="why"):
        measure.run_child(measure.python("-c", "raise SystemExit('why')"))


def test_results_become_tables_and_other_tables_stay(load, tmp_path, monkeypatch):
    docs, rows = load("docs"), load("rows")
    page = tmp_path / "performance.md"
    page.write_text("# P\n<!-- a -->\nold a\n<!-- end -->\n<!-- b -->\nold b\n<!-- end -->\n")
    monkeypatch.setattr(docs, "PAGE", page)
    monkeypatch.setattr(docs, "cache_dir", lambda: tmp_path)
    docs.store("a", [rows.compare("fast \\ claim", "s", 1.0, 4.0, "p", bar=0.3).as_json()], tmp_path)
    docs.write(["a", "b"])
    text = page.read_text()
    assert "| fast \\ claim | 1 s | p 4 | 0.25 | <= 0.3 | holds |" in text
    assert "old a" not in text and "old b" in text
    assert json.loads((tmp_path / "results" / "a.json").read_text())["rows"][0]["ok"] is True
