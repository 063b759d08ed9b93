"""The tile library in numpy: what tile, matrix, vector and DTE instructions do, bit for bit as the C one.

Names and arguments are those of the `py` bodies in isa/table.py. `d` and the sources are `Tile`s; scalar
operands are Python or numpy numbers (floats for float tiles, ints for the rest); vector registers are arrays
of 128 bytes (uint8), with which `dtype` is a type's code. Functions raise `TileFault` where the C ones return
a fault number; the order of checks is the same, and after a fault no element of `d` has changed. shape_* give
result tiles their extents and compare those of others: they are called before the operation, as the machine
does. engine/tiles/tiles.h has the numeric definition.
"""

from tops_kit.engine.tiles_twin.elementwise import (
    binary,
    binary_rs,
    binary_s,
    compare,
    compare_rs,
    compare_s,
    copy,
    fill,
    fma,
    iota,
    scalar_binary,
    select,
    unary,
)
from tops_kit.engine.tiles_twin.functions import scalar_function
from tops_kit.engine.tiles_twin.indexing import gather, scatter, scatter_add
from tops_kit.engine.tiles_twin.matrix import matmul, mma
from tops_kit.engine.tiles_twin.numbers import f2i_sat, fma32, round_bf16, round_f16
from tops_kit.engine.tiles_twin.operations import (
    ABS,
    ADD,
    ALL,
    AND,
    ANY,
    ARGMAX,
    ARGMIN,
    CEIL,
    COS,
    DIV,
    EQ,
    ERF,
    EXP,
    FLOOR,
    FLOORDIV,
    GE,
    GT,
    LE,
    LOG,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    NE,
    NEG,
    NOT,
    OR,
    RECIP,
    RSQRT,
    SHL,
    SHR,
    SIGMOID,
    SIN,
    SQRT,
    SUB,
    SUM,
    TANH,
    XOR,
)
from tops_kit.engine.tiles_twin.reductions import cumsum, reduce
from tops_kit.engine.tiles_twin.shapes import (
    shape_broadcast,
    shape_extent,
    shape_gather,
    shape_matmul,
    shape_reduce,
    shape_same,
)
from tops_kit.engine.tiles_twin.tile import Memory, Tile, TileFault, plain
from tops_kit.engine.tiles_twin.transfers import atomic_add, dma_clip, dma_copy, dma_pad, dma_set
from tops_kit.engine.tiles_twin.vectors import (
    vbinary,
    vcompare,
    vfma,
    viota,
    vload,
    vreduce,
    vselect,
    vsplat,
    vstore,
    vunary,
)

__all__ = [  # noqa: RUF022 - by kind
    "Memory", "Tile", "TileFault", "plain",
    "binary", "binary_rs", "binary_s", "compare", "compare_rs", "compare_s", "copy", "fill", "fma", "iota",
    "select", "unary", "reduce", "cumsum", "gather", "scatter", "scatter_add", "mma", "matmul",
    "dma_copy", "dma_pad", "dma_clip", "dma_set", "atomic_add",
    "shape_broadcast", "shape_extent", "shape_gather", "shape_matmul", "shape_reduce", "shape_same",
    "vbinary", "vcompare", "vfma", "viota", "vload", "vreduce", "vselect", "vsplat", "vstore", "vunary",
    "scalar_binary", "scalar_function", "f2i_sat", "fma32", "round_bf16", "round_f16",
    "ADD", "SUB", "MUL", "DIV", "MIN", "MAX", "FLOORDIV", "MOD", "AND", "OR", "XOR", "SHL", "SHR",
    "LT", "LE", "GT", "GE", "EQ", "NE",
    "NEG", "ABS", "EXP", "LOG", "SQRT", "RSQRT", "TANH", "ERF", "SIGMOID", "SIN", "COS", "FLOOR", "CEIL",
    "RECIP", "NOT", "SUM", "ARGMAX", "ARGMIN", "ANY", "ALL",
]  # fmt: skip
