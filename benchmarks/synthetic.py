"""Sessions of any size with events as a recording has them: nested ranges of several threads, kernels with
their calls."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 1 << 20
_THREADS = 8
_NAMES = 50
Columns = dict[str, Any]


def tx_batches(rows: int) -> Iterator[tuple[int, Columns]]:
    """Ranges in the order in which a recorder finishes them, in batches: (rows, columns of table tx)."""
    import pyarrow as pa

    random = np.random.default_rng(7)
    names = pa.array([f"model.layer{i // 10}.step_{i % 10}" for i in range(_NAMES)])
    clock = 1_700_000_000_000_000_000
    for begin in range(0, rows, BATCH):
        count = min(BATCH, rows - begin)
        # threes: two inner ranges, then the outer one around them
        step = random.integers(400, 4000, count)
        starts = clock + np.cumsum(step)
        durations = (step * 0.8).astype(np.int64)
        outer = np.arange(2, count, 3)
        durations[outer] += starts[outer] - starts[outer - 2] + 10
        starts[outer] = starts[outer - 2] - 10
        depth = np.ones(count, np.int32)
        depth[outer] = 0
        clock = int(starts[-1]) + 40_000_000_000  # so that ranges and kernels of a session span the same time
        codes = random.integers(0, _NAMES, count).astype(np.int32)
        yield (
            count,
            {
                "start_ns": starts,
                "duration_ns": durations,
                "depth": depth,
                "process_id": 4242,
                "task_id": 0,
                "thread_id": 4242 + (np.arange(count) // 3) % _THREADS,
                "domain": "",
                "style": "PushPop",
                "color": 0,
                "name": pa.DictionaryArray.from_arrays(pa.array(codes), names),
            },
        )


def kernel_batches(rows: int) -> Iterator[tuple[int, Columns]]:
    """Kernels one after the other on four streams: (rows, columns of table kernel)."""
    import pyarrow as pa

    random = np.random.default_rng(8)
    names = pa.array([f"void gemm_{i}<float, 128, {i}>(float const*, float*, int)" for i in range(200)])
    clock = 1_700_000_000_000_000_000
    for begin in range(0, rows, BATCH):
        count = min(BATCH, rows - begin)
        durations = random.integers(1500, 90_000, count)
        starts = clock + np.cumsum(durations + 300)
        clock = int(starts[-1]) + 100_000
        codes = random.integers(0, 200, count).astype(np.int32)
        yield (
            count,
            {
                "start_ns": starts,
                "duration_ns": durations,
                "process_id": 4242,
                "device_id": 0,
                "context_id": 1,
                "stream_id": 7 + np.arange(count) % 4,
                "correlation_id": begin + np.arange(count),
                "grid_x": codes + 1,
                "grid_y": 1,
                "grid_z": 1,
                "block_x": 256,
                "block_y": 1,
                "block_z": 1,
                "name": pa.DictionaryArray.from_arrays(pa.array(codes), names),
            },
        )


def write_session(path: Path, tx_rows: int, kernel_rows: int = 0) -> dict[str, float]:
    """Write a session; seconds of CPU that appending took, and of wall time that closing took."""
    from tops_kit.session import SessionWriter

    writer = SessionWriter.create(path, overwrite=True, kind="recording", command=["benchmark"])
    spent = 0.0
    for table, batches in (("tx", tx_batches(tx_rows)), ("kernel", kernel_batches(kernel_rows))):
        for count, columns in batches:
            begin = time.process_time()
            writer.append(table, columns, count)
            spent += time.process_time() - begin
    begin = time.process_time()
    writer.flush()
    spent += time.process_time() - begin
    begin = time.perf_counter()
    writer.close()
    return {"append_cpu_s": spent, "close_s": time.perf_counter() - begin}


def write_chrome(path: Path, rows: int) -> None:
    """The same ranges as Chrome trace JSON, as compact as tools write it."""
    with path.open("w", encoding="utf-8") as out:
        out.write('{"traceEvents":[')
        separator = ""
        for _, columns in tx_batches(rows):
            threads, names = columns["thread_id"].tolist(), columns["name"].to_pylist()
            times = zip(columns["start_ns"].tolist(), columns["duration_ns"].tolist(), strict=True)
            for (start, duration), thread, name in zip(times, threads, names, strict=True):
                out.write(
                    f'{separator}{{"ph":"X","name":"{name}","ts":{start // 1000}.{start % 1000:03d},'
                    f'"dur":{duration // 1000}.{duration % 1000:03d},"pid":4242,"tid":{thread}}}'
                )
                separator = ",\n"
        out.write("]}")


if __name__ == "__main__":
    print(json.dumps(write_session(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
