"""The next load goes into the slot whose store is under way."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), rounds: tops.i32):
    row = tops.l1(tops.f32, (64,))
    for k in range(rounds):
        i = k * 64
        loaded = tops.load_async(row, x[i : i + 64])  # fault: in-use
        tops.wait(loaded)
        tops.store_async(y[i : i + 64], row)  # other
    tops.wait_all()


def launch(kernel):
    return kernel[1](np.ones(256, np.float32), np.zeros(256, np.float32), 4)
