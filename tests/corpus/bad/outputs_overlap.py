"""Parts of 64 elements are stored 60 elements apart."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    t = tops.thread_id()
    part = tops.load(x[t * 64 : t * 64 + 64])
    tops.store(y[t * 60 : t * 60 + 64], part)  # fault: race


def launch(kernel):
    return kernel[4](np.ones(256, np.float32), np.zeros(256, np.float32))
