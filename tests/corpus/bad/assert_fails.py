"""The kernel's own assertion: rows must be even."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32), rows: tops.i32):
    assert rows % 2 == 0, "rows must be even"  # fault: assert
    tops.store(y[0:1], tops.zeros(tops.f32, (1,)))


def launch(kernel):
    return kernel[2](np.zeros(1, np.float32), 3)
