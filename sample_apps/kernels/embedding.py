"""Rows of a table by their numbers: the DTE copies them from L3 to L3, many at once."""

import numpy as np

import tops_kit as tops


@tops.kernel
def embedding(
    table: tops.ptr(ndim=2),
    tokens: tops.ptr(tops.i32, 1),
    out: tops.ptr(ndim=2),
    n: tops.i32,
    BLOCK: tops.constexpr = 64,
    CHANNELS: tops.constexpr = 8,
):
    token = tops.l1(tops.i32, (BLOCK,), slots=2)
    source = (token, lambda i: tokens[i : min(i + BLOCK, n)])
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=source):
        # transfers of one channel follow each other: rows are dealt out to several
        for first in range(0, token[i].shape[0], CHANNELS):
            for c in tops.static_range(CHANNELS):
                row = first + c
                if row < token[i].shape[0]:
                    tops.copy_async(out[i + row], table[token[i, row]], channel=c)
    tops.wait_all()


@embedding.example
def _(rng, n=4096, vocabulary=1000, D=512, BLOCK=64, dtype=tops.f32):
    table = (100 * rng.standard_normal((vocabulary, D))).astype(dtype.numpy)
    tokens = rng.integers(0, vocabulary, n).astype(np.int32)
    return dict(table=table, tokens=tokens, out=np.empty((n, D), dtype.numpy), n=n, BLOCK=BLOCK)


@embedding.reference
def _(table, tokens):
    return table[tokens]
