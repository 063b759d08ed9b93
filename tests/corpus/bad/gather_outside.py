"""One index of a gather equals the table's length."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(table: tops.ptr(tops.f32), index: tops.ptr(tops.i32), y: tops.ptr(tops.f32)):
    values = tops.load(table[0:64])
    picked = tops.gather(values, tops.load(index[0:16]))  # fault: gather
    tops.store(y[0:16], picked)


def launch(kernel):
    index = np.arange(49, 65, dtype=np.int32)
    return kernel[1](np.ones(64, np.float32), index, np.zeros(16, np.float32))
