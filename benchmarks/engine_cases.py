"""The kernels that the engine is measured with: the sample ones at the sizes of the claims, and our own.

Block sizes are what a user would choose for these shapes: the largest that fit the part's L1 twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tops_kit as tops
from tops_kit.runtime.kernel import Kernel
from tops_kit.runtime.kernel_files import kernel_of, kernels_of

SAMPLES = Path(__file__).resolve().parent.parent / "sample_apps" / "kernels"
THREADS = 24  # all of the part s60

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A kernel with arguments, and the same in numpy. `out`: the array that the kernel stores to."""

    name: str
    kernel: Kernel
    arguments: dict[str, Any]
    out: Array
    reference: Callable[[], Array]
    rtol: float = 1e-5
    atol: float = 1e-6
    threads: Any = THREADS

    def launcher(self, **settings: Any) -> Callable[[], Any]:
        """What launches it with settings."""
        launcher = self.kernel.options(**settings)[self.threads]
        return lambda: launcher(**self.arguments)

    def check(self) -> None:
        """Launch it, and compare with numpy. AssertionError: it computes something else."""
        self.out[...] = 0
        self.launcher(mode="fast")()
        np.testing.assert_allclose(self.out, self.reference(), rtol=self.rtol, atol=self.atol)


def vector_add(n: int = 1 << 24) -> Case:
    """z = x + y; numpy's into an array that is there, too."""
    rng = np.random.default_rng(0)
    x, y = (rng.random(n, np.float32) for _ in range(2))
    z, out = np.zeros_like(x), np.zeros_like(x)
    arguments = {"x": x, "y": y, "z": z, "n": n, "BLOCK": 32768}
    return Case(
        f"vector add {n >> 20}M f32", sample("vector_add"), arguments, z, lambda: np.add(x, y, out=out)
    )


def softmax(rows: int = 4096, columns: int = 4096) -> Case:
    """Softmax of rows."""
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    y = np.zeros_like(x)

    def reference() -> Array:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    arguments = {"x": x, "y": y, "rows": rows, "COLS": columns}
    return Case(f"softmax {rows}x{columns}", sample("softmax"), arguments, y, reference)


def gemm(n: int = 2048, kind: str = "f32") -> Case:
    """c = a @ b with f32 sums; numpy multiplies the same numbers as f32, as it has no fast f16."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    low = np.dtype(np.float16 if kind == "f16" else np.float32)
    left, right = a.astype(low), b.astype(low)
    if kind == "f16":
        a, b = left.astype(np.float32), right.astype(np.float32)
    arguments = {"a": left, "b": right, "c": c, "BM": 128, "BN": 256, "BK": 128}
    kernel = sample("gemm_double_buffered")
    return Case(f"gemm {n} {kind}", kernel, arguments, c, lambda: a @ b, rtol=1e-3, atol=1e-3)


def flash_attention(heads: int = 16, length: int = 1024, size: int = 64) -> Case:
    """Attention; numpy's goes head by head, which is faster than all at once."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, length, size), np.float32) for _ in range(3))
    out, other = np.zeros_like(q), np.zeros_like(q)
    scale = size**-0.5

    def reference() -> Array:
        for head in range(heads):
            scores = q[head] @ k[head].T * np.float32(scale)
            e = np.exp(scores - scores.max(axis=1, keepdims=True))
            other[head] = e / e.sum(axis=1, keepdims=True) @ v[head]
        return other

    arguments = {"q": q, "k": k, "v": v, "out": out, "scale": scale, "D": size, "BQ": 256, "BK": 256}
    name = f"flash attention {heads}x{length}x{size}"
    return Case(name, sample("flash_attention"), arguments, out, reference, rtol=1e-3, atol=1e-5)


def histogram(n: int = 1 << 22) -> Case:
    """Counts of bytes; they add up over launches, so this one is not for checking twice."""
    x = np.random.default_rng(0).integers(0, 256, n, np.uint8)
    counts = np.zeros(256, np.int32)
    arguments = {"x": x, "counts": counts, "n": n, "BINS": 256}
    kernel = sample("histogram")
    return Case(f"histogram {n >> 20}M u8", kernel, arguments, counts, lambda: np.bincount(x, minlength=256))


def counting(n: int = 1 << 20, bins: int = 256) -> Case:
    """Atomics on single elements of L3 in a loop; what they count adds up over launches."""
    counts = np.zeros(bins, np.int32)
    arguments = {"counts": counts, "n": n, "bins": bins}
    name = f"loop of {n >> 20}M atomics on elements in L3"
    expected = np.bincount(np.arange(n) * 7 % bins, minlength=bins)
    return Case(name, count, arguments, counts, lambda: expected)


def sample(name: str) -> Kernel:
    """A sample kernel."""
    return kernel_of(SAMPLES / f"{name}.py", name)


def samples() -> dict[str, Kernel]:
    """All sample kernels that have an example, by name."""
    files = sorted(path for path in SAMPLES.glob("*.py") if not path.stem.startswith("_"))
    found = {name: kernel for path in files for name, kernel in kernels_of(path).items()}
    return {name: kernel for name, kernel in found.items() if kernel.examples.has_example}


@tops.kernel
def empty() -> None:
    """Nothing: what a launch itself costs."""


@tops.kernel
def count(counts: tops.ptr(tops.i32, 1), n: tops.i32, bins: tops.i32) -> None:  # type: ignore[valid-type]
    """One atomic a turn: nothing else hides what watching it costs."""
    for i in range(tops.thread_id(), n, tops.num_threads()):
        tops.atomic_add(counts[i * 7 % bins], 1)


@tops.kernel
def scalar_ints(out: tops.ptr(tops.i32, 1), n: tops.i32) -> None:  # type: ignore[valid-type]
    """A loop of integer instructions, as a hash or an index computation has them."""
    state = 1
    total = 0
    for i in range(n):
        state = state * 1664525 + 1013904223
        total += (state ^ i) & 255
    tops.store(out[tops.thread_id() : tops.thread_id() + 1], tops.full(tops.i32, (1,), total))


@tops.kernel
def scalar_floats(out: tops.ptr(tops.f32, 1), n: tops.i32) -> None:  # type: ignore[valid-type]
    """A loop of f32 instructions: the logistic map, and a sum."""
    x = 0.5
    total = 0.0
    for _ in range(n):
        x = 3.75 * x * (1.0 - x)
        total += x
    tops.store(out[tops.thread_id() : tops.thread_id() + 1], tops.full(tops.f32, (1,), total))
