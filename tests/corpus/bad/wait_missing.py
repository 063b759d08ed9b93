"""The load is awaited after its destination was used."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    i = tops.thread_id() * 64
    ready = tops.load_async(row, x[i : i + 64])  # other
    doubled = row * 2.0  # fault: not-awaited
    tops.wait(ready)
    tops.store(y[i : i + 64], doubled)


def launch(kernel):
    return kernel[4](np.ones(256, np.float32), np.zeros(256, np.float32))
