"""What it costs to start: importing topstx into a program, and the command's help."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import measure
from benchmarks.rows import Row, compare

DESCRIPTION = "import topstx; topsprof --help"

_REPETITIONS = 21


def rows() -> Iterator[Row]:
    """All claims about starting."""
    found = measure.interleaved(
        {
            "pass": lambda: measure.run_child(measure.python("-c", "pass")),
            "topstx": lambda: measure.run_child(measure.python("-c", "import topstx")),
            "help": lambda: measure.run_child(measure.topsprof("--help")),
        },
        _REPETITIONS,
    )
    plain, topstx, shown = found["pass"], found["topstx"], found["help"]
    # CPU time: on a busy machine the wall time of 15 ms says how busy it is
    added = topstx.median_cpu_s - plain.median_cpu_s
    yield compare(
        "import topstx, more than `python -c pass`",
        "ms CPU",
        added * 1e3,
        plain.median_cpu_s * 1e3,
        "python -c pass",
        bar=10,
        bar_on="ours",
        note=f"{_REPETITIONS} interleaved pairs, medians; {topstx.note}",
    )
    yield compare(
        "topsprof --help, whole process",
        "ms",
        shown.wall_s * 1e3,
        plain.wall_s * 1e3,
        "python -c pass",
        bar=150,
        bar_on="ours",
        note=shown.note,
    )
