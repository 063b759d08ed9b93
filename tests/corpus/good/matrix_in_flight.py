"""Both tiles are awaited."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(a: tops.ptr(tops.f32, 2), b: tops.ptr(tops.f32, 2), c: tops.ptr(tops.f32, 2)):
    left = tops.l1(tops.f32, (16, 16))
    right = tops.l1(tops.f32, (16, 16))
    acc = tops.zeros(tops.f32, (16, 16))
    for k in range(0, 64, 16):
        one = tops.load_async(left, a[0:16, k : k + 16])
        two = tops.load_async(right, b[k : k + 16, 0:16])
        tops.wait(one, two)
        tops.mma(acc, left, right)
    tops.store(c[0:16, 0:16], acc)


def launch(kernel):
    one = np.ones((16, 64), np.float32)
    return kernel[1](one, np.ones((64, 16), np.float32), np.zeros((16, 16), np.float32))
