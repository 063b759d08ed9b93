"""All transfers are awaited at the end."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    i = tops.thread_id() * 64
    tops.load(row, x[i : i + 64])
    tops.store_async(y[i : i + 64], row)
    tops.wait_all()


def launch(kernel):
    return kernel[4](np.ones(256, np.float32), np.zeros(256, np.float32))
