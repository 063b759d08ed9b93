"""Kineto's categories: which table each goes to, and how its args become columns.

Every accelerator back end of PyTorch writes its own category names (cuda_runtime, hip_runtime,
privateuse1_driver, gcu_...): they are told by their form, not by a list. See docs/import.md for the
mapping.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import from_list, from_numpy
from topsprof.importers.chrome_rows import Rows
from topsprof.importers.device_names import (
    collective_of,
    copy_of,
    fill_of,
    function_of,
    item_bytes,
    plain_collective,
    short_kernel_name,
)
from topsprof.importers.kineto_calls import copied_bytes, launched_with, shared_bytes

KEYS: Final[dict[str, str]] = {
    "tops thread": "i",
    "tops process": "i",
    "External id": "i",
    "correlation": "i",
    "device": "i",
    "context": "i",
    "stream": "i",
    "bytes": "i",
    "grid": "x",
    "block": "x",
    "registers per thread": "i",
    "shared memory": "i",
    "est. achieved occupancy %": "f",
    "graph node id": "i",
    "graph id": "i",
    "kind": "s",
    "size": "s",
    "value": "i",
    "cuda_sync_kind": "s",
    "return value": "i",
    "Input Dims": "j",
    "Input dims": "j",
    "Input type": "j",
    "Module Hierarchy": "s",
    "Call stack": "s",
    "Sequence number": "i",
    "Fwd thread id": "i",
    "Collective name": "s",
    "In msg nelems": "i",
    "dtype": "s",
    "Process Group Name": "s",
    "Bytes": "i",
    "Addr": "u",
    "Device Id": "i",
    "Device Type": "i",
    "Total Allocated": "i",
    "Total Reserved": "i",
}
"""Args that have a column, and the scanner's kind of each."""

OWN_THREAD: Final = "tops thread"
OWN_PROCESS: Final = "tops process"
"""Args of our own chrome export: the thread of a slice that would overlap others there, the process of a
device's rows where several have some.
"""

STEP: Final = re.compile(r"ProfilerStep\*?#(\d+)")
_NO_STREAM = 0xFFFFFFFF
_SMALL_DEVICE = 1 << 16
_DEVICE_TYPES = {
    0: "cpu",
    1: "cuda",
    2: "mkldnn",
    6: "hip",
    3: "opengl",
    4: "opencl",
    5: "ideep",
    7: "fpga",
    8: "maia",
    9: "xla",
    10: "vulkan",
    11: "metal",
    12: "xpu",
    13: "mps",
    14: "meta",
    15: "hpu",
    16: "ve",
    17: "lazy",
    18: "ipu",
    19: "mtia",
    20: "privateuse1",
}

Columns = dict[str, Any]


def table_of(category: str) -> str | None:
    """The table of a category's slices; None when it is not one of Kineto's (then they become TX ranges).

    >>> table_of("hip_runtime"), table_of("kernel"), table_of("gcu_memcpy")
    ('api', 'kernel', 'memcpy')
    """
    name = category.lower()
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    found = _FORM.fullmatch(name)
    return _ENDINGS[found[1]] if found else None


_EXACT: Final = {
    "cpu_op": "op",
    "operator": "op",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "memcpy": "memcpy",
    "memset": "memset",
    "runtime": "api",
    "driver": "api",
    "python_function": "python",
    "overhead": "overhead",
    "cuda_event": "sync",
    "user_annotation": "tx",
    "gpu_user_annotation": "tx",
    "trace": "tx",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "hpu_op": "api",  # the host's side of it, in spite of the name
}
_ENDINGS: Final = {
    "runtime": "api",
    "driver": "api",
    "kernel": "kernel",
    "memcpy": "memcpy",
    "memset": "memset",
    "memcpy2": "memcpy",
    "sync": "sync",
    "ccp_events": "kernel",
}
_FORM: Final = re.compile(r"[a-z][a-z0-9]*_(runtime|driver|kernel|memcpy2?|memset|sync|ccp_events)")

DEVICE_TABLES: Final = frozenset(("kernel", "memcpy", "memset", "sync"))


