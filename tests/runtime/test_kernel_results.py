"""Kernels as people write them, against numpy, at several shapes and types, tails included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tops_kit as tops

THREADS = 4
Array = npt.NDArray[Any]


@tops.kernel
def softmax(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), rows: tops.i32, COLS: tops.constexpr):
    row = tops.l1(tops.f32, (1, COLS), slots=2)
    for r in tops.pipeline(tops.thread_id(), rows, tops.num_threads(), load=(row, lambda r: x[r : r + 1])):
        e = tops.exp(row[r] - tops.rowmax(row[r]))
        tops.store(y[r : r + 1], e / tops.rowsum(e))


@tops.kernel
def add(x: tops.ptr(), y: tops.ptr(), z: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 4096):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(z[i:j], tops.load(x[i:j]) + tops.load(y[i:j]))


@tops.kernel
def add_ahead(
    x: tops.ptr(), y: tops.ptr(), z: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr, SLOTS: tops.constexpr
):
    a = tops.l1(x.dtype, (BLOCK,), slots=SLOTS[0])
    b = tops.l1(x.dtype, (BLOCK,), slots=SLOTS[1])
    loads = [(a, lambda i: x[i : min(i + BLOCK, n)]), (b, lambda i: y[i : min(i + BLOCK, n)])]
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=loads):
        if tops.any(a[i] != a[i])[0]:
            break
        tops.store(z[i : min(i + BLOCK, n)], a[i] + b[i])


@tops.kernel
def shift_ahead(x: tops.ptr(), y: tops.ptr(), n: tops.i32, SLOTS: tops.constexpr, AHEAD: tops.constexpr):
    a = tops.l1(x.dtype, (8,), slots=SLOTS[0])
    b = tops.l1(x.dtype, (8,), slots=SLOTS[1])

    def part(i):
        j = min(i + 8, n)
        return x[i:j]

    stored = tops.no_event()
    for i in tops.pipeline(0, n, 8, load=[(a, part), (b, part)], ahead=AHEAD):
        j = min(i + 8, n)
        assert tops.all(a[i] == b[i])[0]
        tops.wait(stored)
        stored = tops.store_async(y[i:j], a[i])
    tops.wait(stored)


@tops.kernel
def gemm(
    A: tops.ptr(), B: tops.ptr(), C: tops.ptr(), BM: tops.constexpr, BN: tops.constexpr, BK: tops.constexpr
):
    M, K = A.shape
    N = B.shape[1]
    a = tops.l1(A.dtype, (BM, BK), slots=2)
    b = tops.l1(B.dtype, (BK, BN), slots=2)
    nb = tops.cdiv(N, BN)
    for t in range(tops.thread_id(), tops.cdiv(M, BM) * nb, tops.num_threads()):
        i, j = t // nb * BM, t % nb * BN
        acc = tops.zeros(C.dtype, (BM, BN))
        loads = [(a, lambda k: A[i : i + BM, k : k + BK]), (b, lambda k: B[k : k + BK, j : j + BN])]
        for k in tops.pipeline(0, K, BK, load=loads, pad=0):
            tops.mma(acc, a[k], b[k])
        tops.store(C[i : i + BM, j : j + BN], acc, clip=True)


def online(m: Any, total: Any, acc: Any, s: Any, v: Any) -> Any:
    """One step of the online softmax."""
    top = tops.maximum(m, tops.rowmax(s))
    p = tops.exp(s - top)
    scale = tops.exp(m - top)
    acc = acc * scale
    acc += p @ v
    return top, total * scale + tops.rowsum(p), acc


@tops.kernel
def flash(
    Q: tops.ptr(tops.f32, 3), K: tops.ptr(tops.f32, 3), V: tops.ptr(tops.f32, 3), O: tops.ptr(tops.f32, 3),  # noqa: E741
    D: tops.constexpr, CAUSAL: tops.constexpr, BQ: tops.constexpr = 32, BKV: tops.constexpr = 32,
):  # fmt: skip
    heads, length = Q.shape[0], Q.shape[1]
    k = tops.l1(tops.f32, (BKV, D), slots=2)
    v = tops.l1(tops.f32, (BKV, D), slots=2)
    blocks = length // BQ
    for t in range(tops.thread_id(), heads * blocks, tops.num_threads()):
        h, i = t // blocks, t % blocks * BQ
        q = tops.load(Q[h, i : i + BQ, 0:D]) * (1 / math.sqrt(D))
        m = tops.full(tops.f32, (BQ, 1), -math.inf)
        total = tops.zeros(tops.f32, (BQ, 1))
        acc = tops.zeros(tops.f32, (BQ, D))
        stop = i + BQ if CAUSAL else length
        loads = [(k, lambda j: K[h, j : j + BKV, 0:D]), (v, lambda j: V[h, j : j + BKV, 0:D])]
        for j in tops.pipeline(0, stop, BKV, load=loads):
            s = q @ k[j].T
            if CAUSAL and j + BKV > i:
                rows = tops.iota(tops.i32, (BQ, 1), axis=0, start=i)
                cols = tops.iota(tops.i32, (1, BKV), axis=1, start=j)
                s = tops.where(rows >= cols, s, -math.inf)
            m, total, acc = online(m, total, acc, s, v[j])
        tops.store(O[h, i : i + BQ, 0:D], acc / total)


@tops.kernel
def histogram(x: tops.ptr(tops.i32), h: tops.ptr(tops.i32), n: tops.i32, CHUNK: tops.constexpr = 512):
    count = tops.l1(tops.i32, (256,))
    count[:] = 0
    for i in range(tops.thread_id() * CHUNK, n, tops.num_threads() * CHUNK):
        values = tops.load(x[i : min(i + CHUNK, n)])
        for j in range(values.shape[0]):
            count[values[j] & 255] += 1
    tops.atomic_add(h[0:256], count)


@tops.kernel
def layer_norm(
    x: tops.ptr(), w: tops.ptr(), b: tops.ptr(), y: tops.ptr(), eps: tops.f32,
    COLS: tops.constexpr, ROWS: tops.constexpr = 4,
):  # fmt: skip
    weight = tops.load(w[0:COLS]).to(tops.f32)
    bias = tops.load(b[0:COLS]).to(tops.f32)
    rows = x.shape[0]
    buffer = tops.l1(x.dtype, (ROWS, COLS), slots=2)
    load = (buffer, lambda r: x[r : min(r + ROWS, rows), 0:COLS])
    for r in tops.pipeline(tops.thread_id() * ROWS, rows, tops.num_threads() * ROWS, load=load):
        value = buffer[r].to(tops.f32)
        centred = value - tops.rowsum(value) / COLS
        variance = tops.rowsum(centred * centred) / COLS
        result = centred * tops.rsqrt(variance + eps) * weight + bias
        tops.store(y[r : min(r + ROWS, rows)], result.to(x.dtype))


@tops.kernel
def conv(x: tops.ptr(tops.f32, 4), w: tops.ptr(tops.f32, 4), y: tops.ptr(tops.f32, 4), KH: tops.constexpr,
         KW: tops.constexpr, W: tops.constexpr):  # fmt: skip
    images, channels, height, _ = x.shape
    filters = w.shape[0]
    out_w, out_h = W - KW + 1, height - KH + 1
    for t in range(tops.thread_id(), images * filters * out_h, tops.num_threads()):
        n, f, o = t // (filters * out_h), t // out_h % filters, t % out_h
        acc = tops.zeros(tops.f32, (out_w,))
        for c in range(channels):
            rows = tops.load(x[n, c, o : o + KH, 0:W])
            taps = tops.load(w[f, c, 0:KH, 0:KW])
            for i in tops.static_range(KH):
                for j in tops.static_range(KW):
                    acc += rows[i, j : j + out_w] * taps[i, j]
        tops.store(y[n, f, o, 0:out_w], acc)


@tops.kernel
def ping_pong(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32, BLOCK: tops.constexpr):
    """The pipeline by hand."""
    a = tops.l1(tops.f32, (BLOCK,), slots=2)
    step = tops.num_threads() * BLOCK
    i = tops.thread_id() * BLOCK
    slot = 0
    ready = tops.no_event()
    if i < n:
        ready = tops.load_async(a[slot], x[i : i + BLOCK], pad=0.0)
    while i < n:
        after = i + step
        now = ready
        if after < n:
            ready = tops.load_async(a[1 - slot], x[after : after + BLOCK], pad=0.0)
        tops.wait(now)
        a[slot] *= 2.0
        a[slot, 0:BLOCK] = a[slot] + 1.0
        tops.store(y[i : i + BLOCK], a[slot], clip=True)
        i = after
        slot = 1 - slot


@tops.kernel
def vectors(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), N: tops.constexpr):
    a = tops.l1(tops.f32, (N,))
    tops.load(a, x[0:N])
    top = tops.vsplat(-math.inf, tops.f32)
    for i in range(0, N, tops.lanes(tops.f32)):
        top = tops.maximum(top, tops.vload(a, i))
    best = tops.max(top)
    for i in range(0, N, tops.lanes(tops.f32)):
        tops.vstore(a, i, tops.exp(tops.vload(a, i) - best))
    tops.store(y[0:N], a)


@tops.kernel
def gather_rows(table: tops.ptr(), index: tops.ptr(tops.i32), out: tops.ptr(), COLS: tops.constexpr):
    """Rows of a table by numbers in memory."""
    for i in range(tops.thread_id(), index.shape[0], tops.num_threads()):
        row = tops.load(index[i])
        assert 0 <= row < table.shape[0], "no such row"
        tops.store(out[i, 0:COLS], tops.load(table[row, 0:COLS]))


@tops.kernel
def block_sum(x: tops.ptr(tops.f32), out: tops.ptr(tops.f32), n: tops.i32, BLOCK: tops.constexpr = 64):
    """A sum for each block of threads, by L2 and barriers."""
    parts = tops.l2(tops.f32, (THREADS, 1))
    mine = tops.zeros(tops.f32, (1,))
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        mine += tops.sum(tops.load(x[i : i + BLOCK], pad=0.0))
    tops.store(parts[tops.local_id()], mine)
    tops.barrier()
    if tops.local_id() == 0:
        every = tops.load(parts[0:THREADS])
        tops.store(out[tops.block_id() : tops.block_id() + 1], tops.sum(every, axis=0)[0])


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(dtype)


def near(got: Array, expected: Array, tolerance: float) -> None:
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("rows", "columns", "threads"), [(1, 1, 1), (7, 33, 24), (64, 512, 24), (50, 100, 7)]
)
def test_softmax(rows: int, columns: int, threads: int) -> None:
    x, y = random(rows, columns), np.zeros((rows, columns), np.float32)
    launch = softmax[threads](x, y, rows, columns)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    near(np.asarray(launch), e / e.sum(axis=1, keepdims=True), 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int16, np.int8, np.uint8])
@pytest.mark.parametrize("n", [0, 1, 100, 5000])
def test_add(dtype: Any, n: int) -> None:
    x, y = random(n, dtype=dtype), random(n, dtype=dtype, seed=1)
    z = np.zeros_like(x)
    add[24](x, y, z, n, BLOCK=128)
    with np.errstate(over="ignore"):
        assert np.array_equal(z, x + y)


@pytest.mark.parametrize("slots", [(1, 1), (1, 2), (2, 2), (2, 3), (4, 2), (5, 6)])
@pytest.mark.parametrize("n", [0, 5, 64, 1000])
def test_pipelines_of_any_depth(slots: tuple[int, int], n: int) -> None:
    x, y, z = random(n), random(n, seed=1), np.zeros(n, np.float32)
    add_ahead[3](x, y, z, n, BLOCK=32, SLOTS=slots)
    assert np.array_equal(z, x + y)


@pytest.mark.parametrize(
    ("slots", "ahead"), [((3, 3), 1), ((4, 3), 1), ((5, 7), 2), ((7, 4), 2), ((6, 6), 4), ((3, 1), 1)]
)
def test_stores_from_slots_that_no_load_fills_yet(slots: tuple[int, int], ahead: int, needs_c: None) -> None:
    for n in (0, 5, 16, 201):
        x, y = random(n), np.zeros(n, np.float32)
        launch = shift_ahead.options(mode="sanitized", defer=True)[1](x, y, n, slots, ahead)
        assert launch.faults.clean, str(launch.faults)
        assert np.array_equal(x, y)


@pytest.mark.parametrize("slots", [(1, 1), (2, 3)])
def test_leaving_a_pipeline_waits_for_its_loads(slots: tuple[int, int]) -> None:
    x, y, z = random(1000), random(1000, seed=1), np.zeros(1000, np.float32)
    x[100] = np.nan
    add_ahead[1](x, y, z, 1000, BLOCK=32, SLOTS=slots)
    assert np.array_equal(z[:96], (x + y)[:96])
    assert not z[96:].any()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (32, 32, 32), (50, 70, 45), (33, 1, 64)])
def test_gemm(m: int, k: int, n: int) -> None:
    for dtype, result in ((np.float32, np.float32), (np.float16, np.float32), (np.int8, np.int32)):
        scale = 20 if dtype is np.int8 else 1
        a, b = (random(m, k) * scale).astype(dtype), (random(k, n, seed=1) * scale).astype(dtype)
        c = np.zeros((m, n), result)
        gemm[24](a, b, c, 32, 32, 16)
        near(c, a.astype(np.float64) @ b.astype(np.float64), 0 if dtype is np.int8 else 1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(causal: bool) -> None:
    q, k, v = (random(2, 96, 16, seed=seed) for seed in range(3))
    out = np.zeros_like(q)
    flash[24](q, k, v, out, D=16, CAUSAL=causal)
    s = q.astype(np.float64) @ k.transpose(0, 2, 1) / 4
    if causal:
        s = np.where(np.tril(np.ones((96, 96), bool)), s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    near(out, p / p.sum(axis=-1, keepdims=True) @ v, 1e-5)


@pytest.mark.parametrize("n", [0, 3, 5000])
def test_histogram(n: int) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 20, n).astype(np.int32)
    h = np.zeros(256, np.int32)
    histogram[24](x, h, n)
    assert np.array_equal(h, np.bincount(x & 255, minlength=256))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("rows", [1, 6, 37])
def test_layer_norm(dtype: Any, rows: int) -> None:
    x, w, b = random(rows, 96, dtype=dtype), random(96, dtype=dtype, seed=1), random(96, dtype=dtype, seed=2)
    y = np.zeros_like(x)
    layer_norm[5](x, w, b, y, 1e-5, COLS=96)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    near(y, expected * w.astype(np.float64) + b.astype(np.float64), 1e-2 if dtype is np.float16 else 1e-5)


def test_conv() -> None:
    x, w, y = random(2, 3, 9, 20), random(4, 3, 3, 2, seed=1), np.zeros((2, 4, 7, 19), np.float32)
    conv[24](x, w, y, KH=3, KW=2, W=20)
    expected = np.zeros(y.shape)
    for i in range(3):
        for j in range(2):
            part = x[:, :, i : i + 7, j : j + 19].astype(np.float64)
            expected += np.einsum("nchw,fc->nfhw", part, w[:, :, i, j])
    near(y, expected, 1e-5)


@pytest.mark.parametrize("n", [1, 64, 1000])
def test_ping_pong_by_hand(n: int) -> None:
    x, y = random(n), np.zeros(n, np.float32)
    ping_pong[5](x, y, n, BLOCK=64)
    assert np.array_equal(y, x * np.float32(2) + np.float32(1))


def test_vectors() -> None:
    x, y = random(96), np.zeros(96, np.float32)
    vectors[1](x, y, N=96)
    near(y, np.exp(x.astype(np.float64) - x.max()), 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_gather_rows(dtype: Any) -> None:
    table = (random(20, 8) * 9).astype(dtype)
    index = np.array([3, 0, 19, 7, 7], np.int32)
    out = np.zeros((5, 8), dtype)
    gather_rows[3](table, index, out, COLS=8)
    assert np.array_equal(out, table[index])
    with pytest.raises(tops.KernelFault, match="no such row"):
        gather_rows[3](table, np.array([3, 20], np.int32), out, COLS=8)


@pytest.mark.parametrize("slots", [(1, 1), (2, 2), (2, 3), (4, 1), (6, 2)])
def test_the_sanitizer_blames_no_pipeline(slots: tuple[int, int], needs_c: None) -> None:
    x, y, z = random(500), random(500, seed=1), np.zeros(500, np.float32)
    launch = add_ahead.options(mode="sanitized")[3](x, y, z, 500, BLOCK=32, SLOTS=slots)
    assert launch.faults.clean, str(launch.faults)
    x[100] = np.nan
    launch = add_ahead.options(mode="sanitized")[1](x, y, z, 500, BLOCK=32, SLOTS=slots)
    assert launch.faults.clean, str(launch.faults)
    a, b, c = random(50, 70), random(70, 45, seed=1), np.zeros((50, 45), np.float32)
    launch = gemm.options(mode="sanitized")[5](a, b, c, 32, 32, 16)
    assert launch.faults.clean, str(launch.faults)


def test_barriers_and_l2() -> None:
    x, out = random(1000), np.zeros(3, np.float32)
    block_sum[3, 4](x, out, 1000)
    near(np.array([out.sum()]), np.array([x.astype(np.float64).sum()]), 1e-4)


@pytest.mark.smoke
def test_the_oracle_gives_the_same_bits(needs_c: None) -> None:
    x = random(6, 40)
    outs = []
    for engine in ("c", "oracle"):
        y = np.zeros_like(x)
        softmax.options(engine=engine)[4](x, y, 6, 40)
        outs.append(y)
    assert np.array_equal(*outs)


@tops.kernel
def crosswise(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2), n: tops.i32, ROWS: tops.constexpr):
    m = min(n, 8)
    part = tops.load(x[0:m, 0:1])
    if ROWS:
        tops.store(y[0:m, 0:1], part)
    else:
        tops.store(y[0:1, 0:m], part)


@pytest.mark.parametrize("engine", ["c", "oracle"])
def test_a_column_is_no_row_also_where_extents_are_known_late(engine: str, needs_c: None) -> None:
    """(n, 1) into (1, n): refused when compiling where n is known, a fault where it is not."""
    kernel, x = crosswise.options(engine=engine), np.arange(8, dtype=np.float32).reshape(8, 1)
    into = np.zeros((8, 1), np.float32)
    kernel[1](x, into, 5, ROWS=True)
    assert into[:6, 0].tolist() == [0, 1, 2, 3, 4, 0]
    across = np.zeros((1, 8), np.float32)
    kernel[1](x, across, 1, ROWS=False)
    with pytest.raises(tops.KernelFault) as caught:
        kernel[1](x, across, 5, ROWS=False)
    assert caught.value.kind.name == "shape"
    assert not across.any()


@pytest.mark.parametrize("mode", ["fast", "counted", "timed", "sanitized", "debug"])
def test_every_mode_gives_the_same_bits(mode: str, needs_c: None) -> None:
    a, b = random(50, 70), random(70, 45, seed=1)
    c, other = np.zeros((50, 45), np.float32), np.zeros((50, 45), np.float32)
    gemm.options(mode="fast")[24](a, b, c, 32, 32, 16)
    gemm.options(mode=mode, host_threads=1)[24](a, b, other, 32, 32, 16)
    assert np.array_equal(c, other)
