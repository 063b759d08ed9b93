"""What an annotation costs the program: off, on with the collector live, and beside the peers."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

DESCRIPTION = (
    "cost of an annotation, off and on, against nvtx, viztracer, OpenTelemetry, PyTorch and cProfile"
)

_WARM_RANGES = 10_000_000
_PASSES = 200_000
_OURS = (
    "topstx_pushpop",
    "topstx_domain",
    "topstx_with",
    "topstx_with_new",
    "topstx_decorator",
    "topstx_mark",
)
_NVTX = ("nvtx_pushpop", "nvtx_domain", "nvtx_with", "nvtx_decorator")
_PAIRS = 30


@dataclass(frozen=True)
class Costs:
    """ns per pass of each mode: all repetitions."""

    ns: dict[str, list[float]]
    backend: str = ""

    def least(self, mode: str) -> float | None:
        """The least, the figure least disturbed by the rest of the machine."""
        return min(self.ns[mode]) if mode in self.ns else None

    def note(self, mode: str) -> str:
        return (
            f"median {statistics.median(self.ns[mode]):.1f} ns of {len(self.ns[mode])}"
            if mode in self.ns
            else ""
        )


def rows() -> Iterator[Row]:
    """All claims of the recorder."""
    yield from _off()
    yield from _disabled()
    yield from _on()


def _child(
    modes: Sequence[str], *, repetitions: int = 7, warm_up: int = 0, env: dict[str, str] | None = None
) -> Costs:
    return _costs(measure.run_child(_loops(modes, repetitions, warm_up), env).stdout)


def _loops(modes: Sequence[str], repetitions: int, warm_up: int) -> list[str]:
    return measure.python(
        "-m", "benchmarks.recorder_child", str(repetitions), str(_PASSES), str(warm_up), *modes
    )


def _costs(stdout: str) -> Costs:
    line = next(line for line in stdout.splitlines() if line.startswith("BENCH "))
    found = json.loads(line.removeprefix("BENCH "))
    return Costs(found["ns"], found["backend"])


def _recorded(modes: Sequence[str], *, repetitions: int, warm_up: int) -> tuple[Costs, str]:
    """The same under `topsprof run` with policy block. Also what was lost, as the ledger tells it."""
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as folder:
        session = Path(folder) / "on.topsprof"
        command = _loops(modes, repetitions, warm_up)
        run = measure.run_child(measure.topsprof("run", "-o", str(session), "--", *command))
        facts = json.loads(measure.run_child(measure.topsprof("info", str(session), "--json")).stdout)
        ranges = facts["tables"].get("tx", {}).get("rows", 0)
        lost = sum(
            entry["count"] for entry in facts["ledger"]["entries"] if entry["kind"] in ("dropped", "clipped")
        )
        waits = facts["tables"].get("overhead", {}).get("rows", 0)
        return _costs(run.stdout), f"{ranges:,} records, {lost} lost, {waits} waits for the collector"


def _nvtx_tool() -> dict[str, str] | None:
    """The environment in which nvtx calls our small tool; None without a C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = cache_dir() / "nvtx_tool.so"
    source = Path(__file__).with_name("nvtx_tool.c")
    built = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)],
        check=False,
        capture_output=True,
    )
    return {"NVTX_INJECTION64_PATH": str(library)} if built.returncode == 0 else None


def _off() -> Iterator[Row]:
    """Imported without a profiler."""
    nvtx = measure.installed("nvtx")
    costs = _child(["call", *_OURS, *(_NVTX if nvtx else ())])
    call = costs.least("call")
    for mode, bar in (
        ("topstx_pushpop", 2.0),
        ("topstx_domain", 2.0),
        ("topstx_with", 3.0),
        ("topstx_with_new", 3.0),
        ("topstx_decorator", 3.0),
    ):
        claim = f"off: {_words(mode)} against an empty call"
        note = costs.note(mode)
        yield compare(
            claim, "ns", costs.least(mode), call, "empty call", bar=bar, backend=costs.backend, note=note
        )
    for mode, other in (
        ("topstx_pushpop", "nvtx_pushpop"),
        ("topstx_domain", "nvtx_domain"),
        ("topstx_with_new", "nvtx_with"),
        ("topstx_decorator", "nvtx_decorator"),
    ):
        claim = f"off: {_words(mode)} against nvtx without a tool"
        if nvtx:
            yield compare(claim, "ns", costs.least(mode), costs.least(other), "nvtx", backend=costs.backend)
        else:
            yield missing(
                claim, "ns", costs.least(mode), "nvtx", "nvtx is not installed", backend=costs.backend
            )


