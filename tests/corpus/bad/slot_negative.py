"""The slot before the first one."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,), slots=2)
    for k in range(2):
        tops.load(row[k], x[k * 64 : k * 64 + 64])
    for k in range(2):
        tops.store(y[k * 64 : k * 64 + 64], row[k - 1])  # fault: slot


def launch(kernel):
    return kernel[1](np.ones(128, np.float32), np.zeros(128, np.float32))
