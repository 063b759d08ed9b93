"""Only some threads come to the barrier."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    shared = tops.l2(tops.f32, (4, 32))
    t = tops.local_id()
    tops.copy(shared[t : t + 1], x[t : t + 1])
    if t < 2:
        tops.barrier()  # fault: barrier
        tops.store(y[t : t + 1], tops.load(shared[t + 1 : t + 2]))


def launch(kernel):
    return kernel[1, 4](np.ones((4, 32), np.float32), np.zeros((4, 32), np.float32))
