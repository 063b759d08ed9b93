"""Double buffering by hand, where the wait at the head of the loop was left out."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), rounds: tops.i32):
    row = tops.l1(tops.f32, (64,), slots=2)
    ready = tops.load_async(row[0], x[0:64])  # other
    for k in range(rounds):
        if k + 1 < rounds:
            ready = tops.load_async(row[(k + 1) % 2], x[k * 64 + 64 : k * 64 + 128])  # other
        tops.store(y[k * 64 : k * 64 + 64], row[k % 2] + 1.0)  # fault: not-awaited
    tops.wait(ready)


def launch(kernel):
    return kernel[1](np.ones(512, np.float32), np.zeros(512, np.float32), 8)
