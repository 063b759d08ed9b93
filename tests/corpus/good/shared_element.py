"""Each thread writes its own element, and reads all of them behind the barrier."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.i32)):
    each = tops.l2(tops.i32, (4,))
    t = tops.local_id()
    each[t] = t
    tops.barrier()
    total = 0
    for k in range(4):
        total += each[k]
    tops.store(y[t : t + 1], tops.full(tops.i32, (1,), total))


def launch(kernel):
    return kernel[1, 4](np.zeros(4, np.int32))
