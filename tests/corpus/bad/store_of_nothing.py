"""A buffer is stored that nothing filled."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    tops.store(y[0:64], row)  # fault: uninitialised


def launch(kernel):
    return kernel[1](np.zeros(64, np.float32))
