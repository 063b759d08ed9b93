"""Pools: memory that goes from one allocation to the next without the device being asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tops_kit.gcu.simulation import Operation
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.hooks import api
from tops_kit.runtime.process import RUNTIME

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.stream import Stream

_STEP_BYTES = 512


class MemPool:
    """Memory of a device for stream-ordered allocations.

    What is freed is kept for allocations of like size on the same stream, or on any once the stream is done
    with it. When the host waits, what is unused beyond `release_threshold_bytes` goes back to the device.
    """

    def __init__(self, *, device: int | None = None, release_threshold_bytes: int = 0) -> None:
        context = _create(device)
        self._begin(context, release_threshold_bytes)

    @classmethod
    def _of(cls, context: Context) -> MemPool:
        """The default pool of a context."""
        out = cls.__new__(cls)
        out._begin(context, 0)
        return out

    def _begin(self, context: Context, threshold: int) -> None:
        self.context = context
        self.id = len(context.pools) + 1
        self.release_threshold_bytes = threshold
        self.reserved_bytes = 0  # of the device
        self.used_bytes = 0  # by allocations
        self.destroyed = False
        # unused blocks by size: address, who freed it, what was queued there then
        self._unused: dict[int, list[tuple[int, Stream, Operation | None]]] = {}
        context.pools.append(self)

    def check(self) -> None:
        """Raises TopsError where it can't be used any more."""
        if self.destroyed:
            fail(Code.topsErrorInvalidHandle, f"memory pool {self.id} was destroyed")
        self.context.check()

    @api("topsMemPoolTrimTo")
    def trim(self, keep_bytes: int = 0) -> None:
        """Give unused memory back to the device until no more than so much is reserved."""
        self.check()
        self.trim_to(keep_bytes)

    @api("topsMemPoolDestroy")
    def destroy(self) -> None:
        """Nothing can be allocated from it any more; what is in use stays until it is freed."""
        self.check()
        if self.context._default_pool is self:
            fail(Code.topsErrorInvalidValue, "the default pool of a device can't be destroyed")
        self.trim_to(0)
        self.destroyed = True

    def trim_to(self, keep_bytes: int) -> int:
        """Give unused memory back until no more than `keep_bytes` are reserved; how many bytes went."""
        gone = 0
        for size in sorted(self._unused, reverse=True):
            blocks = self._unused[size]
            while blocks and self.reserved_bytes > keep_bytes:
                address, _, _ = blocks.pop()
                self.reserved_bytes -= size
                gone += size
                self.context.give(address)
        return gone

    def take(self, size_bytes: int, stream: Stream, note: str) -> int:
        """Memory for a stream: its address. Raises TopsError."""
        context = self.context
        if context.garbage:
            context.drain()
        size = _rounded(size_bytes)
        blocks = self._unused.get(size)
        if blocks:
            for index in range(len(blocks) - 1, -1, -1):
                address, owner, last = blocks[index]
                if owner is stream or last is None or last.done:
                    del blocks[index]
                    self.used_bytes += size
                    return address
        address = context.take(size, note)
        self.reserved_bytes += size
        self.used_bytes += size
        return address

    def give(self, address: int, size_bytes: int, stream: Stream) -> None:
        """Memory that a stream is done with when it is done with what is queued on it now."""
        size = _rounded(size_bytes)
        self.used_bytes -= size
        self._unused.setdefault(size, []).append((address, stream, stream.queue.last))
        if self.destroyed:
            self.trim_to(0)

    def _trim_idle(self) -> None:
        unused = self.reserved_bytes - self.used_bytes
        if unused > self.release_threshold_bytes:
            self.trim_to(self.used_bytes + self.release_threshold_bytes)

    def __repr__(self) -> str:
        return (
            f"<MemPool {self.id} of device {self.context.device_id}: {self.used_bytes:,} of "
            f"{self.reserved_bytes:,} bytes used>"
        )


@api("topsMemPoolCreate")
def _create(device: int | None) -> Context:
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.check()
    return context


@api("topsDeviceGetMemPool")
def get_pool(device: int | None = None) -> MemPool:
    """The pool that arrays and `malloc_async` of a device (default: the thread's) take memory from."""
    return (RUNTIME.current() if device is None else RUNTIME.context(device)).pool


@api("topsDeviceSetMemPool")
def set_pool(pool: MemPool) -> None:
    """From now on arrays and `malloc_async` of the pool's device take memory from it."""
    pool_of(pool).check()
    pool.context.pool = pool


def pool_of(pool: Any) -> MemPool:
    """A pool that is given to a call. Raises TopsError."""
    if not isinstance(pool, MemPool):
        fail(Code.topsErrorInvalidValue, f"a pool is a tops.MemPool, not {shown(pool)}")
    return pool


def _rounded(size_bytes: int) -> int:
    """The size of the block for so many bytes: eight sizes for each doubling."""
    if size_bytes <= 8 * _STEP_BYTES:
        return -(-size_bytes // _STEP_BYTES) * _STEP_BYTES
    step = 1 << ((size_bytes - 1).bit_length() - 4)
    return -(-size_bytes // step) * step
