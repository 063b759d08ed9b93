"""A part of L2 is handed over at a barrier, but its transfer was not awaited before."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    shared = tops.l2(tops.f32, (4, 32))
    t = tops.local_id()
    filled = tops.copy_async(shared[t : t + 1], x[t : t + 1])  # fault: race
    tops.barrier()
    tops.store(y[t : t + 1], tops.load(shared[(t + 1) % 4 : (t + 1) % 4 + 1]))  # other
    tops.wait(filled)


def launch(kernel):
    return kernel[1, 4](np.ones((4, 32), np.float32), np.zeros((4, 32), np.float32))
