"""The same optimiser in one kernel for all tensors: one launch a step, and each number is loaded once.

topsprof run --stats -- python launch_bound_fixed.py    # compare with launch_bound.py
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
def momentum_step(w: tops.ptr(), g: tops.ptr(), m: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 4096):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        new = tops.load(m[i:j]) * MOMENTUM + tops.load(g[i:j])
        tops.store(m[i:j], new)
        tops.store(w[i:j], tops.load(w[i:j]) - new * RATE)


def step(weights: tops.Array, gradients: tops.Array, momenta: tops.Array) -> None:
    momentum_step[THREADS](weights.ravel(), gradients.ravel(), momenta.ravel(), weights.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    steps, tensors = SIZES[parser.parse_args().size]
    w, g = np.random.default_rng(0).standard_normal((2, tensors, N), np.float32)

    weights, gradients, momenta = tops.asarray(w), tops.asarray(g), tops.zeros((tensors, N))
    flat = (array.ravel() for array in (weights, gradients, momenta))
    momentum_step[THREADS].prepare(*flat, weights.size)  # compiled before the time is taken
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
