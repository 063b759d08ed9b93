"""The samplers and profilers that are measured: how each is started, and the shares that its output tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import measure
from benchmarks.python_mixes import Mix

Weights = dict[str, float]
"""Part -> what a tool found of it, in its own unit."""
_RATE_HZ: Final = 1000


@dataclass(frozen=True, slots=True)
class Tool:
    """`command(out, mix, words)` runs a script (and its words) with the output at `out`; `read(out, mix)`
    finds the parts in it. `outside`: it measures from a process of its own."""

    name: str
    module: str
    command: Callable[[Path, Mix, list[str]], list[str]]
    read: Callable[[Path, Mix], Weights]
    outside: bool = False

    @property
    def why_not(self) -> str:
        """Why it can't be measured here; empty: it can."""
        if self.module and measure.installed(self.module):
            return ""
        found = shutil.which(self.name)
        if found is None:
            return f"{self.name} is not installed"
        done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        text = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        return "" if done.returncode == 0 else f"{self.name} does not start: {text}"


def _parts(mix: Mix, frames: Mapping[tuple[str, int], float]) -> Weights:
    """From (function, line) of innermost frames to the parts of a mix."""
    lines = mix.line_names()
    found: Weights = {}
    for (name, line), weight in frames.items():
        part = lines.get(line, "") if mix.lines else name
        found[part] = found.get(part, 0.0) + weight
    return found


def _add(frames: dict[tuple[str, int], float], name: str, line: int, weight: float) -> None:
    key = name.rpartition(".")[2], line
    frames[key] = frames.get(key, 0.0) + weight


def _of_session(out: Path, mix: Mix) -> Weights:
    report = ("py_line" if mix.lines else "py_sum") + (":wall" if mix.waits else "")
    words = ("stats", str(out), "-r", report, "-f", "json")
    rows = json.loads(measure.run_child(measure.topsprof(*words)).stdout)[report]
    frames: dict[tuple[str, int], float] = {}
    for row in rows:
        line = row.get("Place", "").rpartition(":")[2]
        _add(frames, row["Name"], int(line) if line.isdigit() else 0, row["Self Time (ns)"])
    return _parts(mix, frames)


def _of_py_spy(out: Path, mix: Mix) -> Weights:
    frames: dict[tuple[str, int], float] = {}
    for text in out.read_text(encoding="utf-8").splitlines():
        stack, _, count = text.rpartition(" ")
        leaf = re.match(r"(.*) \((.*):(\d+)\)$", stack.rpartition(";")[2])
        if leaf:
            _add(frames, leaf[1], int(leaf[3]), float(count))
    return _parts(mix, frames)


def _of_austin(out: Path, mix: Mix) -> Weights:
    frames: dict[tuple[str, int], float] = {}
    for text in out.read_text(encoding="utf-8").splitlines():
        if text.startswith("#") or not text:
            continue
        stack, _, taken = text.rpartition(" ")
        leaf = stack.rpartition(";")[2].rsplit(":", 2)
        if len(leaf) == 3 and leaf[2].isdigit():
            _add(frames, leaf[1], int(leaf[2]), float(taken.split(",")[0]))
    return _parts(mix, frames)


def _of_pyinstrument(out: Path, mix: Mix) -> Weights:
    frames: dict[tuple[str, int], float] = {}
    waiting: list[dict[str, Any]] = [json.loads(out.read_text(encoding="utf-8"))["root_frame"]]
    while waiting:
        frame = waiting.pop()
        # its own time, and functions in C, stand there as if they were callees
        below = [
            child
            for child in frame.get("children", [])
            if child["function"] != "[self]" and child.get("file_path_short") != "<built-in>"
        ]
        waiting.extend(below)
        own = frame["time"] - sum(child["time"] for child in below)
        _add(frames, frame["function"].partition("\0")[0], 0, own)
    return _parts(mix, frames)


def _of_scalene(out: Path, mix: Mix) -> Weights:
    frames: dict[tuple[str, int], float] = {}
    for file in json.loads(out.read_text(encoding="utf-8"))["files"].values():
        for each in file["lines" if mix.lines else "functions"]:
            cpu = each["n_cpu_percent_python"] + each["n_cpu_percent_c"] + each["n_sys_percent"]
            name, line = ("", each["lineno"]) if mix.lines else (each["line"], 0)
            _add(frames, name, line, cpu)
    return _parts(mix, frames)


def _of_cprofile(out: Path, mix: Mix) -> Weights:
    import pstats

    frames: dict[tuple[str, int], float] = {}
    stats: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(str(out)).stats  # type: ignore[attr-defined]
    for (_, line, name), taken in stats.items():
        _add(frames, name, line, taken[2])
    return _parts(mix, frames)


def _of_viztracer(out: Path, mix: Mix) -> Weights:
    rows = json.loads(
        measure.run_child(measure.topsprof("stats", str(out), "-r", "py_sum:calls", "-f", "json")).stdout
    )["py_sum:calls"]
    frames: dict[tuple[str, int], float] = {}
    for row in rows:
        _add(frames, row["Name"].partition(" ")[0], 0, row["Self Time (ns)"])
    return _parts(mix, frames)


OURS: Final = Tool(
    "topsprof", "topsprof",
    lambda out, mix, words: measure.topsprof(
        "run", "-f", "--sample", str(_RATE_HZ), "-o", str(out), "--", *measure.python(*words)
    ),
    _of_session, outside=True,
)  # fmt: skip
PEERS: Final = (
    Tool(
        "py-spy", "",
        lambda out, mix, words: [
            "py-spy", "record", "--rate", str(_RATE_HZ), "--format", "raw", "-o", str(out),
            *(["--idle"] if mix.waits else []), "--", *measure.python(*words),
        ],
        _of_py_spy, outside=True,
    ),
    Tool(
        "austin", "",
        lambda out, mix, words: [
            "austin", "-t", "5s", "-i", str(10**6 // _RATE_HZ), *([] if mix.waits else ["-s"]),
            "-o", str(out), *measure.python(*words),
        ],
        _of_austin, outside=True,
    ),
    Tool(
        "pyinstrument", "pyinstrument",
        lambda out, mix, words: measure.python(
            "-m", "pyinstrument", "-i", str(1 / _RATE_HZ), "-r", "json", "-o", str(out), *words
        ),
        _of_pyinstrument,
    ),
    Tool(
        "scalene", "scalene",
        lambda out, mix, words: measure.python(
            "-m", "scalene", "run", "--cpu-only", "-o", str(out), words[0], "---", *words[1:]
        ),
        _of_scalene,
    ),
    Tool(
        "cProfile", "cProfile",
        lambda out, mix, words: measure.python("-m", "cProfile", "-o", str(out), *words),
        _of_cprofile,
    ),
    Tool(
        "viztracer", "viztracer",
        lambda out, mix, words: measure.python(
            "-m", "viztracer", "--quiet", "--tracer_entries", "2000000", "--ignore_c_function", "-o",
            str(out), "--", *words,
        ),
        _of_viztracer,
    ),
)  # fmt: skip


def printed(stdout: str, word: str) -> str:
    """What a measured script printed behind a word. Raises ChildError when it did not."""
    for line in stdout.splitlines():
        if line.startswith(word + " "):
            return line[len(word) + 1 :]
    raise measure.ChildError(f"the script printed no line {word}")
