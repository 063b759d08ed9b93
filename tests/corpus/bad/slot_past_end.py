"""Three slots are used of a buffer that has two."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,), slots=2)
    for k in range(4):
        slot = k % 3
        tops.load(row[slot], x[k * 64 : k * 64 + 64])  # fault: slot
        tops.store(y[k * 64 : k * 64 + 64], row[slot])


def launch(kernel):
    return kernel[1](np.ones(256, np.float32), np.zeros(256, np.float32))
