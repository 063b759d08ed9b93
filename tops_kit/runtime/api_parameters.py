"""The parameters of each vendor API as tools see them: names, types, and how they follow from a Python call.

A call that is wrong (a size that is no number) has what the program gave, whatever its type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Given = Mapping[str, Any]  # a call's arguments by the names of the Python function
Getter = Callable[[Given], Any]


class Parameter(NamedTuple):
    """`kind` is a right call's type: a name of `KINDS`. `given`: the argument that it comes from."""

    name: str
    kind: str
    given: str
    get: Getter


# by the name that the documentation has: what a value is an instance of (names of our classes)
KINDS: Mapping[str, tuple[str, ...]] = {
    "int": ("int",), "float": ("float",), "str": ("str",), "bytes": ("bytes",), "tuple": ("tuple",),
    "dict": ("dict",), "callable": ("callable",), "object": ("object",), "Stream": ("Stream",),
    "Event": ("Event",), "MemPool": ("MemPool",), "Module": ("Module",), "Graph": ("Graph",),
    "GraphExec": ("GraphExec",), "str or None": ("str", "NoneType"), "tuple of int": ("tuple",),
}  # fmt: skip


def _plain(name: str, kind: str, given: str | None = None) -> Parameter:
    key = given or name
    return Parameter(name, kind, key, lambda got: got[key])


_made = Parameter


def _the_stream(got: Given) -> Any:
    from tops_kit.runtime.stream import current_stream

    stream = got.get("stream")
    return current_stream() if stream is None else stream


def _the_device(got: Given, key: str = "device") -> Any:
    from tops_kit.runtime.process import RUNTIME

    device = got.get(key)
    return RUNTIME.local.device if device is None else device


def _the_pool(got: Given) -> Any:
    pool = got.get("pool")
    return _the_stream(got).context.pool if pool is None else pool


def _copy(got: Given) -> tuple[Any, Any, int]:
    """Both sides of a copy and its bytes."""
    from tops_kit.runtime.transfers import side_of

    target, source = got["target"], got["source"]
    size = got.get("size_bytes")
    into, out_of = side_of(target, size, write=False), side_of(source, size, write=False)
    return into, out_of, min(into.size_bytes, out_of.size_bytes) if size is None else int(size)


def _address(value: Any) -> int:
    """Where an array, a pointer or memory of the host begins."""
    if isinstance(value, int):
        return int(value)
    address = getattr(value, "address", None)
    if isinstance(address, int):
        return address
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    return int(np.frombuffer(value, np.uint8).__array_interface__["data"][0])


def _bytes_of(got: Given) -> int:
    """What a copy or fill without a size moves: all of the device's end."""
    size = got.get("size_bytes")
    if size is not None:
        return int(size)
    target = got["target"]
    for key in ("nbytes", "size_bytes"):
        if hasattr(target, key):
            return int(getattr(target, key))
    return len(target)


def _copy_bytes(got: Given) -> int:
    from tops_kit.runtime.array import Array

    if got.get("size_bytes") is None and isinstance(got["target"], Array):
        return int(got["target"].nbytes)  # whatever is broadcast into it
    return _copy(got)[2]


def _copy_kind(got: Given) -> str:
    from tops_kit.runtime.activity import COPY_KINDS
    from tops_kit.runtime.transfers import kind_of

    into, out_of, _ = _copy(got)
    return COPY_KINDS[kind_of(into, out_of)]


def _device_of(key: str) -> Getter:
    def get(got: Given) -> int:
        value = got[key]
        return int(value.device) if not isinstance(value, int) else value

    return get


def _fill_value(got: Given) -> int:
    """The bits that memory is filled with."""
    from tops_kit.runtime.array import Array
    from tops_kit.runtime.arrays import host_array

    if "bits" in got or not isinstance(got["target"], Array):
        return int(got["value"])
    return int.from_bytes(host_array(got["value"], got["target"].dtype).tobytes(), "little")


