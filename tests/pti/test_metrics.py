"""Counters that tools ask for and counters that sessions hold: one meaning to a name."""

from __future__ import annotations

import numpy as np
from topspti.metrics import METRICS, metric_values
from topstx.recorder import layout

import tops_kit as tops
from tops_kit.runtime.counters import counters

SETS = layout.METRICS_ROOFLINE | layout.METRICS_MEMORY | layout.METRICS_STALLS


@tops.kernel
def scaled_products(
    a: tops.ptr(tops.f32, 2), b: tops.ptr(tops.f32, 2), c: tops.ptr(tops.f32, 2), n: tops.i32
):
    for i in range(tops.thread_id() * 16, n, tops.num_threads() * 16):
        rows = tops.load(a[i : i + 16, 0:32])
        tops.store(c[i : i + 16, 0:32], tops.exp(rows @ tops.load(b[0:32, 0:32])))


def test_a_counter_of_the_same_name_has_the_same_value() -> None:
    a = np.full((64, 32), 0.01, np.float32)
    timing = scaled_products[3](a, a[:32].copy(), np.empty_like(a), 64).report
    recorded = dict(counters(timing, SETS))
    shared = {
        name: value for name, value in metric_values(timing).items() if name in recorded and name in METRICS
    }
    assert {"cycles", "duration_ns", "use_l3", "roof_achieved", "stall_dma_cycles", "flops"} <= shared.keys()
    assert shared == {name: recorded[name] for name in shared}
    assert recorded["cycles"] > 0 and recorded["flops"] > 0
