"""`topsprof stats` and `topsprof sql` as whole processes on a session of 10 M events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.rows import Row, compare
from benchmarks.traces import cache_dir

DESCRIPTION = "topsprof stats at 10 M events, unfiltered and filtered, as whole processes"

_TX, _KERNELS = 5_000_000, 5_000_000
_REPETITIONS = 7
_PANDAS = """
import pandas, sys
for table in ("tx", "kernel"):
    frame = pandas.read_parquet(f"{sys.argv[1]}/{table}.parquet", columns=["name", "duration_ns"])
    print(frame.groupby("name", observed=True).duration_ns.agg(["sum", "count", "mean", "median", "min",
    "max", "std"]))
"""

# Inside a process that has the session open: the least time of several, printed.
_TOP = """
import sys, time
from tops_kit.session import Session
connection = Session.open(sys.argv[1]).sql_connection()
def top():
    begin = time.perf_counter()
    query = "select name, sum(duration_ns) from slice group by name order by 2 desc limit 20"
    found = connection.execute(query)
    assert len(found.fetchall()) == 20
    return time.perf_counter() - begin
print(min(top() for _ in range(5)))
"""
_TOP_PANDAS = """
import pandas, sys, time
frames = [pandas.read_parquet(f"{sys.argv[1]}/{table}.parquet", columns=["name", "duration_ns"])
          for table in ("tx", "kernel")]
def top():
    begin = time.perf_counter()
    sums = [frame.groupby("name", observed=True).duration_ns.sum() for frame in frames]
    assert len(pandas.concat(sums).nlargest(20)) == 20
    return time.perf_counter() - begin
print(min(top() for _ in range(5)))
"""


def rows() -> Iterator[Row]:
    """All claims about stats."""
    session = session_of_ten_million()
    parquet = _parquet(session)
    facts = json.loads(measure.run_child(measure.topsprof("info", str(session), "--json")).stdout)
    middle = facts["duration_ns"] // 4
    commands = {
        "unfiltered": ["stats", str(session), "-r", "gcu_kern_sum,tx_sum"],
        "default": ["stats", str(session)],
        "half": ["stats", str(session), "-r", "gcu_kern_sum", "--filter-time", f"{middle}/{3 * middle}"],
        "tx": ["stats", str(session), "-r", "tx_sum", "--filter-time", f"{middle}/{3 * middle}"],
        "all": ["stats", str(session), "-r", "gcu_kern_sum,tx_sum", "--filter-time", "0/"],
        "sql": [
            "sql",
            str(session),
            "select name, sum(duration_ns) from kernel group by name order by 2 desc limit 20",
        ],
    }
    children = {
        name: (lambda words=words: measure.run_child(measure.topsprof(*words)))
        for name, words in commands.items()
    }  # type: ignore[misc]
    children["pandas"] = lambda: measure.run_child(measure.python("-c", _PANDAS, str(parquet)))
    found = measure.interleaved(children, _REPETITIONS)
    peer = found["pandas"].wall_s
    peer_name = "pandas on Parquet of the same events"
    for name, claim, bar in (
        ("unfiltered", "stats of two reports, unfiltered", 0.5),
        ("default", "stats, default reports, unfiltered", 0.5),
        ("half", "stats of kernels, half of the time filtered out", 1.5),
        ("tx", "stats of ranges, half of the time filtered out", 1.5),
        ("all", "stats of two reports, a filter that keeps all", 1.5),
        ("sql", "sql: top 20 kernel names", None),
    ):
        usages = found[name]
        yield compare(
            f"{claim}, 10 M events, whole process",
            "s",
            usages.wall_s,
            peer,
            peer_name,
            bar=bar,
            bar_on="ours",
            note=usages.note,
        )
    top = measure.run_child(measure.python("-c", _TOP, str(session)))
    top_pandas = measure.run_child(measure.python("-c", _TOP_PANDAS, str(parquet)))
    yield compare(
        "sql: top 20 names of 10 M rows, in an open session",
        "s",
        float(top.stdout),
        float(top_pandas.stdout),
        "pandas, in memory",
        bar=0.2,
        bar_on="ours",
    )


def session_of_ten_million() -> Path:
    """The cached session, made first where it is missing. Compacted, as a recording or an import leaves
    it."""
    path = cache_dir() / "ten-million.topsprof"
    if not (path / "session.json").exists():
        partial = path.with_name("part.topsprof")
        measure.run_child(measure.python("-m", "benchmarks.synthetic", str(partial), str(_TX), str(_KERNELS)))
        measure.run_child(measure.python("-m", "tops_kit.session.compaction", str(partial)))
        partial.rename(path)
    return path


def _parquet(session: Path) -> Path:
    folder = session.with_suffix(".parquet")
    if not folder.exists():
        folder.mkdir()
        for table in ("tx", "kernel"):
            query = f"select * from {table}"
            target = str(folder / f"{table}.parquet")
            measure.run_child(measure.topsprof("sql", str(session), query, "-f", "parquet", "-o", target))
    return folder
