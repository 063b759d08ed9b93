"""Sums are scattered to elements that have no value yet."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), index: tops.ptr(tops.i32), y: tops.ptr(tops.f32)):
    sums = tops.l1(tops.f32, (32,))
    tops.scatter_add(sums, tops.load(index[0:64]), tops.load(x[0:64]))  # fault: uninitialised
    tops.store(y[0:32], sums)


def launch(kernel):
    index = np.arange(64, dtype=np.int32) % 32
    return kernel[1](np.ones(64, np.float32), index, np.zeros(32, np.float32))
