"""Every word of the language, through its Python form, against numpy."""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

A = np.linspace(0.25, 3.0, 32, dtype=np.float32).reshape(4, 8)
B = np.linspace(-2.0, 2.0, 32, dtype=np.float32).reshape(4, 8)[:, ::-1].copy()
I = (np.arange(32, dtype=np.int32).reshape(4, 8) * 7919 % 41) - 11  # noqa: E741 - the ints of the kernels below


def erf(x: Any) -> Any:
    return np.array([math.erf(v) for v in np.ravel(x)]).reshape(np.shape(x))


# body: what becomes of the tiles a, b (4 x 8 f32), i (i32) and of n=3, f=0.5; and the same with numpy
CASES: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "exp": ("tops.exp(b)", lambda a, b, i: np.exp(b)),
    "log": ("tops.log(a)", lambda a, b, i: np.log(a)),
    "sqrt": ("tops.sqrt(a)", lambda a, b, i: np.sqrt(a)),
    "rsqrt": ("tops.rsqrt(a)", lambda a, b, i: 1 / np.sqrt(a)),
    "recip": ("tops.recip(a)", lambda a, b, i: 1 / a),
    "tanh": ("tops.tanh(b)", lambda a, b, i: np.tanh(b)),
    "erf": ("tops.erf(b)", lambda a, b, i: erf(b)),
    "sigmoid": ("tops.sigmoid(b)", lambda a, b, i: 1 / (1 + np.exp(-b))),
    "sin cos": ("tops.sin(b) + 2.0 * tops.cos(b)", lambda a, b, i: np.sin(b) + 2 * np.cos(b)),
    "floor ceil": ("tops.floor(b) + 10.0 * tops.ceil(b)", lambda a, b, i: np.floor(b) + 10 * np.ceil(b)),
    "abs": ("tops.abs(b) + abs(b)", lambda a, b, i: 2 * np.abs(b)),
    "abs of ints": ("abs(i)", lambda a, b, i: np.abs(i)),
    "negative": ("-b", lambda a, b, i: -b),
    "power": ("a ** 3 + a ** 0.5 + a ** -0.5", lambda a, b, i: a**3 + a**0.5 + a**-0.5),
    "minimum maximum": ("tops.minimum(a, b) + 2.0 * tops.maximum(a, 1.0)",
                        lambda a, b, i: np.minimum(a, b) + 2 * np.maximum(a, 1)),
    "where": ("tops.where(b > 0.0, a, b)", lambda a, b, i: np.where(b > 0, a, b)),
    "where of scalars": ("tops.where(n > 2, a, b)", lambda a, b, i: a),
    "fma": ("tops.fma(a, b, 0.5)", lambda a, b, i: a * b + 0.5),
    "cast": ("tops.cast(i, tops.f32) * 0.5 + b.to(tops.i32).to(tops.f32)",
        lambda a, b, i: i * 0.5 + np.trunc(b)),
    "to": ("b.to(tops.f16).to(tops.f32)", lambda a, b, i: b.astype("f2")),
    "scalar casts": ("a * tops.f32(n) + float(n) + tops.i32(f * 5.0)", lambda a, b, i: a * 3 + 3 + 2),
    "int arithmetic": ("(i * 3 - 4) // 5 + i % 7", lambda a, b, i: (i * 3 - 4) // 5 + i % 7),
    "bits": ("(i & 12) | (i ^ 5) + (i << 2) + (i >> 1) + ~i",
             lambda a, b, i: (i & 12) | (i ^ 5) + (i << 2) + (i >> 1) + ~i),
    "bool tiles": ("tops.where((a > 1.0) & ~(b > 0.0) | (i == 3), 1, 0)",
                   lambda a, b, i: np.where((a > 1) & ~(b > 0) | (i == 3), 1, 0)),
    "float floor division": ("b // 0.75 + b % 0.75", lambda a, b, i: b // 0.75 + b % 0.75),
    "zeros full": ("tops.zeros(tops.f32, (4, 8)) + tops.full(tops.f32, (4, 1), f) + a",
        lambda a, b, i: a + 0.5),
    "iota": ("tops.iota(tops.i32, (4, 8), axis=0) * 10 + tops.iota(tops.i32, (1, 8), start=n, step=2)",
             lambda a, b, i: np.arange(4)[:, None] * 10 + 3 + 2 * np.arange(8)),
    "arange": ("tops.arange(8) + tops.arange(2, 6)[:, None] * 10",
        lambda a, b, i: np.arange(8) + np.arange(2, 6)[:, None] * 10),
    "sum": ("tops.sum(a, axis=1)", lambda a, b, i: a.sum(1, keepdims=True)),
    "sum of all": ("tops.sum(a)", lambda a, b, i: a.sum().reshape(1, 1)),
    "max min": ("tops.max(a, 0) + tops.min(b, axis=0)",
        lambda a, b, i: a.max(0, keepdims=True) + b.min(0, keepdims=True)),
    "methods": ("a.sum(axis=1) + a.max(1) + a.min(-1)",
                lambda a, b, i: a.sum(1, keepdims=True) + a.max(1, keepdims=True) + a.min(1, keepdims=True)),
    "rows": ("tops.rowsum(a) + tops.rowmax(b) * tops.rowmin(b)",
             lambda a, b, i: a.sum(1, keepdims=True) + b.max(1, keepdims=True) * b.min(1, keepdims=True)),
    "argmax argmin": ("tops.argmax(b, axis=1) * 10 + tops.argmin(i, 1)",
                      lambda a, b, i: b.argmax(1)[:, None] * 10 + i.argmin(1)[:, None]),
    "any all": ("tops.where(tops.any(b > 1.5, axis=1), 1, 0) + tops.where(tops.all(a > 1.0, axis=1), 10, 0)",
                lambda a, b, i: ((b > 1.5).any(1) + 10 * (a > 1).all(1))[:, None]),
    "cumsum": ("tops.cumsum(a) + tops.cumsum(b, axis=0)", lambda a, b, i: a.cumsum(1) + b.cumsum(0)),
    "gather": ("tops.gather(a, tops.arange(8)[None, :] // 2)", lambda a, b, i: a[:, np.arange(8) // 2]),
    "reshape": ("tops.reshape(a, (8, 4)) + b.reshape(-1, 4)", lambda a, b, i: (a + b).reshape(8, 4)),
    "transpose": ("a.T + tops.transpose(b) + b.transpose(1, 0)", lambda a, b, i: (a + b + b).T),
    "transpose of three": ("tops.transpose(tops.reshape(a, (2, 2, 8)), (2, 0, 1)) + 0.0",
                           lambda a, b, i: a.reshape(2, 2, 8).transpose(2, 0, 1)),
    "new axes": ("tops.reshape(a[0:1], (8,))[:, None] + tops.reshape(b[0:1], (8,))[None, :]",
                 lambda a, b, i: a[0][:, None] + b[0][None, :]),
    "dot": ("tops.dot(a, b.T) + (a @ b.T)", lambda a, b, i: 2 * (a @ b.T)),
    "dot of ints": ("i @ i.T", lambda a, b, i: i @ i.T),
    "batched dot": ("tops.reshape(a, (2, 2, 8)) @ tops.transpose(tops.reshape(b, (2, 2, 8)))",
                    lambda a, b, i: a.reshape(2, 2, 8) @ b.reshape(2, 2, 8).transpose(0, 2, 1)),
    "slices": ("a[1:3, ::2] + b[-2:, 1::2] + a[..., 0:4][0:2]",
        lambda a, b, i: a[1:3, ::2] + b[-2:, 1::2] + a[:2, :4]),
    "elements": ("a * a[1, 2] + b[n, -1] + i[0, 0] * 1.0", lambda a, b, i: a * a[1, 2] + b[3, -1] + i[0, 0]),
    "shapes": ("a * (a.shape[0] * 100 + a.shape[1] + len(a) + a.ndim)",
        lambda a, b, i: a * (400 + 8 + 4 + 2)),
    "cdiv": ("i * 0 + tops.cdiv(n, 2) * 10 + tops.cdiv(7, 2)", lambda a, b, i: i * 0 + 24),
    "lanes": ("i * tops.lanes(tops.f16)", lambda a, b, i: i * 64),
    "types": ("(a if a.dtype == tops.f32 else b) + (1.0 if i.dtype != tops.f32 else 2.0)",
        lambda a, b, i: a + 1),
    "ids": ("i * 0 + tops.thread_id() + tops.num_threads() + tops.local_id() + tops.block_size()"
            " + tops.block_id() + tops.num_blocks() + tops.program_id() + tops.num_programs()"
            " + tops.local_id(axis=1) + tops.block_size(2) + tops.num_blocks(0)", lambda a, b, i: i * 0 + 6),
}  # fmt: skip

_KERNEL = """
@tops.kernel
def k(A: tops.ptr(tops.f32, 2), B: tops.ptr(tops.f32, 2), I: tops.ptr(tops.i32, 2), out: tops.ptr(),
      n: tops.i32, f: tops.f32):
    a, b, i = tops.load(A[0:4, 0:8]), tops.load(B[0:4, 0:8]), tops.load(I[0:4, 0:8])
    tops.store(out, {body})
"""


@pytest.mark.parametrize("name", CASES)
def test_by_numpy(name: str, load_text: Callable[[str], ModuleType]) -> None:
    body, by_numpy = CASES[name]
    expected = by_numpy(A.astype(np.float64), B.astype(np.float64), I)
    out = np.zeros(expected.shape, np.int32 if expected.dtype.kind in "ib" else np.float32)
    load_text(_KERNEL.format(body=body)).k[1](A, B, I, out, 3, 0.5)
    np.testing.assert_allclose(out, expected, rtol=1e-6 if "f2" not in body else 1e-3, atol=1e-6)


# whole kernels: statements that put 8 f32 into `r`, a buffer in L1; and what is in it at the end
STATEMENTS = """\
# fill: [2, 2, 5, 5, 2, 2, 2, 1.5]
r[:] = 2.0
r[2:4] = 5.0
r[7] = 1.5
# in place: [4, 4, 4, 4, 1, 1, 1, 1]
r[:] = 1.0
r += 2.0
r[0:4] *= 3.0
r[1] -= 0.5
r[...] //= 2.0
# memset: [1, 3, 1, 3, 1, 3, 1, 3]
tops.memset(r, 3.0)
tops.memset(r[::2], 1.0)
# memset_async: [1, 1, 1, 1, 2, 2, 2, 2]
e = tops.memset_async(r[0:4], 1.0)
g = tops.memset_async(r[4:8], 2.0, after=e)
tops.wait(e, g)
# wait for a tuple: [1, 1, 2, 2, 3, 3, 0, 0]
r[6:8] = 0.0
events = ()
for k in (1, 2, 3):
    events += (tops.memset_async(r[2 * k - 2:2 * k], k),)
tops.wait(events)
# copy: [4, 5, 6, 7, 0, 1, 2, 3]
tops.copy(r[0:4], x[4:8])
tops.copy(r[4:8], x[0:4], channel=3)
# copy_async: [0, 1, 2, 3, 4, 5, 6, 7]
e = tops.copy_async(r, x[0:8], channel='block')
tops.wait(e)
# load into: [2, 3, 4, 5, 6, 7, -1, -1]
tops.load(r, x[2:10], pad=-1.0)
# load with pad: [9, 9, 9, 0, 1, 2, 3, 4]
r[:] = tops.load(x[-3:5], pad=9.0)
# load with pad by a number: [9, 9, 9, 0, 1, 2, 3, 4]
r[:] = tops.load(x[n - 6:n + 2], pad=9.0)
# store clip before the start: [3, 4, 5, 0, 0, 0, 0, 0]
tops.store(y[-3:3], tops.load(x[0:6]), clip=True)
tops.load(r, y[0:8])
# load_async store_async: [0, 1, 2, 3, 4, 5, 6, 7]
e = tops.load_async(r, x[0:8])
tops.wait(e)
g = tops.store_async(y[0:8], r)
tops.wait_all()
r[:] = 0.0
tops.load(r, y[0:8])
# store clip: [0, 0, 0, 0, 0, 0, 5, 5]
tops.store(y[6:10], tops.full(tops.f32, (4,), 5.0), clip=True)
tops.load(r, y[0:8])
# store a number: [0, 0, 4, 4, 4, 0, 0, 0]
tops.store(y[2:5], 4.0)
tops.load(r, y[0:8])
# broadcast: [3, 3, 3, 3, 3, 3, 3, 3]
tops.copy(r, x[3:4])
# steps: [1, 3, 5, 7, 0, 0, 0, 0]
tops.copy(r[0:4], x[1:8:2])
r[4:8] = 0.0
# an element of L3: [3, 3, 3, 3, 3, 3, 3, 3]
v = tops.load(x[n])
r[:] = v
# l2: [4, 5, 6, 7, 0, 1, 2, 3]
s = tops.l2(tops.f32, (2, 4))
tops.store(s[0], tops.load(x[0:4]))
tops.copy(s[1], x[4:8])
tops.load(r[0:4], s[1])
tops.load(r[4:8], s[0])
# views of L3: [0, 4, 1, 5, 2, 6, 3, 7]
tops.store(tops.transpose(tops.reshape(y[0:8], (4, 2))), tops.reshape(x[0:8], (2, 4)))
tops.load(r, tops.reshape(y[0:8], (-1,)))
# views of L2: [0, 4, 1, 5, 2, 6, 3, 7]
s = tops.l2(tops.f32, (2, 4))
tops.store(tops.reshape(s, (8,)), tops.load(x[0:8]))
tops.load(tops.reshape(r, (4, 2)), tops.transpose(s, (1, 0)))
# slots: [3, 3, 3, 3, 2, 2, 2, 2]
s = tops.l1(tops.f32, (4,), slots=3)
for k in range(3):
    s[k] = tops.f32(k)
r[0:4] = s[2] + s[1]
r[4:8] = s[0, 0:4] + s[n - 1, 1]
# scatter: [6, 0, 1, 0, 2, 0, 3, 0]
r[:] = 0.0
tops.scatter(r, tops.arange(4) * 2, tops.load(x[0:4]))
tops.scatter_add(r, tops.arange(4) // 4, tops.load(x[0:4]))
# scatter into a variable: [0, 2, 4, 6, 0, 0, 0, 0]
t = tops.zeros(tops.f32, (8,))
for k in range(2):
    tops.scatter_add(t, tops.arange(4), tops.load(x[0:4]), axis=0)
r[:] = t
# mma: [16, 24, 48, 88, 1, 1, 1, 1]
m = tops.reshape(tops.load(x[0:4]), (2, 2))
c = tops.zeros(tops.f32, (2, 2))
d = c + 1.0
for k in range(2):
    tops.mma(c, m, m)
    c += m @ m
    c = tops.dot(m, m, c)
    c += tops.dot(m, m)
r[0:4] = tops.reshape(c, (4,))
r[4:8] = tops.reshape(d, (4,))
# mma in a function: [12, 18, 36, 66, 0, 0, 0, 0]
def more(acc, m):
    for k in range(3):
        tops.mma(acc, m, m)
m = tops.reshape(tops.load(x[0:4]), (2, 2))
c = tops.zeros(tops.f32, (2, 2))
for k in range(2):
    more(c, m)
r[0:4] = tops.reshape(c, (4,))
r[4:8] = 0.0
# mma into L1: [3, 4, 7, 12, 0, 0, 0, 0]
m = tops.reshape(tops.load(x[0:4]), (2, 2))
c = tops.l1(tops.f32, (2, 2))
c[:] = 1.0
tops.mma(c, m, m)
r[0:4] = tops.reshape(c, (4,))
r[4:8] = 0.0
# tiles are values: [2, 3, 4, 5, 6, 7, 8, 9]
t = tops.load(x[0:8])
u = t
t += 1.0
t *= 2.0
r[:] = t - u
# views see what is written: [2, 8, 1, 7, 1, 1, 1, 1]
v = r[2:4]
r[:] = 1.0
r[3] = 7.0
r[0:2] = v + 1.0
# a name begins anew: [0, 1, 2, 3, 0, 1, 2, 3]
t = tops.load(x[0:8]).to(tops.f16)
t = t.to(tops.f32)
t = t[0:4]
r[0:4] = t
r[4:8] = t
# vectors: [1, 1.5, 2, 2.5, 16.5, 1, 280, 3]
w = tops.l1(tops.f32, (32,))
tops.vstore(w, 0, tops.viota(tops.f32) * 0.5 + tops.vsplat(1.0, tops.f32))
v = tops.vload(w, 0)
r[0:4] = w[0:4]
r[4] = tops.max(v)
r[5] = tops.min(v)
r[6] = tops.sum(v)
r[7] = tops.max(tops.where(v > 3.0, -v, v))
# atomics: [1, 3, 5, -1, 9, 4, 4, 4]
tops.store(y[0:8], 1.0)
a = tops.atomic_add(y[1], 2.0)
b = tops.atomic_max(y[2], 5.0)
c = tops.atomic_min(y[3], -1.0)
d = tops.atomic_exchange(y[4], 9.0)
tops.atomic_add(y[5:7], tops.full(tops.f32, (2,), 3.0))
tops.load(r, y[0:8])
r[7] = a + b + c + d
# atomics of ints: [4, 15, 9, 7, 12, 16, 12, 12]
q = tops.l2(tops.i32, (8,))
z = tops.l1(tops.i32, (8,))
z[:] = 12
tops.store(q, z)
tops.atomic_and(q[0], 6)
tops.atomic_or(q[1], 3)
tops.atomic_xor(q[2], 5)
old = tops.atomic_cas(q[3], 12, 7)
tops.atomic_cas(q[4], 11, 7)
tops.atomic_add(z[5], 4)
w = tops.load(q)
r[:] = w.to(tops.f32)
r[5] = tops.f32(z[5])
r[7] = tops.f32(old)
# barriers: [1, 1, 1, 1, 1, 1, 1, 1]
tops.barrier()
tops.grid_barrier()
r[:] = 1.0
# clock: [1, 1, 1, 1, 1, 1, 1, 1]
t = tops.clock()
r[:] = tops.exp(tops.load(x[0:8]))
u = tops.clock()
r[:] = 1.0 if u > t else 0.0
# static: [0, 0, 2, 0.5, 4, 0.5, 6, 0.5]
tops.static_assert(r.shape[0] == 8, 'eight')
for k in tops.static_range(2, 8, 2):
    r[k] = k * 1.0
    r[k + 1] = 0.5
r[0:2] = 0.0
breakpoint()
tops.breakpoint()
# tops.range: [0, 1, 2, 3, 4, 5, 6, 7]
for k in tops.range(8):
    r[k] = tops.f32(k)
# constexpr variables: [4, 4, 4, 4, 4, 4, 4, 4]
W: tops.constexpr = 4
H = W // 2
t = tops.zeros(tops.f32, (H, W))
r[:] = tops.reshape(t, (8,)) + W
# conditional tiles: [1, 2, 3, 4, 5, 6, 7, 8]
t = tops.load(x[0:8])
u = t * 2.0 if n > 5 else t + 1.0
r[:] = u
# tile parts in a loop: [28, 28, 28, 28, 28, 28, 28, 28]
t = tops.load(x[0:8])
s = 0.0
for k in range(t.shape[0]):
    s += t[k]
r[:] = s
# element copies: [5, 1, 1, 1, 1, 1, 1, 1]
r[:] = 1.0
v = r[0]
r[0] = 5.0
r[1] = v
# tails: [0, 2, 4, 0, 0, 0, 0, 3]
t = tops.load(x[0:min(n, 8)])
r[:] = 0.0
r[0:n] = t * 2.0
r[7] = tops.f32(t.shape[0])
# pipeline down: [1, 0, 0, 4, 0, 0, 7, 0]
w = tops.l1(tops.f32, (1,), slots=2)
r[:] = 0.0
for k in tops.pipeline(6, -1, -3, load=(w, lambda k: x[k:k + 1])):
    r[k] = w[k, 0] + 1.0
# pipeline in a function: [0, 2, 4, 6, 8, 10, 12, 14]
def work(buffer, k):
    return buffer[k] * 2.0
w = tops.l1(tops.f32, (2,), slots=2)
def part(k):
    return x[k:k + 2]
for k in tops.pipeline(0, 8, 2, load=(w, part)):
    r[k:k + 2] = work(w, k)
# extents that a minimum bounds: [0, 2, 4, 6, 8, 10, 1, 1]
r[:] = 1.0
for i in range(0, 2 * n, 4):
    size = min(4, 2 * n - i)
    rest = size
    r[i:i + size] = tops.load(x[i:i + rest]) * 2.0
# extents that sums of minima bound: [0, 1, 2, 3, 7, 7, 0, 1]
r[:] = 7.0
r[0:4] = tops.load(x[1:1 + max(0, min(2, n - 1)) * 2]) - 1.0
r[6:8] = tops.load(x[n - 3:n - 3 + min(n, 3) - 1])
# pipelines one in another: [0, 11, 22, 33, 44, 55, 66, 77]
w = tops.l1(tops.f32, (4,), slots=2)
v = tops.l1(tops.f32, (1,), slots=3)
r[:] = 0.0
for k in tops.pipeline(0, 8, 4, load=(w, lambda k: x[k:k + 4])):
    for j in tops.pipeline(4, load=(v, lambda j: x[k + j:k + j + 1])):
        r[k + j] = w[k, j] + v[j, 0] * 10.0
# pipeline with continue: [0, 1, 0, 3, 0, 5, 0, 7]
w = tops.l1(tops.f32, (1,), slots=2)
r[:] = 0.0
for k in tops.pipeline(8, load=(w, lambda k: x[k:k + 1])):
    if k % 2 == 0:
        continue
    r[k] = w[k, 0]
# pipeline left by return: [0, 0, 0, 1, 0, 0, 2, 0]
def find(value):
    w = tops.l1(tops.f32, (1,), slots=3)
    for k in tops.pipeline(8, load=(w, lambda k: x[k:k + 1])):
        if w[k, 0] > value:
            return k
    return -1
r[:] = 0.0
r[find(2.5)] = 1.0
r[find(5.5)] = 2.0
"""

_BODY = """
@tops.kernel
def k(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1), out: tops.ptr(tops.f32, 1), n: tops.i32):
    r = tops.l1(tops.f32, (8,))
{body}
    tops.store(out[0:8], r)
"""


_STATEMENTS = {
    name: (body, ast.literal_eval(expected))
    for name, expected, body in re.findall(r"^# (.*): (\[.*\])\n((?:(?!# ).*\n)+)", STATEMENTS, re.MULTILINE)
}


@pytest.mark.parametrize("name", _STATEMENTS)
def test_statements(name: str, load_text: Callable[[str], ModuleType]) -> None:
    body, expected = _STATEMENTS[name]
    x, y, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    kernel = load_text(_BODY.format(body=textwrap.indent(body, "    "))).k
    kernel[1](x, y, out, 3)
    assert out.tolist() == [float(value) for value in expected]
