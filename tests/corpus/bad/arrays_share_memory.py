"""Two arguments are views of one array: what looks like a copy is a shift in place."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    i = tops.thread_id() * 32
    part = tops.load(x[i : i + 32])  # other
    tops.store(y[i : i + 32], part)  # fault: race


def launch(kernel):
    memory = np.ones(140, np.float32)
    return kernel[4](memory[:128], memory[12:])
