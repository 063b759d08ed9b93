"""The session store: writing, closing, compacting, size beside Chrome JSON, packing."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, synthetic
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

DESCRIPTION = (
    "events/s and bytes/event of the session against Chrome JSON; close, compaction and pack at 10 M events"
)

_ROWS = 10_000_000
_JSON_ROWS = 300_000
_TURNS = 5
_RANGES = 10_000_000


def rows() -> Iterator[Row]:
    """All claims of the store."""
    with tempfile.TemporaryDirectory(
        prefix="topskit-bench-", dir=cache_dir(), ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        json_rate, json_size, gz_size = _chrome_json(folder)
        session = folder / "store.topsprof"
        written = measure.run_child(
            measure.python("-m", "benchmarks.synthetic", str(session), str(_ROWS), "0")
        )
        facts = json.loads(written.stdout)
        rate = _ROWS / facts["append_cpu_s"] / 1e6
        yield compare(
            "events written per second of CPU, uncompressed",
            "M/s",
            rate,
            json_rate,
            "Chrome JSON by Python",
            bar=20,
            bar_on="ours",
            at_least=True,
            note=f"{_ROWS:,} rows",
        )
        yield compare(
            f"close at {_ROWS // 1_000_000} M events", "s", facts["close_s"], None, "", bar=1, bar_on="ours"
        )
        yield from _compaction(session)
        yield from _sizes(session, json_size, gz_size)
        yield from _collector(folder)


def _chrome_json(folder: Path) -> tuple[float, float, float]:
    """M events per second, bytes per event, gzipped bytes per event of Chrome JSON."""
    path = folder / "chrome.json"
    begin = time.process_time()
    synthetic.write_chrome(path, _JSON_ROWS)
    rate = _JSON_ROWS / (time.process_time() - begin) / 1e6
    data = path.read_bytes()
    return rate, len(data) / _JSON_ROWS, len(gzip.compress(data, 6)) / _JSON_ROWS


def _compaction(session: Path) -> Iterator[Row]:
    usage = measure.run_child(measure.python("-m", "tops_kit.session.compaction", str(session)))
    millions = _ROWS / 1e6
    yield compare(
        "compaction with lanes and pyramid, per 1 M rows",
        "s CPU",
        usage.cpu_s / millions,
        None,
        "",
        bar=0.5,
        bar_on="ours",
        note=f"wall {usage.wall_s:.2f} s for {millions:.0f} M",
    )
    yield compare("memory of compaction", "GB", usage.rss_bytes / 1e9, None, "", bar=1, bar_on="ours")


def _sizes(session: Path, json_size: float, gz_size: float) -> Iterator[Row]:
    files = [file for file in session.rglob("*") if file.is_file()]
    pyramid = sum(file.stat().st_size for file in files if file.name == "pyramid.arrow")
    rest = sum(file.stat().st_size for file in files) - pyramid
    yield compare(
        "bytes per event on disk, without the pyramid",
        "B",
        rest / _ROWS,
        json_size,
        "Chrome JSON",
        bar=20,
        bar_on="ours",
        note=f"pyramid {pyramid / _ROWS:.2f} B more",
    )
    yield compare("size of the pyramid", "of the rest", pyramid / rest, None, "", bar=0.4, bar_on="ours")
    target = session.with_suffix(".topspack")
    usage = measure.run_child(measure.topsprof("pack", str(session), "-o", str(target)))
    packed = target.stat().st_size / _ROWS
    yield compare(
        "bytes per event, packed",
        "B",
        packed,
        gz_size,
        "Chrome JSON, gzip -6",
        bar=7,
        bar_on="ours",
        note=f"packing took {usage.wall_s:.1f} s",
    )
    yield from _parquet(session)


def _parquet(session: Path) -> Iterator[Row]:
    claim = "bytes per event as Parquet"
    target = session.with_suffix(".parquet")
    try:
        measure.run_child(measure.topsprof("export", str(session), "-t", "parquet", "-o", str(target)))
    except measure.ChildError as error:
        yield missing(claim, "B", None, "", str(error))
        return
    files = [target] if target.is_file() else [file for file in target.rglob("*") if file.is_file()]
    yield compare(
        claim, "B", sum(file.stat().st_size for file in files) / _ROWS, None, "", bar=6, bar_on="ours"
    )


def _collector(folder: Path) -> Iterator[Row]:
    """CPU of everything but the program itself while ranges are recorded, less that of a recording of almost
    none."""
    claim = "events that the collector takes per second of CPU"
    try:
        spent = [
            min(_overhead(folder / f"collector{count}-{turn}.topsprof", count) for turn in range(_TURNS))
            for count in (1000, _RANGES)
        ]
    except measure.ChildError as error:
        yield missing(claim, "M/s", None, "", str(error))
        return
    rate = _RANGES / max(spent[1] - spent[0], 1e-9) / 1e6
    yield compare(
        claim,
        "M/s",
        rate,
        None,
        "",
        bar=20,
        bar_on="ours",
        at_least=True,
        note=f"{_RANGES:,} ranges; least of {_TURNS}",
    )


def _overhead(session: Path, ranges: int) -> float:
    script = (
        "import time, topstx\n"
        f"for _ in range({ranges}): topstx.push_range('work'); topstx.pop_range()\n"
        "print('CPU', time.process_time())"
    )
    program = measure.python("-c", script)
    run = measure.run_child(measure.topsprof("run", "--sample", "off", "-o", str(session), "--", *program))
    own = float(next(line for line in run.stdout.splitlines() if line.startswith("CPU ")).split()[1])
    return run.cpu_s - own
