"""A permutation that is off by one: the last element has no place."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    out = tops.l1(tops.f32, (64,))
    out[:] = 0.0
    values = tops.load(x[0:64])
    tops.scatter(out, tops.iota(tops.i32, (64,), start=1), values)  # fault: gather
    tops.store(y[0:64], out)


def launch(kernel):
    return kernel[1](np.ones(64, np.float32), np.zeros(64, np.float32))
