"""All threads write the same element of L2."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.i32)):
    last = tops.l2(tops.i32, (1,))
    t = tops.local_id()
    last[0] = t  # fault: race
    tops.barrier()
    tops.store(y[t : t + 1], tops.load(last))


def launch(kernel):
    return kernel[1, 4](np.zeros(4, np.int32))
