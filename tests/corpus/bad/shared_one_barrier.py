"""One barrier per round is not enough: the next round overwrites what a neighbour still reads."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2), rounds: tops.i32):
    shared = tops.l2(tops.f32, (4, 32))
    row = tops.l1(tops.f32, (1, 32))
    t = tops.local_id()
    tops.load(row, x[t : t + 1])
    for _ in range(rounds):
        tops.copy(shared[t : t + 1], row)  # fault: race
        tops.barrier()
        tops.load(row, shared[(t + 1) % 4 : (t + 1) % 4 + 1])  # other
    tops.store(y[t : t + 1], row)


def launch(kernel):
    return kernel[1, 4](np.ones((4, 32), np.float32), np.zeros((4, 32), np.float32), 3)
