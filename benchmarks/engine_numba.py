"""numba beside the engine, in one process: scalar code in its CUDA simulator (`NUMBA_ENABLE_CUDASIM=1`),
and what compiling for the first time costs. `python -m benchmarks.engine_numba scalar|compiling` prints JSON.
"""
# mypy: disable-error-code="import-untyped,no-untyped-def,import-not-found,untyped-decorator"
# mypy: disable-error-code="no-untyped-call,attr-defined"

from __future__ import annotations

import json
import sys
import time

import numba
import numpy as np
from numba import cuda  # a global of the module: the simulator replaces it while a kernel runs

from benchmarks import engine_cases as cases
from benchmarks.engine_measure import alternate, as_json

TURNS = 100_000


def scalar() -> None:
    """The loop of `scalar_ints` on 24 threads."""

    @cuda.jit
    def scalar_ints(out, n):
        state, total = 1, 0
        for i in range(n):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            total += (state ^ i) & 255
        out[cuda.grid(1)] = total

    theirs, ours = np.zeros(cases.THREADS, np.int32), np.zeros(cases.THREADS, np.int32)
    few = TURNS // 50
    launcher = cases.scalar_ints.options(mode="fast", host_threads=1)[cases.THREADS]
    found = alternate(
        {"numba": lambda: scalar_ints[2, 12](theirs, few), "ours, few": lambda: launcher(ours, few)}, 3
    )
    assert np.array_equal(theirs, ours)
    found |= alternate({"ours": lambda: launcher(ours, TURNS)}, 9)
    json.dump({"turns": TURNS, "scale": TURNS / few, **as_json(found)}, sys.stdout)


def compiling() -> None:
    """The first compilation of a process: a softmax by numba's jit."""

    @numba.njit
    def softmax(x, y):
        for r in range(x.shape[0]):
            greatest = x[r].max()
            total = np.float32(0)
            for i in range(x.shape[1]):
                y[r, i] = np.exp(x[r, i] - greatest)
                total += y[r, i]
            for i in range(x.shape[1]):
                y[r, i] /= total

    x = np.zeros((4, 64), np.float32)
    begin = time.process_time()
    softmax(x, x.copy())
    json.dump({"first": time.process_time() - begin}, sys.stdout)


if __name__ == "__main__":
    {"scalar": scalar, "compiling": compiling}[sys.argv[1]]()