def _disabled() -> Iterator[Row]:
    """Switched off by the environment: the decorator returns the function itself."""
    modes = ["topstx_decorator", "call"]
    costs = _child(modes, repetitions=_PAIRS, env={"TOPSTX_DISABLE": "1"})
    ours, plain = (costs.ns[mode] for mode in modes)
    ratios = [a / b for a, b in zip(ours, plain, strict=True)]
    limit = measure.upper_limit(ratios)
    yield compare(
        "off by TOPSTX_DISABLE: decorated call against a plain one",
        "ns",
        statistics.median(ours),
        statistics.median(plain),
        "plain call",
        bar=1.1,
        limit=limit,
        backend=costs.backend,
        note=f"upper 95 % limit of the ratio over {_PAIRS} pairs: {limit:.3f}",
    )


def _on() -> Iterator[Row]:
    """Recorded with the collector live, after 10 M ranges."""
    costs, kept = _recorded(["call", *_OURS], repetitions=7, warm_up=_WARM_RANGES)
    backend = costs.backend
    yield compare(
        "on: push/pop after 10 M ranges against an empty call",
        "ns",
        costs.least("topstx_pushpop"),
        costs.least("call"),
        "empty call",
        bar=3.0,
        backend=backend,
        note=f"{costs.note('topstx_pushpop')}; {kept}",
    )
    pairs = (
        ("topstx_pushpop", "nvtx_pushpop", 0.1),
        ("topstx_pushpop", "nvtx_domain", 0.6),
        ("topstx_domain", "nvtx_domain", 0.6),
        ("topstx_with", "nvtx_with", 0.1),
        ("topstx_with_new", "nvtx_with", 0.1),
        ("topstx_decorator", "nvtx_decorator", 0.4),
    )
    tool = _nvtx_tool() if measure.installed("nvtx") else None
    peers = _child(_NVTX, env=tool) if tool else None
    for ours, other, bar in pairs:
        claim = f"on: {_words(ours)} against {_words(other)} with a tool"
        mine = costs.least(ours)
        if peers is None:
            why = "nvtx is not installed, or there is no C compiler"
            yield missing(claim, "ns", mine, "nvtx + tool", why, backend=backend)
            continue
        yield compare(
            claim,
            "ns",
            mine,
            peers.least(other),
            "nvtx + tool",
            bar=bar,
            backend=backend,
            note=f"ours {costs.note(ours)}, nvtx {peers.note(other)}",
        )
    for module, mode in (
        ("viztracer", "viztracer_with"),
        ("opentelemetry.sdk", "opentelemetry_with"),
        ("torch", "torch_with"),
    ):
        claim = f"on: with against {_words(mode)}"
        mine = costs.least("topstx_with_new")
        if not measure.installed(module):
            yield missing(claim, "ns", mine, module, f"{module} is not installed", backend=backend)
            continue
        theirs = _child([mode], repetitions=3).least(mode)
        yield compare(claim, "ns", mine, theirs, _words(mode), bar=0.1, backend=backend)
    yield _script()


def _script() -> Row:
    """A call-heavy script, every call of its small function annotated and recorded, against cProfile."""
    ours, kept = _recorded(["script_plain", "script_topstx"], repetitions=7, warm_up=0)
    theirs = _child(["script_plain", "script_cprofile"])
    added = _added(ours, "script_topstx")
    return compare(
        "on: time added to a call of a call-heavy script, decorated, against cProfile",
        "ns",
        added,
        _added(theirs, "script_cprofile"),
        "cProfile",
        bar=1.0,
        backend=ours.backend,
        note=kept,
    )


def _added(costs: Costs, mode: str) -> float:
    pairs = zip(costs.ns[mode], costs.ns["script_plain"], strict=True)
    return statistics.median(profiled - plain for profiled, plain in pairs)


def _words(mode: str) -> str:
    tool, _, kind = mode.partition("_")
    spelled = {
        "pushpop": "push/pop",
        "domain": "Domain push/pop",
        "with": "with",
        "with_new": "with annotate(...)",
    }
    word = spelled.get(kind, kind)
    return word if tool == "topstx" else f"{tool} {word}"
