"""Copies: `memcpy` and its asynchronous forms. Which way a copy goes, its ends say."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tops_kit.gcu.simulation import Operation, Peer
from tops_kit.runtime import activity as acts
from tops_kit.runtime import costs
from tops_kit.runtime.arrays import is_tensor
from tops_kit.runtime.blocks import DevicePointer
from tops_kit.runtime.codes import Code
from tops_kit.runtime.context import Context
from tops_kit.runtime.errors import TopsError, fail
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.host_memory import PINNED
from tops_kit.runtime.memory import size_of
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.records import Call, CopyTag
from tops_kit.runtime.stream import Stream, stream_of, tell_sync

# the C library's, called with the GIL held: a simulated copy is no time for other threads
_POINTER = ctypes.c_void_p
move: Callable[[int, int, int], object] = ctypes.PYFUNCTYPE(_POINTER, _POINTER, _POINTER, ctypes.c_size_t)(
    ctypes.cast(ctypes.memmove, _POINTER).value or 0
)


class Side(NamedTuple):
    """An end of a copy: kind of memory, context (None: the host), where, how much, and what keeps it."""

    kind: int
    context: Context | None
    address: int
    size_bytes: int
    owner: Any

    @property
    def place(self) -> tuple[int, int, int]:
        """As records have it."""
        return self.kind, -1 if self.context is None else self.context.device_id, self.address


def side_of(value: Any, size_bytes: int | None, *, write: bool, what: str = "copy") -> Side:
    """What is given as an end of a copy, or to be filled. Raises TopsError."""
    if isinstance(value, DevicePointer):
        value.block.check()
        size = value.size_bytes
        side = Side(acts.MEMORY_DEVICE, value.block.context, value.address, size, value)
        return _checked(side, size_bytes, what)
    if getattr(value, "__tops_array__", False):
        value.block.check()
        if not value.is_contiguous:
            fail(
                Code.topsErrorInvalidValue,
                f"memcpy moves contiguous memory, {value!r} is not: x[...] = y and x.numpy() copy it",
            )
        side = Side(acts.MEMORY_DEVICE, value.block.context, value.address, value.nbytes, value)
        return _checked(side, size_bytes, what)
    if isinstance(value, int) and not isinstance(value, bool):
        return _at(value, size_bytes or 0)
    return _checked(_host(value, write), size_bytes, what)


def _checked(side: Side, size_bytes: int | None, what: str = "copy") -> Side:
    if size_bytes is not None and size_bytes > side.size_bytes:
        where = "the host" if side.context is None else f"device {side.context.device_id}"
        fail(
            Code.topsErrorInvalidValue,
            f"a {what} of {size_bytes:,} bytes: only {side.size_bytes:,} are at 0x{side.address:x} on "
            f"{where}",
        )
    return side


def _at(address: int, size_bytes: int) -> Side:
    RUNTIME.current()
    for context in RUNTIME.contexts:
        block = context.resolve(address, size_bytes)
        if block is not None:
            size = block.address + block.size_bytes - address
            return Side(acts.MEMORY_DEVICE, context, address, size, block)
    raise TopsError(Code.topsErrorInvalidDevicePointer, f"0x{address:x} is no address of a device")


def _host(value: Any, write: bool) -> Side:
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous or value.flags.f_contiguous):
            fail(Code.topsErrorInvalidValue, "memcpy moves contiguous memory: numpy.ascontiguousarray(x)")
        if write and not value.flags.writeable:
            fail(Code.topsErrorInvalidValue, "memcpy into an array that is read-only")
        address: int = value.__array_interface__["data"][0]
        size = value.nbytes
    elif is_tensor(value):
        if value.device.type != "cpu" or not value.is_contiguous():
            fail(
                Code.topsErrorInvalidValue, "memcpy takes contiguous tensors of the CPU: x.cpu().contiguous()"
            )
        address, size = value.data_ptr(), value.numel() * value.element_size()
    else:
        try:
            array = np.frombuffer(value, np.uint8)
        except (TypeError, ValueError, BufferError) as error:
            if isinstance(value, bytes | bytearray | memoryview) and not len(value):
                return Side(acts.MEMORY_PAGEABLE, None, 0, 0, value)
            fail(
                Code.topsErrorInvalidValue,
                "memcpy takes device pointers, arrays, tensors and bytes, "
                f"not {type(value).__name__}: {error}",
            )
        if write and not array.flags.writeable:
            fail(Code.topsErrorInvalidValue, f"memcpy into {type(value).__name__}, which is read-only")
        address, size = array.__array_interface__["data"][0], array.nbytes
        value = array
    kind = acts.MEMORY_PINNED if PINNED.holds(address, size) else acts.MEMORY_PAGEABLE
    return Side(kind, None, address, size, value)


def _sides(target: Any, source: Any, size_bytes: Any) -> tuple[Side, Side, int]:
    size = None if size_bytes is None else size_of(size_bytes, "a copy")
    into, out_of = side_of(target, size, write=True), side_of(source, size, write=False)
    if size is None:
        size = into.size_bytes if isinstance(source, DevicePointer) else out_of.size_bytes
        _checked(into, size)
        _checked(out_of, size)
    return into, out_of, size


@api("topsMemcpy")
def memcpy(target: Any, source: Any, size_bytes: int | None = None) -> None:
    """Copy bytes between devices and host, any way; returns when they are there (on one device: when queued).

    Ends are device pointers, arrays of a device (contiguous), numpy arrays, CPU tensors, buffers; without
    `size_bytes` all of the source is copied. Raises TopsError.
    """
    into, out_of, size = _sides(target, source, size_bytes)
    copy(into, out_of, size, stream_for(into, out_of, None), wait=True)


@api("topsMemcpyAsync")
def memcpy_async(
    target: Any, source: Any, size_bytes: int | None = None, stream: Stream | None = None
) -> None:
    """Copy bytes on a stream (default: the thread's). From or to host memory that is not pinned it waits.

    Raises TopsError.
    """
    into, out_of, size = _sides(target, source, size_bytes)
    copy(into, out_of, size, stream_for(into, out_of, stream), wait=False)


@api("topsMemcpyPeer")
def memcpy_peer(target: Any, source: Any, size_bytes: int | None = None) -> None:
    """Copy bytes from one device to another; returns when they are there. Raises TopsError."""
    into, out_of, size = _sides(target, source, size_bytes)
    _check_peers(into, out_of)
    copy(into, out_of, size, stream_for(into, out_of, None), wait=True, peer=True)


@api("topsMemcpyPeerAsync")
def memcpy_peer_async(
    target: Any, source: Any, size_bytes: int | None = None, stream: Stream | None = None
) -> None:
    """Copy bytes from one device to another on a stream of either. Raises TopsError."""
    into, out_of, size = _sides(target, source, size_bytes)
    _check_peers(into, out_of)
    copy(into, out_of, size, stream_for(into, out_of, stream), wait=False, peer=True)


def _check_peers(into: Side, out_of: Side) -> None:
    if into.context is None or out_of.context is None:
        fail(
            Code.topsErrorInvalidMemcpyDirection,
            "memcpy_peer copies between devices, not to or from the host",
        )


def stream_for(into: Side, out_of: Side, stream: Stream | None) -> Stream:
    """The stream that a copy is put on: one of a device that takes part. Raises TopsError."""
    own = [side.context for side in (out_of, into) if side.context is not None]
    found = stream_of(stream)
    if not own or found.context in own:
        return found
    if stream is not None:
        fail(
            Code.topsErrorInvalidHandle,
            f"stream {stream.id} belongs to device {stream.device}, the memory to device {own[0].device_id}",
        )
    return own[0].default_stream


def copy(
    into: Side,
    out_of: Side,
    size: int,
    stream: Stream,
    *,
    wait: bool,
    peer: bool = False,
    work: Callable[[], object] | None = None,
) -> Operation | None:
    """Put a copy on a stream. `work` does it where it is more than moving `size` bytes in a row."""
    context = stream.context
    stream.check()
    if not size:
        return None
    if work is None:
        work = mover(into, out_of, size)
    if stream.capture is not None:
        from tops_kit.runtime.graph.nodes import CopyNode

        if wait and (into.context is None or into.context is not out_of.context):
            stream._no_capture("waited for, as this copy does", "tops.memcpy_async can be captured")
        stream.capture.add(stream, CopyNode(into, out_of, size, work))
        return None
    stream.make_room()
    host = [side for side in (into, out_of) if side.context is None]
    if len(host) == 2:
        context.wait(stream.queue.last)
        work()
        return None
    pageable = any(side.kind == acts.MEMORY_PAGEABLE for side in host)
    wait = bool(wait and (host or into.context is not out_of.context)) or pageable or RUNTIME.blocking
    tag = None
    if HOOKS.kinds and HOOKS.wants(acts.MEMCPY):
        tag = CopyTag(
            context, stream.id, kind_of(into, out_of), size, source=out_of.place, target=into.place,
            flags=0 if wait else acts.FLAG_ASYNC, call=Call(),
        )  # fmt: skip
    begin_ns = context.clock.now_ns()
    operation = submit(into, out_of, size, stream, work, tag=tag)
    if wait:
        context.wait(operation)
        if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
            RUNTIME.racing.host_waited_for_stream(stream)
        tell_sync(acts.SYNC_BLOCKING, context, stream.id, begin_ns)
    return operation


def submit(
    into: Side,
    out_of: Side,
    size: int,
    stream: Stream,
    work: Callable[[], object] | None,
    *,
    tag: CopyTag | None,
    after: tuple[Operation, ...] = (),
) -> Operation:
    """Give the device a copy, as its engines do it."""
    context = stream.context
    spec = context.spec
    source, target = out_of.context, into.context
    if HOOKS.kinds and context.queues and HOOKS.wants(acts.STREAM_RACE):
        RUNTIME.racing.copy(stream, into, out_of, size, after)
    other = None
    if source is None:
        engine, demand = "cdma_down", {"pcie_down": size, "l3": size}
        duration_ns = costs.bus_ns(spec, size)
    elif target is None:
        engine, demand = "cdma_up", {"pcie_up": size, "l3": size}
        duration_ns = costs.bus_ns(spec, size)
    elif source is target:
        engine, demand = "sdma", {"l3": 2 * size}
        duration_ns = costs.local_copy_ns(spec, size)
    else:
        duration_ns = costs.peer_copy_ns(source.spec, target.spec, size)
        if costs.has_link(source.spec, target.spec):
            names = {True: ("link", "link"), False: ("link", "link")}
        else:
            names = {True: ("cdma_up", "pcie_up"), False: ("cdma_down", "pcie_down")}
        away = context is source
        far = target if away else source
        engine, resource = names[away]
        demand = {resource: size, "l3": size}
        far_engine, far_resource = names[not away]
        other = Peer(far.simulation, far_engine, {far_resource: size, "l3": size})
    return context.enqueue(
        stream, "copy", engine, duration_ns, work, demand=demand, tag=tag, after=after, peer=other
    )


def kind_of(into: Side, out_of: Side) -> int:
    """Which way a copy goes, as records have it."""
    if out_of.context is None:
        return acts.COPY_HTOD if into.context is not None else acts.COPY_HTOH
    if into.context is None:
        return acts.COPY_DTOH
    return acts.COPY_DTOD if into.context is out_of.context else acts.COPY_PTOP


def mover(into: Side, out_of: Side, size: int) -> Callable[[], object]:
    """What copies so many bytes in a row."""

    def work() -> None:
        alive(into)
        alive(out_of)
        move(into.address, out_of.address, size)

    return work


def alive(side: Side) -> None:
    """What is done later finds its memory freed meanwhile."""
    owner = side.owner
    block = getattr(owner, "block", None)
    if block is not None:
        block.check()
