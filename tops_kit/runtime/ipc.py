"""Device memory that several processes use: a handle in one, a pointer to the same bytes in another."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any, Final

from tops_kit.gcu.memory import DeviceMemoryError
from tops_kit.gcu.shared_memory import PLACE, OpenedFile, SharedMemoryError
from tops_kit.runtime import callers
from tops_kit.runtime.blocks import Block, DevicePointer
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import TopsError, fail
from tops_kit.runtime.hooks import api
from tops_kit.runtime.process import RUNTIME

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context

HANDLE_BYTES: Final = 64  # as the vendor's structures have
_HEAD = struct.Struct("<4s8s")  # kind, device
_BLOCK = struct.Struct("<QQQ")  # where in the file, bytes, serial
MEMORY: Final = b"TMEM"
EVENT: Final = b"TEVT"
_STEP = 256  # bytes between two blocks of a file, at least


class ImportedBlock(Block):
    """Memory of another process's block; `users` counts how often it was opened."""

    __slots__ = ("file", "handle", "users")

    def __init__(
        self, context: Context, address: int, size_bytes: int, file: OpenedFile, handle: bytes
    ) -> None:
        serial = next(context.allocations)
        super().__init__(context, address, size_bytes, serial=serial, note=callers.where())
        self.file = file
        self.handle = handle
        self.users = 1

    def unmap(self) -> None:
        """It can't be used any more."""
        self.freed = callers.where()
        self.file.close()


def pack_handle(kind: bytes, context: Context, place: bytes, more: bytes = b"") -> bytes:
    """A handle of something that belongs to a device and lies in a shared file."""
    return (_HEAD.pack(kind, _device(context)) + place + more).ljust(HANDLE_BYTES, b"\0")


def unpack_handle(kind: bytes, what: str, handle: Any) -> tuple[Context, bytes, bytes]:
    """The context here, the place of the file, and what follows. Raises TopsError."""
    if not isinstance(handle, bytes | bytearray | memoryview) or len(handle) != HANDLE_BYTES:
        fail(
            Code.topsErrorInvalidHandle,
            f"a handle of {what} is {HANDLE_BYTES} bytes that another process got",
        )
    handle = bytes(handle)
    given, device = _HEAD.unpack_from(handle)
    if given != kind:
        fail(Code.topsErrorInvalidHandle, f"the handle is none of {what}")
    place, more = handle[_HEAD.size : _HEAD.size + PLACE.size], handle[_HEAD.size + PLACE.size :]
    RUNTIME.current().check()
    for context in RUNTIME.contexts:
        if _device(context) == device:
            break
    else:
        fail(Code.topsErrorInvalidDevice, f"the {what} belongs to a device that this program does not see")
    context.check()
    return context, place, more


def _device(context: Context) -> bytes:
    assert context.device is not None
    return hashlib.blake2b(context.device.uuid.encode(), digest_size=8).digest()


@api("topsIpcGetMemHandle")
def ipc_get_mem_handle(pointer: DevicePointer) -> bytes:
    """A handle (64 bytes) of memory that `malloc` gave, for other processes of the same user.

    What is on the same 64 KB is seen by them, too. Raises TopsError: memory of a pool or an array, or (Linux
    only) topsErrorNotSupported.
    """
    if not isinstance(pointer, DevicePointer):
        fail(
            Code.topsErrorInvalidValue, f"a handle is made of what malloc gave, not {type(pointer).__name__}"
        )
    block, context = pointer.block, pointer.block.context
    block.check()
    context.check()
    if context.blocks.get(pointer.address) is not block or block.pool is not None:
        fail(
            Code.topsErrorInvalidValue,
            f"0x{pointer.address:x} is no beginning of a block of malloc: memory of pools, arrays and other "
            "processes has no handle; tops.malloc(...).array(...) has",
        )
    assert context.device is not None
    with context.timeline.lock, context.clock.cut():
        try:
            place, begin, found = context.device.memory.share(pointer.address)
        except SharedMemoryError as error:
            raise TopsError(Code.topsErrorNotSupported, str(error)) from None
        except DeviceMemoryError as error:
            raise TopsError(Code.topsErrorInvalidDevicePointer, str(error)) from None
    return pack_handle(MEMORY, context, place, _BLOCK.pack(begin, found.size_bytes, found.serial))


@api("topsIpcOpenMemHandle")
def ipc_open_mem_handle(handle: bytes) -> DevicePointer:
    """The memory behind another process's handle: both see the same bytes.

    Nothing is in order between processes but what events (`ipc_get_event_handle`) or the programs themselves
    put in order. `ipc_close_mem_handle` gives it back. Raises TopsError: it was freed, the process has ended.
    """
    context, place, more = unpack_handle(MEMORY, "memory", handle)
    begin, size_bytes, serial = _BLOCK.unpack_from(more)
    pid, *_ = PLACE.unpack(place)
    if pid == RUNTIME.pid:
        fail(Code.topsErrorInvalidContext, "the memory is this process's own: use its pointer")
    for block in context.imported.values():
        if block.handle == bytes(handle):
            _check_there(block.file, begin, serial, pid)
            block.users += 1
            return DevicePointer(block, block.address)
    try:
        file = OpenedFile(place)
    except SharedMemoryError as error:
        raise TopsError(Code.topsErrorInvalidHandle, str(error)) from None
    try:
        _check_there(file, begin, serial, pid)
        if begin + size_bytes > file.size_bytes:
            fail(Code.topsErrorInvalidHandle, "the handle is damaged")
    except TopsError:
        file.close()
        raise
    block = ImportedBlock(context, file.address + begin, size_bytes, file, bytes(handle))
    context.imported[block.address] = block
    return DevicePointer(block, block.address)


def _check_there(file: OpenedFile, begin: int, serial: int, pid: int) -> None:
    index = begin // _STEP
    if not 0 <= index < 512 or file.word(index) != serial:
        fail(Code.topsErrorInvalidHandle, f"the memory was freed by process {pid}, which had allocated it")


@api("topsIpcCloseMemHandle")
def ipc_close_mem_handle(pointer: DevicePointer) -> None:
    """Give memory of another process back, once the device is done with all that is queued.

    Raises TopsError.
    """
    block = getattr(pointer, "block", None)
    if not isinstance(block, ImportedBlock) or pointer.address != block.address:
        fail(Code.topsErrorInvalidValue, "ipc_close_mem_handle takes what ipc_open_mem_handle gave")
    block.check()
    context = block.context
    context.check()
    for operation in context.lasts():
        RUNTIME.wait(operation)
    block.users -= 1
    if not block.users:
        RUNTIME.racing.gone(context, block.serial)
        del context.imported[block.address]
        block.unmap()
    if context.trouble:
        context.check()
