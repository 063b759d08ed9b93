"""Activities to record, without a device."""

from __future__ import annotations

from typing import Any

from tops_kit.runtime import activity as acts

PLACE = {"device_id": 0, "context_id": 1, "stream_id": 2, "correlation_id": 7, "thread_id": 41}
QUEUED = {"queued_ns": 90, "submit_ns": 95}


def kernel(**changes: Any) -> acts.KernelActivity:
    fields = {
        "name": "softmax", "full_name": "m.softmax(f32)", "start_ns": 100, "end_ns": 250, "grid": (2,),
        "block": (12, 1), "grid_id": 5, "clusters": 2, **PLACE, **QUEUED,
    }  # fmt: skip
    return acts.KernelActivity(**{**fields, **changes})


def samples() -> list[tuple[int, acts.Activity]]:
    """One activity of each kind, with its kind."""
    span = {"start_ns": 100, "end_ns": 250}
    device = acts.MEMORY_DEVICE
    made: list[acts.Activity] = [
        kernel(),
        acts.MemcpyActivity(acts.COPY_HTOD, acts.MEMORY_PINNED, device, 4096, **span, **QUEUED, **PLACE),
        acts.MemsetActivity(-1, 4, acts.MEMORY_DEVICE, 64, **span, **QUEUED, **PLACE),
        acts.ApiActivity(16, 100, 250, 7, 41, 700),
        acts.SyncActivity(acts.SYNC_STREAM, **span, **PLACE),
        acts.OverheadActivity(acts.OVERHEAD_COMPILE, 100, 250, 41, 7, "softmax"),
        acts.ExternalCorrelation(1, 2**64 - 1, 7, 100, 41),
        acts.GcuEventActivity(3, 250, 250, **PLACE),
        acts.GraphActivity(1, 2, 40, **span, **QUEUED, **PLACE),
        acts.MemoryActivity(acts.MEMORY_ALLOC, device, 2**47, 4096, 8192, **span, **PLACE, note="a.py:3"),
        acts.HostFunctionActivity("log", **span, **PLACE),
        acts.DeviceActivity(0, "S60", "s60", "abc", 3, 0),
        acts.MarkerActivity(acts.MARKER_START, 9, 100, "step", "io", 41),
        acts.StreamRaceActivity("copy", "softmax", 2**47, 64, 100, 0, 6, 7),
    ]  # fmt: skip
    return [(acts.KIND_OF[type(each)], each) for each in made] + [
        (acts.DRIVER, acts.ApiActivity(1, 100, 250, 7, 41, 0, domain=1))
    ]
