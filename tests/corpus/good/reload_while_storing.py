"""The load is chained to the store of the round before."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), rounds: tops.i32):
    row = tops.l1(tops.f32, (64,))
    stored = tops.no_event()
    for k in range(rounds):
        i = k * 64
        loaded = tops.load_async(row, x[i : i + 64], after=stored)
        tops.wait(loaded)
        stored = tops.store_async(y[i : i + 64], row)
    tops.wait(stored)


def launch(kernel):
    return kernel[1](np.ones(256, np.float32), np.zeros(256, np.float32), 4)