def op(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Operators of the framework."""
    shapes = rows.names("Input Dims")
    return {
        "external_id": rows.integers("External id"),
        "shapes": shapes if shapes is not None else rows.names("Input dims"),
        "types": rows.names("Input type"),
        "module": rows.names("Module Hierarchy"),
        "stack": rows.names("Call stack"),
        "sequence_number": rows.integers("Sequence number"),
        "forward_thread_id": rows.integers("Fwd thread id"),
        "scope": category(rows),
    }


def api(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Calls of the runtime and the driver."""
    del category
    return {
        "correlation_id": rows.integers("correlation"),
        "domain": rows.mapped(
            rows.column("cat"), lambda text: "driver" if "driver" in text.lower() else "runtime"
        ),
        "return_value": rows.integers("return value"),
        "device_id": rows.integers("device"),
        "stream_id": rows.integers("stream"),
        "external_id": rows.integers("External id"),
    }


def _queue(rows: Rows) -> Columns:
    """Columns of all device tables. Without `device` and `stream` in args the pid and tid are those."""
    device, has_device = rows.integers_there("device")
    stream, has_stream = rows.integers_there("stream")
    pid, tid = rows.column("pid"), rows.column("tid")
    known = has_device | ((rows.column("pid_kind") == 1) & (pid >= 0) & (pid < _SMALL_DEVICE))
    device = np.where(has_device, device, pid)
    stream = np.where(
        has_stream, np.where(stream == _NO_STREAM, -1, stream), np.where(rows.column("tid_kind") == 1, tid, 0)
    )
    return {
        "device_id": from_numpy(device, ~known),
        "stream_id": stream,
        "context_id": rows.integers("context"),
        "correlation_id": rows.integers("correlation"),
        "external_id": rows.integers("External id"),
    }


def kernel(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Kernels, collectives among them."""
    del category
    full = rows.column("name")
    grid, block = launched_with(rows, "grid"), launched_with(rows, "block")
    return {
        "name": rows.mapped(full, short_kernel_name),
        "full_name": rows.strings.names(full),
        **_queue(rows),
        "grid_x": grid[0],
        "grid_y": grid[1],
        "grid_z": grid[2],
        "block_x": block[0],
        "block_y": block[1],
        "block_z": block[2],
        "graph_node_id": rows.integers("graph node id"),
        "registers": rows.integers("registers per thread"),
        "shared_bytes": shared_bytes(rows),
        "occupancy": rows.floats("est. achieved occupancy %"),
        **_collective(rows),
    }


def _collective(rows: Rows) -> Columns:
    """Collective, its message's bytes and its group: from the args, the collective also from the kernel's
    name.
    """
    by_name = rows.mapped(rows.column("name"), collective_of)
    stated = rows.text_ids("Collective name")
    if not (stated >= 0).any():
        return {"collective": by_name}
    said = rows.mapped(stated, plain_collective)
    elements, has_elements = rows.integers_there("In msg nelems")
    dtype = rows.text_ids("dtype")
    used, inverse = np.unique(dtype, return_inverse=True)
    sizes = np.array([item_bytes(rows.strings.text(int(number))) or 0 for number in used], np.int64)[inverse]
    known = has_elements & (sizes > 0)
    if by_name is not None:
        said = pc.coalesce(said.dictionary_decode(), by_name.dictionary_decode())
    # dtype and the number of elements stay readable where they give no bytes
    if (has_elements & ~known).any():
        rows.restore("In msg nelems")
    rows.restore("dtype")
    return {
        "collective": said,
        "collective_bytes": from_numpy(elements * sizes, ~known) if known.any() else None,
        "group": rows.names("Process Group Name"),
    }


def memcpy(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Copies; kind and memories are in the name: Memcpy HtoD (Pageable -> Device)."""
    del category
    name = rows.column("name")
    kind = rows.names("kind")
    named = rows.mapped(name, lambda text: copy_of(text).kind)
    return {
        **_queue(rows),
        "copy_kind": named if named is not None else kind,
        "src_kind": rows.mapped(name, lambda text: copy_of(text).source),
        "dst_kind": rows.mapped(name, lambda text: copy_of(text).target),
        "size_bytes": copied_bytes(rows),
        "graph_node_id": rows.integers("graph node id"),
    }


def memset(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Fills."""
    del category
    return {
        **_queue(rows),
        "memory_kind": rows.mapped(rows.column("name"), fill_of),
        "size_bytes": rows.integers("bytes"),
        "value": rows.integers("value"),
        "graph_node_id": rows.integers("graph node id"),
    }


def sync(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Waits, seen on the device's side."""
    del category
    return {**_queue(rows), "sync_kind": rows.names("cuda_sync_kind")}


def python(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """Python functions: torch/nn/modules/module.py(1501): _call_impl."""
    del category
    used, places, none = rows.strings.codes(rows.column("name"))
    functions = [function_of(rows.strings.text(number)) for number in used.tolist()]
    index = from_numpy(places, none)

    def names(values: list[str | None]) -> Any:
        return from_list(values, pa.string()).dictionary_encode().take(index)

    return {
        "name": names([function.name for function in functions]),
        "module": names([function.module for function in functions]),
        "file": names([function.file for function in functions]),
        "line": from_list([function.line for function in functions], pa.int64()).take(index),
    }


def overhead(rows: Rows, category: Callable[[Rows], Any]) -> Columns:
    """What profiling itself cost."""
    del rows, category
    return {}


def memory(rows: Rows) -> Columns:
    """[memory] instants: allocations (bytes > 0) and releases."""
    size, has_size = rows.integers_there("Bytes")
    device_type, has_type = rows.integers_there("Device Type")
    used, inverse = np.unique(device_type, return_inverse=True)
    kinds = from_list([_DEVICE_TYPES.get(number, str(number)) for number in used.tolist()], pa.string())
    device = rows.integers("Device Id")
    return {
        "name": from_list(["alloc", "free"], pa.string()).take(from_numpy((size < 0).astype(np.int64))),
        "device_id": device,
        "device_type": kinds.take(from_numpy(inverse, ~has_type)),
        "address": rows.integers("Addr"),
        "size_bytes": from_numpy(size, ~has_size),
        "allocated_bytes": rows.integers("Total Allocated"),
        "reserved_bytes": rows.integers("Total Reserved"),
    }


MAKERS: Final[dict[str, Callable[[Rows, Callable[[Rows], Any]], Columns]]] = {
    "op": op,
    "api": api,
    "kernel": kernel,
    "memcpy": memcpy,
    "memset": memset,
    "sync": sync,
    "python": python,
    "overhead": overhead,
}
"""Table -> the function that makes its columns from rows; all but times, name, process, thread and args."""
