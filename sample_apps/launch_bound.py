"""An optimiser with three small kernels for each tensor: the host can't launch as fast as the device is done.

topsprof run --stats -- python launch_bound.py          # then the same with launch_bound_fixed.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": (3, 12), "medium": (10, 40), "large": (20, 160)}  # steps, tensors
N = 12_288  # numbers in each
RATE, MOMENTUM = 0.1, 0.9
THREADS = tops.device_properties()["sips"]


@tops.kernel
def scale(x: tops.ptr(), by: tops.f32, n: tops.i32, BLOCK: tops.constexpr = 512):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(x[i:j], tops.load(x[i:j]) * by)


@tops.kernel
def add_scaled(x: tops.ptr(), y: tops.ptr(), by: tops.f32, n: tops.i32, BLOCK: tops.constexpr = 512):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(x[i:j], tops.load(x[i:j]) + tops.load(y[i:j]) * by)


def step(weights: tops.Array, gradients: tops.Array, momenta: tops.Array) -> None:
    for w, g, m in zip(weights, gradients, momenta, strict=True):
        scale[THREADS](m, MOMENTUM, N)
        add_scaled[THREADS](m, g, 1.0, N)
        add_scaled[THREADS](w, m, -RATE, N)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    steps, tensors = SIZES[parser.parse_args().size]
    w, g = np.random.default_rng(0).standard_normal((2, tensors, N), np.float32)

    weights, gradients, momenta = tops.asarray(w), tops.asarray(g), tops.zeros((tensors, N))
    scale[THREADS].prepare(momenta[0], MOMENTUM, N)  # compiled before the time is taken
    add_scaled[THREADS].prepare(momenta[0], gradients[0], 1.0, N)
    begin = tops.now_ns()
    for _ in range(steps):
        with topstx.annotate("optimiser"):
            step(weights, gradients, momenta)
    tops.synchronize()
    print(f"{tensors} tensors: {(tops.now_ns() - begin) / steps / 1e3:.1f} us a step")

    m = np.zeros_like(w)
    for _ in range(steps):
        m = MOMENTUM * m + g
        w = w - RATE * m
    assert np.allclose(weights.numpy(), w, atol=1e-4)


if __name__ == "__main__":
    main()
