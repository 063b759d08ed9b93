"""The last thread's part begins five elements too late and reaches past the end of the array."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    i = tops.thread_id() * 64
    part = tops.load(x[i + 5 : i + 69])  # fault: view
    tops.store(y[i : i + 64], part)


def launch(kernel):
    return kernel[4](np.ones(256, np.float32), np.zeros(256, np.float32))
