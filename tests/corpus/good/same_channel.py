"""Transfers on one channel run one after another: the second load may use the first one's place."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    tops.load_async(row, x[0:64], channel=3)
    stored = tops.store_async(y[0:64], row, channel=3)
    last = tops.load_async(row, x[64:128], channel=3)
    tops.wait(last)
    tops.store(y[64:128], row)
    tops.wait(stored)


def launch(kernel):
    return kernel[1](np.ones(128, np.float32), np.zeros(128, np.float32))
