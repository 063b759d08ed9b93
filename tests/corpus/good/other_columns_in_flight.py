"""Half of each row is loaded while the other half is used."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    tile = tops.l1(tops.f32, (8, 64))
    tops.load(tile[:, 0:32], x[0:8, 0:32])
    ready = tops.load_async(tile[:, 32:64], x[0:8, 32:64])
    tops.store(y[0:8, 0:32], tile[:, 0:32] * 2.0)
    tops.wait(ready)
    tops.store(y[0:8, 32:64], tile[:, 32:64] * 2.0)


def launch(kernel):
    return kernel[1](np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32))
