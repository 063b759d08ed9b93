"""The same attention: the reshape moves a head of many tokens in one transfer, the next ones under way.

topsprof run --stats --metrics all -- python hot_reshape_fixed.py   # compare with hot_reshape.py
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
def split_heads(x: tops.ptr(ndim=3), y: tops.ptr(ndim=3), D: tops.constexpr, BLOCK: tops.constexpr = 64):
    """y[head, token] = x[token, head]: a head of BLOCK tokens at a time, which the DTE gathers."""
    tokens, heads, _ = x.shape
    rows = tops.l1(x.dtype, (BLOCK, D), slots=4)

    def source(work):
        token = work // heads * BLOCK
        return x[token : min(token + BLOCK, tokens), work % heads, 0:D]

    works = tops.cdiv(tokens, BLOCK) * heads
    for work in tops.pipeline(tops.thread_id(), works, tops.num_threads(), load=(rows, source)):
        token = work // heads * BLOCK
        tops.store(y[work % heads, token : min(token + BLOCK, tokens)], rows[work])


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
