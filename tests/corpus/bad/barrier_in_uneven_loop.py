"""Threads have unequal numbers of rounds, and a barrier in each."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32), rounds: tops.i32):
    t = tops.local_id()
    for _ in range(t, rounds, tops.block_size()):
        tops.barrier()  # fault: barrier
    tops.store(y[t : t + 1], tops.zeros(tops.f32, (1,)))


def launch(kernel):
    return kernel[1, 4](np.zeros(4, np.float32), 6)
