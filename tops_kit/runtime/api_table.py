"""The vendor's API by name and number: what callbacks and records call a runtime call.

A number never changes and is never used again; a new name is appended with the next one.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

DRIVER_API: Final = 1
RUNTIME_API: Final = 2
DOMAINS: Final = MappingProxyType({DRIVER_API: "DRIVER_API", RUNTIME_API: "RUNTIME_API"})

# append only: the n-th name has number n, beginning with 1
_RUNTIME = (
    "topsInit", "topsSetDevice", "topsGetDevice", "topsGetDeviceCount", "topsGetDeviceProperties",
    "topsDeviceSynchronize", "topsDeviceReset", "topsDeviceCanAccessPeer",
    "topsDeviceEnablePeerAccess", "topsDeviceDisablePeerAccess", "topsDeviceGetAttribute",
    "topsDeviceGetLimit", "topsDeviceSetLimit", "topsDriverGetVersion", "topsRuntimeGetVersion",
    "topsMalloc", "topsFree", "topsMallocAsync", "topsFreeAsync", "topsMallocFromPoolAsync",
    "topsMemPoolCreate", "topsMemPoolDestroy", "topsMemPoolTrimTo", "topsMemPoolGetAttribute",
    "topsMemPoolSetAttribute", "topsDeviceGetMemPool", "topsDeviceSetMemPool",
    "topsDeviceGetDefaultMemPool", "topsHostMalloc", "topsHostFree", "topsHostRegister",
    "topsHostUnregister", "topsHostGetDevicePointer", "topsMemcpy", "topsMemcpyAsync",
    "topsMemcpyHtoD", "topsMemcpyHtoDAsync", "topsMemcpyDtoH", "topsMemcpyDtoHAsync",
    "topsMemcpyDtoD", "topsMemcpyDtoDAsync", "topsMemcpyPeer", "topsMemcpyPeerAsync",
    "topsMemcpyToSymbol", "topsMemcpyToSymbolAsync", "topsMemcpyFromSymbol",
    "topsMemcpyFromSymbolAsync", "topsMemcpy2D", "topsMemcpy2DAsync", "topsMemset",
    "topsMemsetAsync", "topsMemsetD8", "topsMemsetD8Async", "topsMemsetD16", "topsMemsetD16Async",
    "topsMemsetD32", "topsMemsetD32Async", "topsMemGetInfo", "topsPointerGetAttributes",
    "topsIpcGetMemHandle", "topsIpcOpenMemHandle", "topsIpcCloseMemHandle", "topsIpcGetEventHandle",
    "topsIpcOpenEventHandle", "topsStreamCreate", "topsStreamCreateWithFlags",
    "topsStreamCreateWithPriority", "topsStreamDestroy", "topsStreamQuery", "topsStreamSynchronize",
    "topsStreamWaitEvent", "topsStreamAddCallback", "topsStreamGetId", "topsStreamGetFlags",
    "topsStreamGetPriority", "topsStreamSetLaunchLimit", "topsDeviceGetStreamPriorityRange",
    "topsEventCreate", "topsEventCreateWithFlags", "topsEventDestroy", "topsEventRecord",
    "topsEventQuery", "topsEventSynchronize", "topsEventElapsedTime", "topsLaunchKernel",
    "topsLaunchCooperativeKernel", "topsLaunchHostFunc", "topsModuleLoad", "topsModuleLoadData",
    "topsModuleUnload", "topsModuleGetFunction", "topsModuleGetGlobal", "topsModuleLaunchKernel",
    "topsFuncGetAttributes", "topsStreamBeginCapture", "topsStreamEndCapture",
    "topsStreamIsCapturing", "topsStreamGetCaptureInfo", "topsGraphCreate",
    "topsGraphAddKernelNode", "topsGraphAddMemcpyNode", "topsGraphAddMemsetNode",
    "topsGraphAddHostNode", "topsGraphAddEmptyNode", "topsGraphAddEventRecordNode",
    "topsGraphAddEventWaitNode", "topsGraphAddChildGraphNode", "topsGraphAddDependencies",
    "topsGraphInstantiate", "topsGraphLaunch", "topsGraphUpload", "topsGraphExecUpdate",
    "topsGraphExecKernelNodeSetParams", "topsGraphExecMemcpyNodeSetParams",
    "topsGraphExecMemsetNodeSetParams", "topsGraphExecDestroy", "topsGraphDestroy",
    "topsGraphDebugDotPrint", "topsGraphGetNodes", "topsProfilerStart", "topsProfilerStop",
    "topsGetLastError", "topsPeekAtLastError", "topsGetErrorName", "topsGetErrorString",
    "topsExecutableLoadConstData", "topsExecutableUpdateConstantKey", "topsExecutableGetRefitFlag",
    "topsRuntimeCompile",
)  # fmt: skip

# What the runtime asks of the simulated driver. No public source names these, so the words are plain ones.
_DRIVER = (
    "queueSubmit", "queueWait", "memoryMap", "memoryUnmap", "programLoad",
)  # fmt: skip

RUNTIME_IDS: Final = MappingProxyType({name: number for number, name in enumerate(_RUNTIME, 1)})
DRIVER_IDS: Final = MappingProxyType({name: number for number, name in enumerate(_DRIVER, 1)})
NAMES: Final = MappingProxyType(
    {
        RUNTIME_API: MappingProxyType({number: name for name, number in RUNTIME_IDS.items()}),
        DRIVER_API: MappingProxyType({number: name for name, number in DRIVER_IDS.items()}),
    }
)


def api_id(name: str, domain: int = RUNTIME_API) -> int:
    """The number of an API. Raises KeyError: the table has no such name."""
    return (RUNTIME_IDS if domain == RUNTIME_API else DRIVER_IDS)[name]


def api_name(cbid: int, domain: int = RUNTIME_API) -> str:
    """The name behind a number; `api<n>` for one that this version does not know."""
    return NAMES[domain].get(cbid) or f"api{cbid}"
