"""Thread 0 spins on a flag that the other thread forgets to set."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(flag: tops.ptr(tops.i32), y: tops.ptr(tops.i32)):
    if tops.thread_id() == 0:
        while tops.atomic_add(flag[0], 0) == 0:  # fault: timeout
            pass
    tops.store(y[tops.thread_id() : tops.thread_id() + 1], tops.full(tops.i32, (1,), 1))


def launch(kernel):
    return kernel.options(budget_s=0.3)[2](np.zeros(1, np.int32), np.zeros(2, np.int32))
