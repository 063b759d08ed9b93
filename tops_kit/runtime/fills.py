"""Fills of device memory: `memset` and its asynchronous form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tops_kit.gcu.simulation import Operation
from tops_kit.runtime import activity as acts
from tops_kit.runtime import costs
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.memory import size_of
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.records import Call, FillTag
from tops_kit.runtime.stream import Stream
from tops_kit.runtime.transfers import Side, alive, move, side_of, stream_for

# the C library's, with the GIL held; see transfers.py
_POINTER = ctypes.c_void_p
fill: Callable[[int, int, int], object] = ctypes.PYFUNCTYPE(
    _POINTER, _POINTER, ctypes.c_int, ctypes.c_size_t
)(ctypes.cast(ctypes.memset, _POINTER).value or 0)


@api("topsMemset")
def memset(target: Any, value: int, size_bytes: int | None = None, *, bits: int = 8) -> None:
    """Fill device memory with a value of 8, 16 or 32 bits; without `size_bytes` all of it.

    Raises TopsError.
    """
    set_memory(target, value, size_bytes, bits, None)


@api("topsMemsetAsync")
def memset_async(
    target: Any, value: int, size_bytes: int | None = None, stream: Stream | None = None, *, bits: int = 8
) -> None:
    """Fill device memory on a stream (default: the thread's); see `memset`."""
    set_memory(target, value, size_bytes, bits, stream)


# words of the kernel language have the same names: the compiler knows them by these marks
memset.__word__ = "memset"  # type: ignore[attr-defined]
memset_async.__word__ = "memset_async"  # type: ignore[attr-defined]


def set_memory(target: Any, value: Any, size_bytes: Any, bits: int, stream: Stream | None) -> None:
    """Put a fill on a stream. Raises TopsError."""
    if not isinstance(bits, int) or bits not in (8, 16, 32):
        fail(Code.topsErrorInvalidValue, f"memset fills with 8, 16 or 32 bits, not {shown(bits)}")
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        fail(Code.topsErrorInvalidValue, f"memset fills with an integer, not {type(value).__name__}")
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        fail(Code.topsErrorInvalidValue, f"{value} does not fit the {bits} bits of the fill")
    size = None if size_bytes is None else size_of(size_bytes, "a fill")
    side = side_of(target, size, write=True, what="fill")
    if side.context is None:
        fail(Code.topsErrorInvalidDevicePointer, "memset fills device memory, not the host's")
    size = side.size_bytes if size is None else size
    element = bits // 8
    if size % element or side.address % element:
        fail(Code.topsErrorInvalidValue, f"{size} bytes at 0x{side.address:x} are no values of {bits} bits")
    put_fill(side, int(value) & ((1 << bits) - 1), element, size, stream=stream_for(side, side, stream))


def put_fill(
    side: Side,
    value: int,
    element: int,
    size: int,
    *,
    stream: Stream,
    work: Callable[[], object] | None = None,
) -> Operation | None:
    """Put a fill on a stream; `work` does it where it is not `size` bytes in a row."""
    stream.check()
    if not size:
        return None
    if work is None:
        work = filler(side, value, element, size)
    if stream.capture is not None:
        from tops_kit.runtime.graph.nodes import FillNode

        stream.capture.add(stream, FillNode(side, value, element, size, work))
        return None
    stream.make_room()
    context = stream.context
    tag = None
    if HOOKS.kinds and HOOKS.wants(acts.MEMSET):
        tag = FillTag(
            context, stream.id, value, element_bytes=element, size_bytes=size, address=side.address,
            flags=acts.FLAG_ASYNC, call=Call(),
        )  # fmt: skip
    operation = submit_fill(side, size, stream, work, tag=tag)
    if RUNTIME.blocking:
        context.wait(operation)
    return operation


def submit_fill(
    side: Side,
    size: int,
    stream: Stream,
    work: Callable[[], object],
    *,
    tag: FillTag | None,
    after: tuple[Operation, ...] = (),
) -> Operation:
    """Give the device a fill."""
    context = stream.context
    if HOOKS.kinds and context.queues and HOOKS.wants(acts.STREAM_RACE):
        RUNTIME.racing.fill(stream, side, size, after)
    return context.enqueue(
        stream, "fill", "sdma", costs.fill_ns(context.spec, size), work, demand={"l3": size}, tag=tag,
        after=after,
    )  # fmt: skip


def filler(side: Side, value: int, element: int, size: int) -> Callable[[], object]:
    """What fills so many bytes in a row."""
    data = value.to_bytes(element, "little")

    def work() -> None:
        alive(side)
        if len(set(data)) == 1:
            fill(side.address, data[0], size)
            return
        # doubled: what is filled already is copied behind itself
        done = min(size, 4096)
        first = data * (done // element)
        ctypes.memmove(side.address, first, done)
        while done < size:
            more = min(done, size - done)
            move(side.address + done, side.address, more)
            done += more

    return work
