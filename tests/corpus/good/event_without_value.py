"""An event that is complete stands in where nothing was started."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    row = tops.l1(tops.f32, (64,))
    row[:] = 0.0
    ready = tops.no_event()
    if n > 0:
        ready = tops.load_async(row, x[0:64])
    tops.wait(ready)
    tops.store(y[0:64], row)


def launch(kernel):
    return kernel[1](np.ones(64, np.float32), np.zeros(64, np.float32), 0)
