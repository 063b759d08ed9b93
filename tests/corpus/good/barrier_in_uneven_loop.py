"""All threads have the same number of rounds, some of them without work."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32), n: tops.i32):
    t = tops.local_id()
    for first in range(0, n, tops.block_size()):
        if first + t < n:
            tops.store(y[first + t : first + t + 1], tops.full(tops.f32, (1,), 1.0))
        tops.barrier()


def launch(kernel):
    return kernel[1, 4](np.zeros(6, np.float32), 6)
