"""One thread waits for the grid where the others wait for the block."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32)):
    t = tops.local_id()
    if t == 0:
        tops.grid_barrier()  # fault: barrier
    else:
        tops.barrier()
    tops.store(y[t : t + 1], tops.zeros(tops.f32, (1,)))


def launch(kernel):
    return kernel[1, 4](np.zeros(4, np.float32))
