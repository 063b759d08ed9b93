"""TopsKit's platform: what programs run on, and the session that every tool reads.

`import tops_kit as tops` gives the kernel language: `tops.kernel`, `tops.l1`, `tops.exp`, `tops.f32`, ...
(docs/kernel-language.md), and the runtime: `tops.array`, `tops.Stream`, `tops.synchronize`, ...
(docs/runtime.md). Both are loaded when they are first used: tools that only want a session pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tops_kit.topscc.language import *  # noqa: F403

if TYPE_CHECKING:
    from tops_kit.engine.fault import KernelFault as KernelFault
    from tops_kit.runtime.array import Array as Array
    from tops_kit.runtime.array_functions import array as array
    from tops_kit.runtime.array_functions import asarray as asarray
    from tops_kit.runtime.array_functions import empty as empty
    from tops_kit.runtime.array_functions import empty_like as empty_like
    from tops_kit.runtime.array_functions import full as full  # type: ignore[assignment]
    from tops_kit.runtime.array_functions import zeros as zeros  # type: ignore[assignment]
    from tops_kit.runtime.array_functions import zeros_like as zeros_like
    from tops_kit.runtime.blocks import DevicePointer as DevicePointer
    from tops_kit.runtime.codes import Code as Code
    from tops_kit.runtime.device import Device as Device
    from tops_kit.runtime.device import can_access_peer as can_access_peer
    from tops_kit.runtime.device import device_count as device_count
    from tops_kit.runtime.device import device_properties as device_properties
    from tops_kit.runtime.device import device_reset as device_reset
    from tops_kit.runtime.device import disable_peer_access as disable_peer_access
    from tops_kit.runtime.device import enable_peer_access as enable_peer_access
    from tops_kit.runtime.device import error_name as error_name
    from tops_kit.runtime.device import error_string as error_string
    from tops_kit.runtime.device import get_device as get_device
    from tops_kit.runtime.device import host_work as host_work
    from tops_kit.runtime.device import last_error as last_error
    from tops_kit.runtime.device import now_ns as now_ns
    from tops_kit.runtime.device import profiler_start as profiler_start
    from tops_kit.runtime.device import profiler_stop as profiler_stop
    from tops_kit.runtime.device import set_device as set_device
    from tops_kit.runtime.device import synchronize as synchronize
    from tops_kit.runtime.errors import LaunchError as LaunchError
    from tops_kit.runtime.errors import TopsError as TopsError
    from tops_kit.runtime.event import Event as Event
    from tops_kit.runtime.event import elapsed_ms as elapsed_ms
    from tops_kit.runtime.fills import memset as memset  # type: ignore[has-type]
    from tops_kit.runtime.fills import memset_async as memset_async  # type: ignore[has-type]
    from tops_kit.runtime.graph.executable import GraphExec as GraphExec
    from tops_kit.runtime.graph.graph import Graph as Graph
    from tops_kit.runtime.host_functions import launch_host_func as launch_host_func
    from tops_kit.runtime.host_memory import host_free as host_free
    from tops_kit.runtime.host_memory import host_malloc as host_malloc
    from tops_kit.runtime.host_memory import host_register as host_register
    from tops_kit.runtime.host_memory import host_unregister as host_unregister
    from tops_kit.runtime.ipc import ipc_close_mem_handle as ipc_close_mem_handle
    from tops_kit.runtime.ipc import ipc_get_mem_handle as ipc_get_mem_handle
    from tops_kit.runtime.ipc import ipc_open_mem_handle as ipc_open_mem_handle
    from tops_kit.runtime.ipc_events import ipc_get_event_handle as ipc_get_event_handle
    from tops_kit.runtime.ipc_events import ipc_open_event_handle as ipc_open_event_handle
    from tops_kit.runtime.kernel import Kernel as Kernel
    from tops_kit.runtime.kernel import kernel as kernel
    from tops_kit.runtime.memory import free as free
    from tops_kit.runtime.memory import free_async as free_async
    from tops_kit.runtime.memory import malloc as malloc
    from tops_kit.runtime.memory import malloc_async as malloc_async
    from tops_kit.runtime.memory import mem_get_info as mem_get_info
    from tops_kit.runtime.memory import memory_summary as memory_summary
    from tops_kit.runtime.module import Function as Function
    from tops_kit.runtime.module import Module as Module
    from tops_kit.runtime.pools import MemPool as MemPool
    from tops_kit.runtime.pools import get_pool as get_pool
    from tops_kit.runtime.pools import set_pool as set_pool
    from tops_kit.runtime.result import Launch as Launch
    from tops_kit.runtime.saved_launch import SavedLaunch as SavedLaunch
    from tops_kit.runtime.saved_launch import saved_launch as saved_launch
    from tops_kit.runtime.stream import Stream as Stream
    from tops_kit.runtime.stream import current_stream as current_stream
    from tops_kit.runtime.stream import default_stream as default_stream
    from tops_kit.runtime.transfers import memcpy as memcpy
    from tops_kit.runtime.transfers import memcpy_async as memcpy_async
    from tops_kit.runtime.transfers import memcpy_peer as memcpy_peer
    from tops_kit.runtime.transfers import memcpy_peer_async as memcpy_peer_async
    from tops_kit.topscc.diagnostics import KernelError as KernelError
    from tops_kit.topscc.python.build import ArrayType as ArrayType

# what stands in other modules than the language. Of `memset`, `zeros` and `full`, which the language has too,
# these are what Python calls; the compiler knows them as its words.
_MODULES = {
    "tops_kit.engine.fault": "KernelFault",
    "tops_kit.runtime.array": "Array",
    "tops_kit.runtime.array_functions": "array asarray empty empty_like full zeros zeros_like",
    "tops_kit.runtime.blocks": "DevicePointer",
    "tops_kit.runtime.codes": "Code",
    "tops_kit.runtime.device": """Device can_access_peer device_count device_properties device_reset
        disable_peer_access enable_peer_access error_name error_string get_device host_work last_error now_ns
        profiler_start profiler_stop set_device synchronize""",
    "tops_kit.runtime.errors": "LaunchError TopsError",
    "tops_kit.runtime.event": "Event elapsed_ms",
    "tops_kit.runtime.fills": "memset memset_async",
    "tops_kit.runtime.graph.executable": "GraphExec",
    "tops_kit.runtime.graph.graph": "Graph",
    "tops_kit.runtime.host_functions": "launch_host_func",
    "tops_kit.runtime.host_memory": "host_free host_malloc host_register host_unregister",
    "tops_kit.runtime.ipc": "ipc_close_mem_handle ipc_get_mem_handle ipc_open_mem_handle",
    "tops_kit.runtime.ipc_events": "ipc_get_event_handle ipc_open_event_handle",
    "tops_kit.runtime.kernel": "Kernel kernel",
    "tops_kit.runtime.memory": "free free_async malloc malloc_async mem_get_info memory_summary",
    "tops_kit.runtime.module": "Function Module",
    "tops_kit.runtime.pools": "MemPool get_pool set_pool",
    "tops_kit.runtime.result": "Launch",
    "tops_kit.runtime.saved_launch": "SavedLaunch saved_launch",
    "tops_kit.runtime.stream": "Stream current_stream default_stream",
    "tops_kit.runtime.transfers": "memcpy memcpy_async memcpy_peer memcpy_peer_async",
    "tops_kit.topscc.diagnostics": "KernelError",
    "tops_kit.topscc.python.build": "ArrayType",
}
_ELSEWHERE = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """A name of the kernel language, loaded when it is first asked for (PEP 562)."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import importlib.util

    if name in _ELSEWHERE:
        value = getattr(importlib.import_module(_ELSEWHERE[name]), name)
    elif importlib.util.find_spec(f"{__name__}.{name}") is not None:
        # `from tops_kit import session` asks for the name first, and then loads the module
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} yet: import {__name__}.{name}")
    else:
        language = importlib.import_module("tops_kit.topscc.language")
        if name not in language.__all__:
            types = importlib.import_module("tops_kit.topscc.language.types")
            hint = f": the GCU has no 64-bit types, use {types.WIDE[name]}" if name in types.WIDE else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        value = getattr(language, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from tops_kit.topscc import language

    return sorted({*globals(), *_ELSEWHERE, *language.__all__})
