"""Numbers that people and records use: kinds of activity, domains, callback sites. Append only."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final

from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_table import DRIVER_API, RUNTIME_API


class ActivityKind(IntEnum):
    """What a record tells of. KERNEL_METRIC, KERNEL_LINE and PC_SAMPLING come from kernels' counters."""

    INVALID = 0
    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    SYNCHRONIZATION = 6
    OVERHEAD = 7
    EXTERNAL_CORRELATION = 8
    GCU_EVENT = 9
    GRAPH = 10
    MEMORY = 11
    HOST_FUNCTION = 12
    DEVICE = 13
    STREAM_RACE = 14
    KERNEL_METRIC = 15
    KERNEL_LINE = 16
    PC_SAMPLING = 17
    MARKER = 18


class Domain(IntEnum):
    """Of callbacks. DRIVER_API is what the runtime asks of the simulated driver."""

    DRIVER_API = DRIVER_API
    RUNTIME_API = RUNTIME_API


class CallbackSite(IntEnum):
    """When a callback is called."""

    API_ENTER = 0
    API_EXIT = 1


class ExternalKind(IntEnum):
    """Whose external ids are pushed."""

    UNKNOWN = 0
    FRAMEWORK = 1
    CUSTOM0 = 2
    CUSTOM1 = 3
    CUSTOM2 = 4


# which of the runtime's activities a kind needs
HOOK_KINDS: Final = MappingProxyType(
    {
        ActivityKind.MEMCPY: acts.MEMCPY,
        ActivityKind.MEMSET: acts.MEMSET,
        ActivityKind.KERNEL: acts.KERNEL,
        ActivityKind.DRIVER: acts.DRIVER,
        ActivityKind.RUNTIME: acts.API,
        ActivityKind.SYNCHRONIZATION: acts.SYNCHRONIZATION,
        ActivityKind.OVERHEAD: acts.OVERHEAD,
        ActivityKind.EXTERNAL_CORRELATION: acts.EXTERNAL_CORRELATION,
        ActivityKind.GCU_EVENT: acts.GCU_EVENT,
        ActivityKind.GRAPH: acts.GRAPH,
        ActivityKind.MEMORY: acts.MEMORY,
        ActivityKind.HOST_FUNCTION: acts.HOST_FUNCTION,
        ActivityKind.DEVICE: acts.DEVICE,
        ActivityKind.STREAM_RACE: acts.STREAM_RACE,
        ActivityKind.KERNEL_METRIC: acts.KERNEL,
        ActivityKind.KERNEL_LINE: acts.KERNEL,
        ActivityKind.PC_SAMPLING: acts.KERNEL,
        ActivityKind.MARKER: acts.MARKER,
    }
)