def _fill_bits(got: Given) -> int:
    return int(got["bits"]) if "bits" in got else 8 * int(got["target"].itemsize)


def _host_bytes(got: Given) -> int:
    return int(math.prod(np.atleast_1d(got["shape"]).tolist()) * np.dtype(got["dtype"]).itemsize)


def _kernel_of(got: Given) -> str:
    return str(got["function"].name)


def _launcher_name(got: Given) -> str:
    launcher = got["launcher"]
    if hasattr(launcher, "definition"):
        return str(launcher.definition.function.__name__)
    return str(launcher.function.name)


def _event_flags(got: Given) -> int:
    """The vendor's: 2 without timing, 4 for several processes."""
    event = got["event"]
    return (0 if event.timing else 2) | (4 if event.shared is not None else 0)


_STREAM_SELF = _plain("stream", "Stream", "self")
_STREAM = _made("stream", "Stream", "stream", _the_stream)
_DEVICE = _made("device", "int", "device", _the_device)
_INDEX = _made("device", "int", "index", lambda got: _the_device(got, "index"))
_EVENT_SELF = _plain("event", "Event", "self")
_GRAPH_SELF = _plain("graph", "Graph", "self")
_EXEC_SELF = _plain("graph_exec", "GraphExec", "self")
_POOL_SELF = _plain("pool", "MemPool", "self")
_POINTER = _made("ptr", "int", "pointer", lambda got: _address(got["pointer"]))
_HOST = _made("host_ptr", "int", "memory", lambda got: _address(got["memory"]))
_DST = _made("dst", "int", "target", lambda got: _address(got["target"]))
_SRC = _made("src", "int", "source", lambda got: _address(got["source"]))
_DST_DEVICE = _made("dst_device", "int", "target", _device_of("target"))
_SRC_DEVICE = _made("src_device", "int", "source", _device_of("source"))
_SIZE = _plain("size_bytes", "int")
_COPIED = _made("size_bytes", "int", "size_bytes", _copy_bytes)
_FILLED = _made("size_bytes", "int", "size_bytes", _bytes_of)
_KIND = _made("kind", "str", "source", _copy_kind)
_VALUE = _made("value", "int", "value", _fill_value)
_BITS = _made("value_bits", "int", "bits", _fill_bits)
_GRID = _made("grid", "tuple of int", "grid", lambda got: tuple(got["grid"]))
_BLOCK = _made("block", "tuple of int", "block", lambda got: tuple(got["block"]))
_LAUNCH = (
    _made("function", "str", "function", _kernel_of), _GRID, _BLOCK,
    _made("args", "tuple", "args", lambda got: tuple(got["args"])), _STREAM,
)  # fmt: skip
_AFTER = _made("dependencies", "tuple of int", "after", lambda got: tuple(got["after"]))
_CALLBACK = (_plain("function", "callable"), _plain("user_data", "tuple", "args"))

PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "topsStreamSynchronize": (_STREAM_SELF,),
    "topsStreamQuery": (_STREAM_SELF,),
    "topsStreamWaitEvent": (_STREAM_SELF, _plain("event", "Event")),
    "topsStreamAddCallback": (_STREAM_SELF, *_CALLBACK),
    "topsStreamSetLaunchLimit": (
        _STREAM_SELF, _plain("cluster_num", "int", "clusters"), _plain("sip_num", "int", "sips"),
    ),
    "topsStreamBeginCapture": (_STREAM_SELF,),
    "topsStreamEndCapture": (_STREAM_SELF,),
    "topsStreamDestroy": (_STREAM_SELF,),
    "topsStreamCreateWithPriority": (
        _made("flags", "int", "non_blocking", lambda got: int(got["non_blocking"])),
        _plain("priority", "int"), _DEVICE,
    ),
    "topsMemPoolTrimTo": (_POOL_SELF, _plain("min_bytes_to_hold", "int", "keep_bytes")),
    "topsMemPoolDestroy": (_POOL_SELF,),
    "topsMemPoolCreate": (_DEVICE,),
    "topsDeviceGetMemPool": (_DEVICE,),
    "topsDeviceSetMemPool": (_plain("pool", "MemPool"),),
    "topsMalloc": (_SIZE,),
    "topsFree": (_POINTER,),
    "topsMallocAsync": (_SIZE, _made("pool", "MemPool", "pool", _the_pool), _STREAM),
    "topsFreeAsync": (_POINTER, _STREAM),
    "topsMemGetInfo": (_DEVICE,),
    "topsHostMalloc": (_made("size_bytes", "int", "shape", _host_bytes),),
    "topsHostFree": (_HOST,),
    "topsHostRegister": (_HOST, _made("size_bytes", "int", "memory", lambda got: got["memory"].nbytes)),
    "topsHostUnregister": (_HOST,),
    "topsMemcpy": (_DST, _SRC, _COPIED, _KIND),
    "topsMemcpyAsync": (_DST, _SRC, _COPIED, _KIND, _STREAM),
    "topsMemcpyPeer": (_DST, _DST_DEVICE, _SRC, _SRC_DEVICE, _COPIED),
    "topsMemcpyPeerAsync": (_DST, _DST_DEVICE, _SRC, _SRC_DEVICE, _COPIED, _STREAM),
    "topsMemcpyDtoH": (_DST, _SRC, _made("size_bytes", "int", "source", lambda got: got["source"].nbytes)),
    "topsMemcpyHtoD": (_DST, _SRC, _COPIED, _STREAM),
    "topsMemcpyDtoDAsync": (_DST, _SRC, _COPIED, _STREAM),
    "topsMemset": (_DST, _VALUE, _FILLED, _BITS),
    "topsMemsetAsync": (_DST, _VALUE, _FILLED, _BITS, _STREAM),
    "topsLaunchKernel": _LAUNCH,
    "topsLaunchCooperativeKernel": _LAUNCH,
    "topsModuleLaunchKernel": _LAUNCH,
    "topsLaunchHostFunc": (_STREAM, *_CALLBACK),
    "topsModuleUnload": (_plain("module", "Module", "self"),),
    "topsModuleLoad": (_made("path", "str", "path", lambda got: str(got["path"])),),
    "topsRuntimeCompile": (_plain("source", "str", "text"), _plain("names", "dict")),
    "topsModuleGetFunction": (_plain("module", "Module"), _plain("name", "str")),
    "topsGetDeviceCount": (),
    "topsSetDevice": (_INDEX,),
    "topsGetDevice": (),
    "topsGetDeviceProperties": (_INDEX,),
    "topsDeviceSynchronize": (_DEVICE,),
    "topsDeviceReset": (_DEVICE,),
    "topsDeviceCanAccessPeer": (_DEVICE, _plain("peer_device", "int", "peer")),
    "topsDeviceEnablePeerAccess": (_plain("peer_device", "int", "peer"),),
    "topsDeviceDisablePeerAccess": (_plain("peer_device", "int", "peer"),),
    "topsProfilerStart": (),
    "topsProfilerStop": (),
    "topsGetErrorName": (_plain("error", "int", "code"),),
    "topsGetErrorString": (_plain("error", "int", "code"),),
    "topsPeekAtLastError": (_DEVICE,),
    "topsEventCreateWithFlags": (_made("flags", "int", "event", _event_flags), _DEVICE),
    "topsEventRecord": (_EVENT_SELF, _STREAM),
    "topsEventQuery": (_EVENT_SELF,),
    "topsEventSynchronize": (_EVENT_SELF,),
    "topsEventDestroy": (_EVENT_SELF,),
    "topsEventElapsedTime": (_plain("start", "Event"), _plain("stop", "Event", "end")),
    "topsGraphCreate": (_DEVICE,),
    "topsGraphAddKernelNode": (
        _GRAPH_SELF, _AFTER, _made("function", "str", "launcher", _launcher_name),
        _made("grid", "tuple of int", "launcher", lambda got: tuple(got["launcher"].grid)),
        _made("block", "tuple of int", "launcher", lambda got: tuple(got["launcher"].block)),
        _made("args", "tuple", "args", lambda got: tuple(got["args"])), _plain("keywords", "dict"),
    ),
    "topsGraphAddMemcpyNode": (_GRAPH_SELF, _AFTER, _DST, _SRC, _COPIED, _KIND),
    "topsGraphAddMemsetNode": (_GRAPH_SELF, _AFTER, _DST, _VALUE, _FILLED, _BITS),
    "topsGraphAddHostNode": (_GRAPH_SELF, _AFTER, *_CALLBACK),
    "topsGraphAddEmptyNode": (_GRAPH_SELF, _AFTER),
    "topsGraphAddEventRecordNode": (_GRAPH_SELF, _AFTER, _plain("event", "Event")),
    "topsGraphAddChildGraphNode": (_GRAPH_SELF, _AFTER, _plain("child_graph", "Graph", "graph")),
    "topsGraphAddDependencies": (
        _GRAPH_SELF, _plain("from_node", "int", "first"), _plain("to_node", "int", "then"),
    ),
    "topsGraphInstantiate": (_GRAPH_SELF,),
    "topsGraphDebugDotPrint": (
        _GRAPH_SELF,
        _made("path", "str or None", "path", lambda got: None if got["path"] is None else str(got["path"])),
    ),
    "topsGraphDestroy": (_GRAPH_SELF,),
    "topsGraphLaunch": (_plain("graph_exec", "GraphExec", "graph"), _STREAM),
    "topsGraphExecUpdate": (_EXEC_SELF, _plain("graph", "Graph")),
    "topsGraphExecKernelNodeSetParams": (
        _EXEC_SELF, _plain("node", "int"), _plain("args", "tuple"), _plain("keywords", "dict"),
    ),
    "topsGraphExecDestroy": (_EXEC_SELF,),
    "topsExecutableGetRefitFlag": (_EXEC_SELF, _plain("key", "str")),
    "topsExecutableUpdateConstantKey": (_EXEC_SELF, _plain("key", "str"), _plain("value", "object"), _STREAM),
    "topsExecutableLoadConstData": (_EXEC_SELF, _plain("values", "dict"), _STREAM),
    "topsIpcGetMemHandle": (_POINTER,),
    "topsIpcOpenMemHandle": (_plain("handle", "bytes"),),
    "topsIpcCloseMemHandle": (_POINTER,),
    "topsIpcGetEventHandle": (_plain("event", "Event"),),
    "topsIpcOpenEventHandle": (_plain("handle", "bytes"),),
}  # fmt: skip

# arguments that say nothing more than others do
_SAID = frozenset({"self", "dtype", "stream", "event", "pool", "launcher"})


def typed(name: str, given: Given) -> dict[str, Any]:
    """A call's parameters by the vendor's names; what an API does not know keeps its own name."""
    known = PARAMETERS.get(name)
    if known is None:
        return {key: value for key, value in given.items() if key != "self"}
    out: dict[str, Any] = {}
    for parameter in known:
        try:
            out[parameter.name] = parameter.get(given)
        except Exception:  # a wrong call: it is told as it was made, and fails by itself
            if parameter.given in given:
                out[parameter.name] = given[parameter.given]
    used = _SAID.union(parameter.given for parameter in known)
    out.update({key: value for key, value in given.items() if key not in used and key not in out})
    return out


def table() -> str:
    """The parameters of all APIs, as the documentation has them."""
    lines = ["| API | `function_params` |", "|---|---|"]
    for name, parameters in sorted(PARAMETERS.items()):
        said = ", ".join(f"`{parameter.name}` {parameter.kind}" for parameter in parameters)
        lines.append(f"| {name} | {said or 'none'} |")
    return "\n".join(lines)
