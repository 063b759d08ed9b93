"""The memories of a launch as views: arrays in L3, and buffers in L1 and L2."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tops_kit.engine.oracle.trap import SLOT, Trap
from tops_kit.engine.tiles_twin import Memory, Tile
from tops_kit.engine.tiles_twin.tile import SPACE_L1, SPACE_L2, SPACE_L3, SPACE_NONE
from tops_kit.isa.dtypes import F32, DType
from tops_kit.isa.program import Buffer


def no_view() -> Tile:
    """What a tile register holds before anything is written to it."""
    return Tile(Memory.zeros(0), 0, F32, [], [], space=SPACE_NONE, inside=False, object=-1)


def array_view(
    address: int,
    dtype: DType,
    shape: Sequence[int],
    strides_bytes: Sequence[int],
    *,
    owner: object,
    index: int,
) -> Tile:
    """The view of a whole array at an address, in place; `index` is its pointer's."""
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides_bytes, strict=True)]
    low = sum(min(0, r) for r in reach)
    high = sum(max(0, r) for r in reach) + dtype.size_bytes
    if math.prod(shape) == 0:
        low = high = 0
    memory = Memory.at(address + low, high - low, owner)
    return Tile(memory, -low, dtype, list(shape), list(strides_bytes), space=SPACE_L3, object=index)


def buffer_view(buffer: Buffer, number: int, memory: Memory, slot: int, *, result: bool) -> Tile:
    """The view of one slot. Trap: there is no such slot."""
    space = SPACE_L1 if buffer.space == "L1" else SPACE_L2
    view = Tile.dense(memory, buffer.offset_bytes, buffer.dtype, buffer.shape, space)
    view.object = number
    if not 0 <= slot < buffer.slots:
        raise Trap(SLOT, view, (slot, buffer.slots))
    view.offset += slot * buffer.slot_bytes
    view.slot = slot
    view.result = result
    view.capacity = list(buffer.shape)
    return view
