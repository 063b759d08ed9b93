"""Memory of devices: `malloc` and `free`, also in the order of streams, and how much there is."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

from tops_kit.gcu.memory import DeviceMemoryError
from tops_kit.runtime import activity as acts
from tops_kit.runtime import callers
from tops_kit.runtime.blocks import Block, DevicePointer, OwnedBlock
from tops_kit.runtime.codes import Code
from tops_kit.runtime.context import Context
from tops_kit.runtime.errors import TopsError, fail
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.pools import MemPool, pool_of
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.stream import Stream, stream_of


def size_of(size_bytes: Any, what: str) -> int:
    """A number of bytes that is given to a call. Raises TopsError."""
    try:
        size = operator.index(size_bytes)
    except TypeError:
        fail(Code.topsErrorInvalidValue, f"{what} is a number of bytes, not {type(size_bytes).__name__}")
    if size < 0:
        fail(Code.topsErrorInvalidValue, f"{what} of {size} bytes")
    return size


@api("topsFree")
def free(pointer: DevicePointer) -> None:
    """Give memory back that `malloc` or `malloc_async` gave, once the device is done with all that is queued.

    Raises TopsError: it was freed before (where), or is no beginning of a block.
    """
    block = _freeable(pointer)
    context = block.context
    context.check()
    if not block.address:
        return
    for operation in context.lasts():
        RUNTIME.wait(operation)
    RUNTIME.racing.gone(context, block.serial)
    _forget(block, 0)
    if block.pool is not None:
        block.pool.give(block.address, block.size_bytes, context.default_stream)
    else:
        context.give(block.address, block.freed or "")
    if context.trouble:
        context.check()


@api("topsMalloc", undo=free)
def malloc(size_bytes: int) -> DevicePointer:
    """Memory of the thread's device; `free` gives it back. Its contents are not defined. 0 bytes are
    at address 0, and take no memory.

    Raises TopsError: topsErrorOutOfMemory says who has how much.
    """
    context = RUNTIME.current()
    context.check()
    size = size_of(size_bytes, "malloc")
    note = callers.where()
    if not size:
        return DevicePointer(Block(context, 0, 0, serial=0, note=note), 0)
    address = context.take(size, note)
    block = Block(context, address, size, serial=next(context.allocations), note=note)
    context.blocks[address] = block
    context.tell_memory(acts.MEMORY_ALLOC, block.piece, 0)
    return DevicePointer(block, address)


@api("topsFreeAsync")
def free_async(pointer: DevicePointer, stream: Stream | None = None) -> None:
    """Give memory back to its pool when what is queued on a stream (default: the thread's) is done.

    Raises TopsError.
    """
    block = _freeable(pointer)
    stream = stream_of(stream)
    if not block.address:
        return
    if block.pool is None:
        fail(Code.topsErrorInvalidValue, f"{block.size_bytes:,} bytes of malloc: tops.free gives them back")
    if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
        RUNTIME.racing.free(stream, block)
    _forget(block, stream.id)
    block.pool.give(block.address, block.size_bytes, stream)


@api("topsMallocAsync", undo=free_async)
def malloc_async(
    size_bytes: int, stream: Stream | None = None, *, pool: MemPool | None = None
) -> DevicePointer:
    """Memory from a pool (default: the device's) for what comes next on a stream (default: the thread's).

    Raises TopsError.
    """
    stream = stream_of(stream)
    context = stream.context
    pool = context.pool if pool is None else pool_of(pool)
    pool.check()
    if pool.context is not context:
        fail(Code.topsErrorInvalidValue, "the pool belongs to another device than the stream")
    size = size_of(size_bytes, "malloc_async")
    note = callers.where()
    if not size:
        return DevicePointer(Block(context, 0, 0, serial=0, note=note, pool=pool), 0)
    address = pool.take(size, stream, note)
    block = Block(context, address, size, serial=next(context.allocations), note=note, pool=pool)
    context.blocks[address] = block
    context.tell_memory(acts.MEMORY_ALLOC, block.piece, stream.id)
    return DevicePointer(block, address)


@api("topsMallocAsync")
def owned_block(size_bytes: int, stream: Stream) -> OwnedBlock:
    """A block that goes back to the pool by itself when no array uses it any more. Raises TopsError."""
    context = stream.context
    size = size_bytes or 1
    note = callers.where()
    pool = context.pool
    address = pool.take(size, stream, note)
    block = OwnedBlock(context, address, size, serial=next(context.allocations), note=note, pool=pool)
    context.owned[block.serial] = block.piece
    context.tell_memory(acts.MEMORY_ALLOC, block.piece, stream.id)
    return block


def _freeable(pointer: Any) -> Block:
    if not isinstance(pointer, DevicePointer):
        if isinstance(pointer, int) and not isinstance(pointer, bool):
            return _at(pointer)
        fail(
            Code.topsErrorInvalidValue,
            f"free takes what malloc gave, not {type(pointer).__name__}"
            + (": arrays are freed when nothing uses them" if hasattr(pointer, "__tops_array__") else ""),
        )
    block = pointer.block
    block.check()
    if isinstance(block, OwnedBlock):
        fail(Code.topsErrorInvalidDevicePointer, "the memory of an array: it is freed when nothing uses it")
    if block.address in block.context.imported:
        fail(
            Code.topsErrorInvalidDevicePointer,
            "the memory is another process's: tops.ipc_close_mem_handle gives it back",
        )
    if pointer.address != block.address:
        fail(
            Code.topsErrorInvalidDevicePointer,
            f"0x{pointer.address:x} is {pointer.address - block.address:,} bytes inside a block: "
            "free its beginning",
        )
    return block


def _at(address: int) -> Block:
    """The block that begins at an address."""
    for context in RUNTIME.contexts or [RUNTIME.current()]:
        block = context.blocks.get(address)
        if block is not None:
            return block
    context = RUNTIME.current()
    assert context.device is not None
    try:
        context.device.memory.resolve(address, 1)
    except DeviceMemoryError as error:
        raise TopsError(Code.topsErrorInvalidDevicePointer, str(error)) from None
    raise TopsError(
        Code.topsErrorInvalidDevicePointer, f"0x{address:x} is no beginning of a block that malloc gave"
    )


def _forget(block: Block, stream_id: int) -> None:
    context = block.context
    block.freed = callers.where()
    context.blocks.pop(block.address, None)
    context.tell_memory(acts.MEMORY_FREE, block.piece, stream_id)


@api("topsMemGetInfo")
def mem_get_info(device: int | None = None) -> tuple[int, int]:
    """Free and total bytes of a device's memory (default: the thread's), all processes taken together."""
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.check()
    context.drain()
    assert context.device is not None
    return context.device.memory.info()


def memory_summary(device: int | None = None) -> str:
    """What this process has of a device's memory, and which lines of the program asked for it, as a text."""
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.drain()
    assert context.device is not None
    memory = context.device.memory
    free, total = memory.info()
    lines = [
        f"device {context.device_id} ({context.spec.title}), simulated: "
        f"{total - free:,} of {total:,} bytes used",
        f"  this process: {memory.used_bytes:,} bytes, at most {memory.peak_bytes:,}",
    ]
    if context.device.note:
        lines.append(f"  {context.device.note}")
    lines += [
        f"  pool {pool.id}: {pool.used_bytes:,} of {pool.reserved_bytes:,} bytes in use"
        for pool in context.pools
    ]
    lines += [f"  {line}" for line in held_by_line(context)]
    lines += [
        f"  process {holder.pid}: {holder.size_bytes:,} bytes ({holder.command})"
        for holder in memory.holders()
    ]
    return "\n".join(lines)


def held_by_line(context: Context) -> list[str]:
    """What was allocated by `malloc` and is not freed, by the line that asked for it, the most first."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for block in context.blocks.values():
        sizes[block.note] += block.size_bytes
        counts[block.note] += 1
    return [
        f"{note or 'unknown'}: {counts[note]} x, {size:,} bytes not freed"
        for note, size in sizes.most_common()
    ]
