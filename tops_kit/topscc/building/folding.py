"""Operations on literals alone, computed by the compiler as Python computes them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

Number = int | float | bool

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
    "ne": operator.ne,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "abs": abs, "not": operator.not_, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
_MAX_SHIFT = 64  # a literal has no use beyond; keeps a slip of the pen from filling the memory


def fold(name: str, *numbers: Number) -> Number | None:
    """The result, or None where the machine must compute it (functions whose last bit is the machine's own).

    Raises ArithmeticError, TypeError or ValueError as Python does.
    """
    if len(numbers) == 1:
        if name == "invert":
            return not numbers[0] if isinstance(numbers[0], bool) else ~numbers[0]  # type: ignore[operator]
        one = _UNARY.get(name)
        if one is None:
            return None
        result: Number = one(numbers[0])
        return float(result) if name in ("floor", "ceil") else result
    two = _BINARY.get(name)
    if two is None or len(numbers) != 2:
        return None
    if name in ("shl", "shr") and not 0 <= numbers[1] <= _MAX_SHIFT:
        raise ValueError(f"a shift by {numbers[1]} is not possible")
    folded: Number = two(*numbers)
    return folded


def fold_i32(name: str, a: int, b: int) -> int | None:
    """An operation on i32 values, as the machine wraps and divides; None where it would fault."""
    if name in ("floordiv", "mod") and b == 0:
        return None
    if name in ("shl", "shr"):
        b &= 31
    if name == "div" or name not in _BINARY:
        return None
    result = int(_BINARY[name](a, b))
    return result if name in _COMPARE else (result + (1 << 31)) % (1 << 32) - (1 << 31)


_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
