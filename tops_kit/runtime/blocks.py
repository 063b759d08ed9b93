"""Blocks of device memory as the runtime keeps them, and pointers into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import TopsError

if TYPE_CHECKING:
    from tops_kit.runtime.array import Array
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.pools import MemPool


class Piece(NamedTuple):
    """What is told of an allocation, while it is there and when it goes."""

    address: int
    size_bytes: int
    serial: int
    pool: MemPool | None
    note: str  # where it was asked for


class Block:
    """Memory of a device. `freed`: where it was freed; None while it can be used."""

    __slots__ = ("__weakref__", "address", "context", "freed", "note", "pool", "serial", "size_bytes")

    def __init__(
        self,
        context: Context,
        address: int,
        size_bytes: int,
        *,
        serial: int,
        note: str,
        pool: MemPool | None = None,
    ) -> None:
        self.context = context
        self.address = address
        self.size_bytes = size_bytes
        self.serial = serial
        self.note = note
        self.pool = pool
        self.freed: str | None = None

    @property
    def piece(self) -> Piece:
        """What is told of it."""
        return Piece(self.address, self.size_bytes, self.serial, self.pool, self.note)

    def check(self) -> None:
        """Raises TopsError where it can't be used any more."""
        if self.context.dead:
            raise TopsError(
                Code.topsErrorInvalidDevicePointer,
                f"device memory at 0x{self.address:x} {self.context.dead}: allocate it again",
            )
        if self.freed is not None:
            raise TopsError(Code.topsErrorInvalidDevicePointer, self.gone())

    def gone(self) -> str:
        """Where it came from, and where it was freed."""
        came = f" (allocated at {self.note})" if self.note else ""
        where = f" at {self.freed}" if self.freed else ""
        return f"device memory at 0x{self.address:x}, {self.size_bytes:,} bytes{came}, was freed{where}"


class OwnedBlock(Block):
    """A block that goes back when no array uses it any more."""

    __slots__ = ()

    def __del__(self) -> None:
        if self.freed is None:
            # any thread, at any moment: the next call that uses memory gives it back
            self.context.garbage.append(self.piece)


class DevicePointer:
    """An address in device memory: `p + 16` is 16 bytes further, `int(p)` the address.

    `size_bytes`: how many bytes there are from here to the end of the block.
    """

    __slots__ = ("address", "block")

    def __init__(self, block: Block, address: int) -> None:
        self.block = block
        self.address = address

    @property
    def size_bytes(self) -> int:
        """Bytes from here to the end of the block."""
        return self.block.address + self.block.size_bytes - self.address

    @property
    def device(self) -> int:
        """The number of the device whose memory it is."""
        return self.block.context.device_id

    def array(self, shape: Any = None, dtype: Any = "u8") -> Array:
        """The memory from here on as an array (shape None: one axis, to the end); it stays the pointer's.

        Raises TopsError where the block is too short or was freed.
        """
        from tops_kit.runtime.array import array_at

        return array_at(self, shape, dtype)

    def __add__(self, size_bytes: int) -> DevicePointer:
        address = self.address + size_bytes
        if not self.block.address <= address <= self.block.address + self.block.size_bytes:
            raise TopsError(
                Code.topsErrorInvalidDevicePointer,
                f"{size_bytes:+,} bytes from 0x{self.address:x} is outside of its block of "
                f"{self.block.size_bytes:,} bytes at 0x{self.block.address:x}",
            )
        return DevicePointer(self.block, address)

    def __sub__(self, size_bytes: int) -> DevicePointer:
        return self + -size_bytes

    def __int__(self) -> int:
        return self.address

    def __index__(self) -> int:
        return self.address

    def __bool__(self) -> bool:
        return self.address != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DevicePointer) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        state = ", freed" if self.block.freed is not None else ""
        return f"<DevicePointer 0x{self.address:x}, {self.size_bytes:,} bytes on device {self.device}{state}>"
