"""A real Kineto trace of any size: CPU PyTorch training a small transformer with stacks, shapes and memory
on.

Run as a program (`python -m benchmarks.traces OUT BYTES`) it profiles one uninterrupted run that is long
enough; nothing is
concatenated or repeated in the file. PyTorch's profiler keeps about 7 bytes of memory per byte of JSON until
it has written
them, so a trace of 2 GB needs about 16 GB of free memory once; the file is kept in the cache folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GIGABYTE = 1 << 30
_MEMORY_PER_JSON_BYTE = 7.5
_JSON_BYTES_PER_STEP = 2_990_000  # of the model below; checked after the run


class NotEnoughMemoryError(RuntimeError):
    """The machine has not the free memory that PyTorch's profiler needs for a trace of this size."""


def cache_dir() -> Path:
    """Where big inputs are kept: TOPSKIT_BENCH_CACHE, else the user's cache folder."""
    given = os.environ.get("TOPSKIT_BENCH_CACHE")
    base = (
        Path(given)
        if given
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "topskit-benchmarks"
    )
    base.mkdir(parents=True, exist_ok=True)
    return base


def big_trace(size_bytes: int = 2 * GIGABYTE) -> Path:
    """The cached trace of at least `size_bytes`, made first where it is missing.

    Raises NotEnoughMemoryError, or CalledProcessError with PyTorch's own message (e.g. torch is not
    installed).
    """
    path = cache_dir() / f"kineto-cpu-{size_bytes / GIGABYTE:g}g.json"
    if path.exists() and path.stat().st_size >= size_bytes:
        return path
    needed = size_bytes * _MEMORY_PER_JSON_BYTE
    free = available_memory()
    if free is not None and free < needed + 2 * GIGABYTE:
        raise NotEnoughMemoryError(
            f"making {path.name} needs {needed / GIGABYTE:.0f} GiB of free memory, {free / GIGABYTE:.0f} "
            f"are free"
        )
    partial = path.with_suffix(".part")  # a trace that is not whole never has the name of one
    subprocess.run(
        [sys.executable, "-m", "benchmarks.traces", str(partial), str(size_bytes)],
        check=True,
        capture_output=True,
        text=True,
    )
    if partial.stat().st_size < size_bytes:
        raise RuntimeError(
            f"{partial} has {partial.stat().st_size} bytes, wanted {size_bytes}: raise "
            f"_JSON_BYTES_PER_STEP's steps"
        )
    partial.replace(path)
    return path


def available_memory() -> int | None:
    """Bytes that a process could have now; None where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def offer_to_oom_killer() -> None:
    """When memory runs out after all, this process goes, not somebody else's."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        print("cannot raise oom_score_adj", file=sys.stderr)


def limit_memory(share: float = 0.95) -> int:
    """Let this process take no more than a share of the memory that is free now, bytes; 0: no limit could be
    set."""
    import resource

    offer_to_oom_killer()
    free = available_memory()
    if free is None:
        return 0
    limit = int(free * share)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit


def _make(out: str, size_bytes: int) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    offer_to_oom_killer()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    inputs = torch.randn(2, 8, 32)
    steps = int(size_bytes * 1.02 / _JSON_BYTES_PER_STEP) + 1
    profiler = profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    )
    profiler.start()
    for _ in range(steps):
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
        profiler.step()
    profiler.stop()
    profiler.export_chrome_trace(out)


if __name__ == "__main__":
    _make(sys.argv[1], int(sys.argv[2]))
