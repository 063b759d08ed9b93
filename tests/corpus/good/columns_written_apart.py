"""Two halves fill the tile, one by a transfer and one by a computation."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    tile = tops.l1(tops.f32, (8, 32))
    tops.load(tile[:, 0:16], x[0:8, 0:16])
    tile[:, 16:32] = tile[:, 0:16] * 2.0
    tops.store(y[0:8], tops.rowsum(tile))


def launch(kernel):
    return kernel[1](np.ones((8, 32), np.float32), np.zeros((8, 1), np.float32))
