"""Words of the kernel language: functions that mean something only to the compiler.

A word's Python signature and docstring are what editors show and what the compiler binds calls to. The
annotation of a parameter says how the compiler reads the argument: a `View` keeps `x[i]` a place in memory
instead of reading it, a `Target` is changed in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, TypeVar

from tops_kit.errors import UserError

Function = TypeVar("Function", bound=Callable[..., Any])

Scalar: TypeAlias = Any  # a number: i32, f32 or bool
Tile: TypeAlias = Any  # a tile, or a view of L1
Operand: TypeAlias = Any  # a tile, a vector or a scalar
View: TypeAlias = Any  # a place in memory, or a tile
Target: TypeAlias = Any  # a variable that holds a tile, or a view of L1
Vector: TypeAlias = Any  # a vector register
Printed: TypeAlias = Any  # read part by part
Event: TypeAlias = Any  # the completion of a transfer
Static: TypeAlias = Any  # what must be known when compiling
Shape: TypeAlias = Any  # an extent, or a tuple of 1 to 3


class OutsideKernelError(UserError):
    """A word of the kernel language was called by Python instead of being compiled."""


def word(function: Function) -> Function:
    """Make a word: the compiler knows it by `__word__`; called by Python, it says what it is for."""
    name = function.__name__.rstrip("_")

    @functools.wraps(function)
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OutsideKernelError(
            f"tops.{name} works inside of kernels only: call it in a function under @tops.kernel, "
            "and launch that as kernel[threads](...)"
        )

    refuse.__word__ = name  # type: ignore[attr-defined]
    return refuse  # type: ignore[return-value]


def word_of(value: object) -> str | None:
    """The name of a word; None for everything else."""
    name = getattr(value, "__word__", None) if callable(value) else None
    return name if isinstance(name, str) else None
