"""A device as this process uses it: its memory, its streams, what is queued on it, and what went wrong."""

from __future__ import annotations

import ctypes
import itertools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tops_kit.engine.fault import KernelFault
from tops_kit.gcu import Specification
from tops_kit.gcu.memory import DeviceMemoryError, HostMemoryError, OutOfDeviceMemory
from tops_kit.gcu.simulation import DeviceSimulation, Operation, StreamQueue
from tops_kit.gcu.state import Device, DeviceLostError, StateError
from tops_kit.runtime import activity as acts
from tops_kit.runtime.blocks import Block, DevicePointer, Piece
from tops_kit.runtime.codes import Code
from tops_kit.runtime.driver import MEMORY_MAP, MEMORY_UNMAP, QUEUE_SUBMIT
from tops_kit.runtime.errors import TopsError, fail, of_fault
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.stream import Stream

if TYPE_CHECKING:
    from tops_kit.runtime.ipc import ImportedBlock
    from tops_kit.runtime.pools import MemPool
    from tops_kit.runtime.process import Runtime


class Context:
    """What this process has of a device. `dead`: why it can't be used any more ("" while it can).

    `device` is None where a part only stands for launches on the host's arrays.
    """

    # _quick.c reads some of these, and writes none
    __slots__ = (
        "__weakref__", "_default_pool", "allocations", "blocking", "blocks", "captures", "clock",
        "context_id", "dead", "default_stream", "device", "device_id", "error", "event_ids", "failing",
        "garbage", "grid_ids", "heard", "host_errors", "imported", "in_use_bytes", "leaving", "news",
        "news_at", "owned", "part", "peers", "pools", "queues", "raised", "runtime", "simulation", "spec",
        "stream_ids", "streams", "timeline", "trouble",
    )  # fmt: skip

    def __init__(
        self, runtime: Runtime, index: int, spec: Specification, device: Device | None, number: int
    ) -> None:
        self.runtime = runtime
        self.device_id = index
        self.context_id = number
        self.spec = spec
        self.device = device
        self.dead = ""
        self.timeline = runtime.timeline
        self.clock = runtime.clock
        # in model time processes have clocks of their own, and with them devices
        occupancy = None
        if device is not None and not runtime.clock.model:
            occupancy = device.occupancy(runtime.time_base)
        self.simulation = DeviceSimulation(
            spec, index=index, timeline=runtime.timeline, sink=self._sink, occupancy=occupancy
        )
        self.blocks: dict[int, Block] = {}  # that the program has to free, by address
        self.owned: dict[int, Piece] = {}  # of arrays, by serial
        self.imported: dict[int, ImportedBlock] = {}  # that other processes share, by address
        self.garbage: deque[Piece] = deque()  # that arrays left
        self.in_use_bytes = 0
        self.peers: set[int] = set()  # devices whose memory kernels of this one may use
        self.error: TopsError | None = None  # for good, until the device is reset
        self.failing: TopsError | None = None  # the same from its call on: nothing runs any more
        self.raised = False  # a call did raise it
        self.host_errors: list[BaseException] = []  # that host functions raised
        self.captures = 0  # under way on streams that the default stream waits for
        self.trouble = False  # there is any of these
        self.grid_ids = itertools.count(1)
        self.allocations = itertools.count(1)
        self.stream_ids = itertools.count(1)
        self.event_ids = itertools.count(1)
        self.queues: dict[int, StreamQueue] = {}  # of the streams that were created
        self.blocking: dict[int, StreamQueue] = {}  # those that the default stream waits for
        self.leaving: list[int] = []  # streams that are gone, with work that may not be
        self.pools: list[MemPool] = []
        self._default_pool: MemPool | None = None
        self.news = ctypes.c_int64()  # a word that all processes share, once the device is claimed
        self.news_at = 0  # its address, for _quick.c
        self.heard = 0  # what it was when it was looked at last
        self.part: Specification = spec  # that kernels run on, of streams without clusters of their own
        self.streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self.default_stream = Stream._default(self)

    # errors

    def check(self) -> None:
        """Raises what went wrong by now, or an error where the context is gone."""
        if self.news.value != self.heard:
            self.hear()
        if self.trouble or self.dead or self.runtime.local.in_callback:
            self._raise()

    def claim(self) -> None:
        """This process uses the device from here on. Raises TopsError: it was divided anew meanwhile."""
        device = self.device
        if device is None or self.news_at or self.dead:
            return
        try:
            device.claim()
        except DeviceLostError as error:
            raise TopsError(Code.topsErrorContextIsDestroyed, str(error)) from None
        except StateError as error:
            raise TopsError(Code.topsErrorNotInitialized, str(error)) from None
        self.news = device.news()
        self.news_at = ctypes.addressof(self.news)
        self.hear()

    def hear(self) -> None:
        """Something about the device has changed that processes have to know: a reset, who reserved SIPs."""
        device = self.device
        if device is None or self.dead:
            return
        self.heard = self.news.value
        if device.lost:
            if self.error is None:
                text = (
                    f"{device.title} was reset while this process used it (efsmi --reset --force): what it "
                    "had there is gone; tops.device_reset() begins anew"
                )
                self.error = self.failing = TopsError(Code.topsErrorContextIsDestroyed, text)
                self.trouble = True
            return
        clusters, sips = device.sips.left()
        part = self.part
        if (clusters, sips) == (self.spec.clusters, self.spec.sips_per_cluster):
            part = self.spec
        elif not clusters:
            part = replace(self.spec)  # none that kernels were made ready for: each one is refused
        elif part is self.spec or (part.clusters, part.sips_per_cluster) != (clusters, sips):
            part = replace(self.spec, clusters=clusters, sips_per_cluster=sips)
        with self.timeline.lock:
            own = sum(engine.capacity for engine in self.simulation.own)
            self.simulation.leave_clusters(max(self.spec.clusters - clusters - own, 0))
            self.part = part
            for stream in (self.default_stream, *self.streams):
                if not stream.limited:
                    stream.part = part
                    stream.queue.width = part.sips_per_cluster

    def room(self, stream: Stream, name: str) -> None:
        """Raises TopsError where others have all clusters that a stream's kernel could run on."""
        if self.device is not None and not stream.limited and not self.device.sips.left()[0]:
            fail(
                Code.topsErrorLaunchOutOfResources,
                f"kernel {name}: no cluster of {self.device.title} is left: {self.device.sips.holders()} "
                "SIPs reserved (set_launch_limit)",
            )

    def _raise(self) -> None:
        if self.runtime.local.in_callback:
            fail(Code.topsErrorNotPermitted, "a host function can't call the runtime")
        if self.dead:
            fail(Code.topsErrorContextIsDestroyed, f"the context of device {self.device_id} {self.dead}")
        if self.failing is not None and self.error is None:
            self.timeline.advance(self.clock.now_ns())
        if self.error is not None:
            self.raised = True
            raise self.error.again()
        if self.host_errors:
            error = self.host_errors.pop(0)
            self.trouble = bool(self.host_errors or self.captures)
            raise error

    def fault(
        self, fault: KernelFault, launched_at: Sequence[str], made_at: Sequence[str] = ()
    ) -> tuple[TopsError, Callable[[Operation], None]]:
        """A kernel of a launch that nobody waits for went wrong: the error, and what to do when the device
        comes to it."""
        error = of_fault(fault, launched_at, made_at)
        return error, self.fail(error)

    def fail(self, error: TopsError) -> Callable[[Operation], None]:
        """From here on nothing runs any more; calls raise the error once the device has come to it."""
        self.failing = self.failing or error
        self.trouble = True

        def reached(_: Operation) -> None:
            self.error = self.error or error

        return reached

    def change_captures(self, change: int) -> None:
        """A capture begins or ends."""
        self.captures += change
        self.trouble = bool(self.failing or self.host_errors or self.captures)

    def no_captures(self) -> None:
        """The default stream is used while another one is captured."""
        capture = self.runtime.local.capture
        if capture is not None:
            capture.invalidate()
            fail(
                Code.topsErrorStreamCaptureImplicit,
                f"stream {capture.origin.id} is being captured, and the default stream would wait for it: "
                "use the captured stream (with stream: ...), or tops.Stream(non_blocking=True)",
            )

    # order and time

    def order(self, stream: Stream) -> Sequence[Operation]:
        """What an operation of a stream waits for besides the one before it: the legacy default stream."""
        default = self.default_stream
        if stream is default:
            out = []
            if self.leaving:
                self._prune()
            for queue in self.blocking.values():
                if queue.last is not None:
                    out.append(queue.last)
            return out
        if stream.non_blocking:
            return ()
        last = default.queue.last
        return () if last is None else (last,)

    def enqueue(
        self,
        stream: Stream,
        kind: str,
        engine: str,
        duration_ns: int,
        work: Callable[[], object] | None,
        *,
        demand: dict[str, int] | None = None,
        tag: Any = None,
        after: Sequence[Operation] = (),
        peer: Any = None,
    ) -> Operation:
        """Put an operation on a stream. `work` is what it does: now, or when what it waits for was done."""
        queue = stream.queue
        with self.timeline.lock:
            waits = [*self.order(stream), *after]
            last = queue.last
            held = (last is not None and last.held) or any(op.held for op in waits)
            on_start = None
            if work is not None and self.failing is None:
                if held:
                    on_start = _later(self, work)
                else:
                    begin, end = self.clock.base.begin_cut, self.clock.base.end_cut
                    begin()
                    try:
                        work()
                    finally:
                        end()
            op = Operation(
                kind, queue, engine, duration_ns, submit_ns=self.clock.now_ns(), demand=demand or {},
                after=waits, tag=None if self.failing else tag, on_start=on_start, peer=peer,
            )  # fmt: skip
            QUEUE_SUBMIT.call(self.timeline.submit, op)
        if self.runtime.host_calls:
            self.runtime.run_host_functions()
        return op

    def freeze(self) -> None:
        """A simulation begins, in a cut: others are told that session time stands still until `thaw`."""
        if self.device is not None:
            self.device.usage.freeze(self.clock.now_ns())

    def thaw(self) -> None:
        """It has ended."""
        if self.device is not None:
            self.device.usage.thaw()

    def wait(self, operation: Operation | None) -> None:
        """Wait until an operation has ended (None: there is none); raises what went wrong on the device."""
        if operation is not None:
            self.runtime.wait(operation)
        if self.trouble:
            self._raise()

    def lasts(self) -> list[Operation]:
        """The last operation of each stream that is not done."""
        queues = (self.default_stream.queue, *self.queues.values())
        return [queue.last for queue in queues if queue.last is not None]

    def synchronize(self) -> None:
        """Wait for all that is queued; raises what went wrong on the device."""
        for operation in self.lasts():
            self.runtime.wait(operation)
        if self.trouble:
            self._raise()
        self.trim()

    def remember_stream(self, stream: Stream) -> None:
        """A stream was created."""
        self.queues[stream.id] = stream.queue
        if not stream.non_blocking:
            self.blocking[stream.id] = stream.queue

    def forget_stream(self, number: int) -> None:
        """A stream is gone; what is queued on it is still done."""
        self.leaving.append(number)

    def _prune(self) -> None:
        with self.timeline.lock:
            leaving, self.leaving = self.leaving, []
            for number in leaving:
                queue = self.queues.get(number)
                if queue is not None and queue.last is not None:
                    self.leaving.append(number)
                else:
                    self.queues.pop(number, None)
                    self.blocking.pop(number, None)

    # memory

    @property
    def pool(self) -> MemPool:
        """The pool that arrays and stream-ordered allocations come from."""
        if self._default_pool is None:
            from tops_kit.runtime.pools import MemPool

            self._default_pool = MemPool._of(self)
        return self._default_pool

    @pool.setter
    def pool(self, pool: MemPool) -> None:
        self._default_pool = pool

    def take(self, size_bytes: int, note: str) -> int:
        """Memory of the device: its address. Raises TopsError."""
        self.drain()
        device = self.device
        if device is None:
            fail(Code.topsErrorInvalidDevice, f"{self.spec.name} is no device here: it has no memory")
        if not self.news_at:
            self.claim()
        try:
            try:
                block = MEMORY_MAP.call(device.memory.allocate, size_bytes, note=note)
            except OutOfDeviceMemory:
                if not sum(pool.trim_to(0) for pool in self.pools):
                    raise
                block = MEMORY_MAP.call(device.memory.allocate, size_bytes, note=note)
        except (OutOfDeviceMemory, HostMemoryError) as error:
            raise TopsError(Code.topsErrorOutOfMemory, str(error)) from None
        except DeviceLostError as error:
            self.check()  # says what to do
            raise TopsError(Code.topsErrorContextIsDestroyed, str(error)) from None
        return block.address

    def give(self, address: int, note: str = "") -> None:
        """Give memory back that was taken. Raises TopsError."""
        assert self.device is not None
        try:
            MEMORY_UNMAP.call(self.device.memory.free, address, note=note)
        except DeviceMemoryError as error:
            raise TopsError(Code.topsErrorInvalidDevicePointer, str(error)) from None

    def trim(self) -> None:
        """The host waited: pools give back what they hold beyond their thresholds."""
        if self.garbage:
            self.drain()
        for pool in self.pools:
            pool._trim_idle()

    def drain(self) -> None:
        """Give back what arrays left behind."""
        garbage = self.garbage
        while garbage:
            try:
                piece = garbage.popleft()
            except IndexError:
                return  # another thread was quicker
            self.owned.pop(piece.serial, None)
            self.runtime.racing.gone(self, piece.serial)
            if self.dead:
                continue
            if piece.pool is not None:
                piece.pool.give(piece.address, piece.size_bytes, self.default_stream)
            else:
                self.give(piece.address)
            self.tell_memory(acts.MEMORY_FREE, piece, 0)

    def resolve(self, address: int, size_bytes: int) -> Block | None:
        """The block around an address of this device; None: the address is not of this device's memory.

        Raises TopsError: the bytes go beyond the block, or it was freed.
        """
        if self.device is None:
            return None
        memory = self.device.memory
        if not memory.owns(address):
            return self._imported(address, size_bytes)
        try:
            found = memory.resolve(address, size_bytes)
        except DeviceMemoryError as error:
            raise TopsError(Code.topsErrorInvalidDevicePointer, str(error)) from None
        return self.blocks.get(found.address) or Block(
            self, found.address, found.size_bytes, serial=found.serial, note=found.note
        )

    def _imported(self, address: int, size_bytes: int) -> Block | None:
        for block in self.imported.values():
            if block.address <= address < block.address + block.size_bytes:
                beyond = address + size_bytes - block.address - block.size_bytes
                if beyond > 0:
                    fail(
                        Code.topsErrorInvalidDevicePointer,
                        f"{size_bytes:,} bytes at 0x{address:x} go {beyond:,} bytes beyond the end of memory "
                        "of another process",
                    )
                return block
        return None

    def tell_memory(self, operation: int, piece: Piece, stream_id: int) -> None:
        """Count an allocation or a free, and tell it."""
        address, size_bytes, serial, pool, note = piece
        self.in_use_bytes += size_bytes if operation == acts.MEMORY_ALLOC else -size_bytes
        # a session that knows the allocation hears of the free, whether it is recording or not
        session = self.runtime.told_memory
        wanted = HOOKS.kinds and HOOKS.wants(acts.MEMORY)
        if wanted or (session and operation == acts.MEMORY_FREE):
            thread = HOOKS.thread
            now_ns = self.clock.now_ns()
            told = acts.MemoryActivity(
                operation, acts.MEMORY_DEVICE, address, size_bytes, self.in_use_bytes,
                thread.begin_ns or now_ns, now_ns, self.device_id, self.context_id, stream_id,
                thread.correlation_id, thread.thread_id, serial, 0 if pool is None else pool.id, note,
            )  # fmt: skip
            if wanted:
                HOOKS.emit(acts.MEMORY, told)
            if session is not None:
                session.note(told)

    # the end

    def finish(self) -> None:
        """The process ends: all that is queued is done and told, and memory that nobody has to free."""
        if self.dead:
            return
        end_ns = self.runtime.finish_all(self)
        if end_ns is not None and self.clock.jumps():  # nobody sleeps for what he did not wait for
            self.timeline.advance(self.clock.wait_until(end_ns))
        self.drain()
        for piece in list(self.owned.values()):
            self.tell_memory(acts.MEMORY_FREE, piece, 0)
        self.owned.clear()
        self._tell_unseen()

    def _tell_unseen(self) -> None:
        """An error that no call raised would be lost: the program did not wait after what failed."""
        unseen = [] if self.failing is None or self.raised else [self.failing]
        for error in (*unseen, *self.host_errors):
            text = f"device {self.device_id} failed, and the program ended without waiting for it: {error}"
            print(f"tops_kit: {text}", file=sys.stderr)
        self.raised = True
        self.host_errors.clear()

    def close(self, why: str) -> None:
        """From now on nothing of it can be used."""
        self.finish()
        for block in list(self.blocks.values()):
            self.tell_memory(acts.MEMORY_FREE, block.piece, 0)
        self.blocks.clear()
        for imported in self.imported.values():
            imported.unmap()
        self.imported.clear()
        self.dead = why
        self.simulation.reset()
        if self.simulation in self.timeline.devices:
            self.timeline.devices.remove(self.simulation)

    def _sink(self, op: Operation) -> None:
        """An operation is final: others see that the device was busy, and who listens is told."""
        tag = op.tag
        device = self.device
        if device is not None:
            if op.kind == "kernel":
                if tag is not None:
                    device.usage.note(op.start_ns, op.end_ns, tag.sips)
            elif op.kind == "copy":
                up, down = op.demand.get("pcie_up", 0), op.demand.get("pcie_down", 0)
                if up or down:
                    device.usage.note_pcie(op.start_ns, op.end_ns, up_bytes=up, down_bytes=down)
        if tag is not None:
            tag.done(op)

    def pointer(self, block: Block) -> DevicePointer:
        """The beginning of a block."""
        return DevicePointer(block, block.address)


def _later(context: Context, work: Callable[[], object]) -> Callable[[Operation], None]:
    """Work that is done when the device comes to it."""

    def start(op: Operation) -> None:
        if context.failing is not None:
            op.tag = None
            return
        with context.clock.cut():
            try:
                work()
            except TopsError as error:
                context.failing = context.failing or error
                context.error = context.error or error
                context.trouble = True

    return start
