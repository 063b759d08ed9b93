"""The same kernels in Triton's interpreter: -m benchmarks.engine_triton with TRITON_INTERPRET=1 prints JSON

It takes seconds to minutes for the sizes of the claims, so it gets a part of the work: fewer blocks of the
same size. `scale` is how many times that part is the whole.
"""
# mypy: disable-error-code="import-untyped,no-untyped-def,import-not-found,no-untyped-call,untyped-decorator"
# ruff: noqa: N803, PLR0917

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.engine_measure import alternate, as_json


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < columns
    row = tl.load(x + offsets, mask=mask, other=-float("inf"))
    e = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + offsets, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def gemm_kernel(
    a, b, c, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        acc += tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], acc)


@triton.jit
def flash_kernel(q, k, v, out, scale, L: tl.constexpr, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    base = tl.program_id(0) * L * D
    rows = tl.program_id(1) * BQ + tl.arange(0, BQ)
    across = tl.arange(0, D)
    query = tl.load(q + base + rows[:, None] * D + across[None, :])
    acc = tl.zeros((BQ, D), dtype=tl.float32)
    total = tl.zeros((BQ,), dtype=tl.float32)
    most = tl.full((BQ,), -float("inf"), dtype=tl.float32)
    for j in range(0, L, BK):
        keys = j + tl.arange(0, BK)
        key = tl.load(k + base + keys[:, None] * D + across[None, :])
        value = tl.load(v + base + keys[:, None] * D + across[None, :])
        scores = tl.dot(query, tl.trans(key)) * scale
        greater = tl.maximum(most, tl.max(scores, axis=1))
        p = tl.exp(scores - greater[:, None])
        shrink = tl.exp(most - greater)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p, value)
        most = greater
    tl.store(out + base + rows[:, None] * D + across[None, :], acc / total[:, None])


def main() -> None:
    """Measure all of them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.rand(1 << 19), torch.rand(1 << 19)
    z = torch.empty_like(x)
    matrix = torch.randn(64, 4096)
    soft = torch.empty_like(matrix)
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    c = torch.zeros_like(a)
    q, k, v = (torch.randn(16, 1024, 64) for _ in range(3))
    o = torch.zeros_like(q)
    low_a, low_b = a.half(), b.half()
    bodies: dict[str, tuple[float, Callable[[], Any]]] = {
        "add": (32, lambda: add_kernel[(16,)](x, y, z, len(x), BLOCK=32768)),
        "softmax": (64, lambda: softmax_kernel[(64,)](matrix, soft, 4096, BLOCK=4096)),
        # 4 of 128 tiles of c; 1 of 64 blocks of queries
        "gemm": (32, lambda: gemm_kernel[(4, 1)](a, b, c, N=2048, K=2048, BM=128, BN=256, BK=128)),
        "gemm f16": (
            32,
            lambda: gemm_kernel[(4, 1)](low_a, low_b, c, N=2048, K=2048, BM=128, BN=256, BK=128),
        ),
        "flash": (64, lambda: flash_kernel[(1, 1)](q, k, v, o, 0.125, L=1024, D=64, BQ=256, BK=256)),
    }
    found = as_json(alternate({name: body for name, (_, body) in bodies.items()}, 3))
    torch.testing.assert_close(z, x + y)
    torch.testing.assert_close(soft, torch.softmax(matrix, 1))
    # the last gemm was of f16
    torch.testing.assert_close(
        c[:512, :256], (low_a.float() @ low_b.float())[:512, :256], rtol=1e-2, atol=1e-2
    )
    torch.testing.assert_close(
        o[0, :256], torch.softmax(q[0, :256] @ k[0].T * 0.125, 1) @ v[0], rtol=1e-3, atol=1e-4
    )
    json.dump({name: {"scale": bodies[name][0], **times} for name, times in found.items()}, sys.stdout)


if __name__ == "__main__":
    main()
