"""The tile library in numpy: what tile, matrix, vector and DTE instructions do, bit for bit as the C one.

Names and arguments are those of the `py` bodies in isa/table.py. `d` and the sources are `Tile`s; scalar
operands are Python or numpy numbers (floats for float tiles, ints for the rest); vector registers are arrays of
128 bytes (uint8), with which `dtype` is a type's code. Functions raise `TileFault` where the C ones return a
fault number; the order of checks is the same, and after a fault no element of `d` has changed. shape_* give
result tiles their extents and compare those of others: they are called before the operation, as the machine
does. engine/tiles/tiles.h has the numeric definition.
"""

from tops_kit.engine.tiles_twin.numbers import f2i_sat, fma32, round_bf16, round_f16
from tops_kit.engine.tiles_twin.tile import Memory, Tile, TileFault, plain

__all__ = ["Memory", "Tile", "TileFault", "f2i_sat", "fma32", "plain", "round_bf16", "round_f16"]
