"""Numbers of the tile operations: as the enumeration TK_* in engine/tiles/tiles.h."""

from __future__ import annotations

BINARY_NAMES = (
    "add", "sub", "mul", "div", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr",
)  # fmt: skip
COMPARE_NAMES = ("lt", "le", "gt", "ge", "eq", "ne")
UNARY_NAMES = (
    "neg", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "cos", "floor", "ceil",
    "recip", "not",
)  # fmt: skip
REDUCE_NAMES = ("sum", "argmax", "argmin", "any", "all")  # and min, max
NAMES = BINARY_NAMES + COMPARE_NAMES + UNARY_NAMES + REDUCE_NAMES

(
    ADD, SUB, MUL, DIV, MIN, MAX, FLOORDIV, MOD, AND, OR, XOR, SHL, SHR,
    LT, LE, GT, GE, EQ, NE,
    NEG, ABS, EXP, LOG, SQRT, RSQRT, TANH, ERF, SIGMOID, SIN, COS, FLOOR, CEIL, RECIP, NOT,
    SUM, ARGMAX, ARGMIN, ANY, ALL,
) = range(len(NAMES))  # fmt: skip
