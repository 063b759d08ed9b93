"""Attention in which a reshape takes most of the time: in its layout a head's numbers come in short rows.

topsprof run --stats --metrics all -- python hot_reshape.py     # then the same with hot_reshape_fixed.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx
from kernels.flash_attention import flash_attention
from kernels.gemm_double_buffered import gemm_double_buffered

import tops_kit as tops

SIZES = {"small": (192, 4, 2), "medium": (512, 8, 4), "large": (1024, 16, 4)}  # tokens, heads, steps
D = 32
THREADS = tops.device_properties()["sips"]


@tops.kernel
def split_heads(x: tops.ptr(ndim=3), y: tops.ptr(ndim=3), D: tops.constexpr):
    """y[head, token] = x[token, head]: row by row, as they lie. Each row waits for the memory."""
    tokens, heads, _ = x.shape
    for work in range(tops.thread_id(), tokens * heads, tops.num_threads()):
        token, head = work // heads, work % heads
        tops.store(y[head, token], tops.load(x[token, head, 0:D]))


def attention(x: tops.Array, weights: tops.Array, heads: int) -> tops.Array:
    tokens = x.shape[0]
    qkv = tops.empty((tokens, weights.shape[1]))
    gemm_double_buffered[THREADS](x, weights, qkv, BM=64, BN=64, BK=64)
    with topstx.annotate("reshape"):
        split = tops.empty((3 * heads, tokens, D))
        split_heads[THREADS](qkv.reshape(tokens, 3 * heads, D), split, D=D)
    q, k, v = split.reshape(3, heads, tokens, D)
    out = tops.empty((heads, tokens, D))
    flash_attention[THREADS](q, k, v, out, D**-0.5, D=D, BQ=64, BK=64)
    return out


def reference(x: np.ndarray, weights: np.ndarray, heads: int) -> np.ndarray:
    q, k, v = (x @ weights).reshape(len(x), 3, heads, D).transpose(1, 2, 0, 3)
    e = np.exp(q @ k.swapaxes(1, 2) * D**-0.5)
    return e / e.sum(axis=2, keepdims=True) @ v


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    tokens, heads, steps = SIZES[parser.parse_args().size]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((tokens, heads * D), np.float32)
    weights = rng.standard_normal((heads * D, 3 * heads * D), np.float32) / np.float32((heads * D) ** 0.5)

    a, w = tops.asarray(x), tops.asarray(weights)
    for _ in range(steps):
        with topstx.annotate("step"):
            y = attention(a, w, heads)
    assert np.allclose(y.numpy(), reference(x, weights, heads), atol=1e-4)
    print(f"{steps} steps of {tokens} tokens, {heads} heads")


if __name__ == "__main__":
    main()
