"""The arguments of a launch: matched with the kernel's parameters, checked, described for compiling."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I32, DType
from tops_kit.runtime.arrays import array_type, as_global, is_array, rounded_bf16
from tops_kit.runtime.errors import LaunchError
from tops_kit.topscc.language.types import PointerType, constexpr, dtype_of
from tops_kit.topscc.python.build import ArrayType
from tops_kit.topscc.python.signature import MISSING, Parameter

_RANGES = {
    "i32": (-(1 << 31), (1 << 31) - 1),
    "i16": (-(1 << 15), (1 << 15) - 1),
    "i8": (-128, 127),
    "u8": (0, 255),
}
_BF16_END = 2.0**128 - 2.0**119  # from here on numbers are rounded to infinity
_SIMPLE = (int, float, bool, str, type(None), DType)


class Arguments:
    """Matches calls of one kernel with its parameters. LaunchErrors leave out the kernel's name."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = tuple(parameters)
        self._names = tuple(parameter.name for parameter in parameters)
        self._positional = sum(not parameter.keyword_only for parameter in parameters)
        self._required = all(parameter.default is MISSING for parameter in parameters)

    def ordered(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Sequence[Any]:
        """The arguments in the order of the parameters, defaults filled in."""
        if not keywords and len(args) == len(self._names) == self._positional:
            return args
        if len(args) > self._positional:
            raise LaunchError(
                f"takes {self._positional} arguments ({', '.join(self._names[: self._positional])}), "
                f"{len(args)} are given"
            )
        values = list(args)
        used = 0
        for parameter in self._parameters[len(args) :]:
            if parameter.name in keywords:
                values.append(keywords[parameter.name])
                used += 1
            elif parameter.default is not MISSING:
                values.append(parameter.default)
            else:
                wrong = [name for name in keywords if name not in self._names]
                raise (
                    self._unknown(len(args), keywords)
                    if wrong
                    else LaunchError(f"needs an argument {parameter.name}")
                )
        if used != len(keywords):
            raise self._unknown(len(args), keywords)
        return values

    def _unknown(self, given: int, keywords: dict[str, Any]) -> LaunchError:
        for name in keywords:
            if name in self._names[:given]:
                return LaunchError(f"{name} is given twice")
            if name not in self._names:
                return LaunchError(f"has no argument {name}: it takes {', '.join(self._names)}")
        return LaunchError("takes other arguments")

    def key(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """What the compiled kernel depends on: types, numbers of axes, values of constexprs."""
        out: list[Any] = []
        for parameter, value in zip(self._parameters, values, strict=True):
            kind = parameter.type
            if kind is constexpr:
                # 1, 1.0 and True are equal, but not the same to a kernel
                out += (type(value), self._constexpr_key(parameter, value))
            elif type(value) is np.ndarray:
                out += (value.dtype, value.ndim)
            elif type(value) is ArrayType:
                out.append(value)
            elif kind is None:
                out.append(self._untyped_key(parameter, value))
            elif isinstance(kind, PointerType):
                out.append(array_type(self._array(parameter, value), parameter.name, kind.dtype))
        return tuple(out)

    def _constexpr_key(self, parameter: Parameter, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple((type(item), self._constexpr_key(parameter, item)) for item in value)
        if isinstance(value, np.generic):
            return exact(value.item())
        if type(value) in _SIMPLE or dtype_of(value) is not None:
            return exact(value)
        raise LaunchError(
            f"{parameter.name} is known when compiling: a number, text, type, None or tuple of these, "
            f"not {type(value).__name__}"
        )

    def _untyped_key(self, parameter: Parameter, value: Any) -> Any:
        if is_array(value):
            return array_type(value, parameter.name, None)
        return self._scalar_type(parameter, value)

    def _array(self, parameter: Parameter, value: Any) -> Any:
        if not is_array(value):
            given = isinstance(value, list | tuple | np.generic)
            hint = "; convert it: numpy.asarray(x, numpy.float32)" if given else ""
            raise LaunchError(f"{parameter.name} is an array, got {_shown(value)}{hint}")
        return value

    def _scalar_type(self, parameter: Parameter, value: Any) -> DType:
        """The type of a number whose parameter has none."""
        if isinstance(value, bool | np.bool_):
            return BOOL
        if isinstance(value, int | np.integer):
            return I32
        if isinstance(value, float | np.floating):
            return F32
        raise LaunchError(f"{parameter.name} is {_shown(value)}: kernels take arrays and numbers")

    def described(self, values: Sequence[Any]) -> dict[str, Any]:
        """What to compile for: by parameter an ArrayType, a DType, or the value of a constexpr."""
        out: dict[str, Any] = {}
        for parameter, value in zip(self._parameters, values, strict=True):
            kind = parameter.type
            if kind is constexpr:
                self._constexpr_key(parameter, value)
                out[parameter.name] = value
            elif isinstance(kind, PointerType):
                out[parameter.name] = self._array_type(parameter, kind, value)
            elif isinstance(value, ArrayType):
                out[parameter.name] = value
            elif isinstance(kind, DType):
                out[parameter.name] = kind
            elif is_array(value):
                out[parameter.name] = ArrayType(*array_type(value, parameter.name, None))
            else:
                out[parameter.name] = self._scalar_type(parameter, value)
        return out

    def _array_type(self, parameter: Parameter, kind: PointerType, value: Any) -> ArrayType:
        if isinstance(value, ArrayType):
            dtype, ndim = value.dtype, value.ndim
        else:
            dtype, ndim = array_type(self._array(parameter, value), parameter.name, kind.dtype)
        if kind.dtype is not None and dtype != kind.dtype:
            how = _how(parameter, kind.dtype, value)
            raise LaunchError(f"{parameter.name} is an array of {kind.dtype}, got one of {dtype}{how}")
        if kind.ndim is not None and ndim != kind.ndim:
            axes = "1 axis" if kind.ndim == 1 else f"{kind.ndim} axes"
            shape = "" if isinstance(value, ArrayType) else f": {_shape(value)}"
            raise LaunchError(f"{parameter.name} has {axes}, got an array of {ndim}{shape}")
        return ArrayType(dtype, ndim)

    # the launch

    def pack(self, values: Sequence[Any], types: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What the machine takes, in the order of its parameters; and the arrays by name."""
        out: list[Any] = []
        arrays: dict[str, Any] = {}
        for parameter, value in zip(self._parameters, values, strict=True):
            name = parameter.name
            if parameter.type is constexpr:
                continue
            kind = types[name]
            if isinstance(kind, ArrayType):
                arrays[name] = value
                out.append(as_global(value, name, kind.dtype))
            else:
                out.append(number_of(name, kind, value))
        return out, arrays


def number_of(name: str, kind: DType, value: Any) -> int | float:
    """A number as a parameter of a type takes it. Raises LaunchError: it is none, or does not fit."""
    if kind.is_float:
        if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer):
            raise LaunchError(f"{name} is a number ({kind}), got {_shown(value)}")
        form = "<e" if kind == F16 else "<f"
        try:
            (real,) = struct.unpack(form, struct.pack(form, float(value)))
            if kind == BF16 and math.isfinite(real) and abs(real) >= _BF16_END:
                raise OverflowError
        except OverflowError:
            raise LaunchError(f"{name} is {_shown(value)}, which does not fit {kind}") from None
        return rounded_bf16(real) if kind == BF16 else float(real)
    if kind == BOOL:
        if isinstance(value, bool | np.bool_):
            return int(value)
        raise LaunchError(f"{name} is True or False, got {_shown(value)}")
    try:
        number = operator.index(value)
    except TypeError:
        raise LaunchError(f"{name} is an integer ({kind}), got {_shown(value)}") from None
    low, high = _RANGES[kind.name]
    if not low <= number <= high:
        raise LaunchError(f"{name} is {number}, which does not fit {kind} ({low} to {high})")
    return number


def exact(value: Any) -> Any:
    """Of a float something that tells -0.0 from 0.0, and is equal for NaN; other values as they are."""
    return value.hex() if type(value) is float else value


def _how(parameter: Parameter, dtype: DType, value: Any) -> str:
    """What to do about an array of another type."""
    if isinstance(value, ArrayType):
        return ""
    name = parameter.name
    convert = f"{name}.astype(numpy.{np.dtype(dtype.numpy).name})" if dtype != BF16 else f"{name}.bfloat16()"
    if not isinstance(value, np.ndarray) and dtype != BF16:
        convert = f"{name}.to(torch.{np.dtype(dtype.numpy).name})"
    return f": convert it, {convert}, or take any type: {name}: tops.ptr()"


def _shown(value: Any) -> str:
    if is_array(value):
        return f"an array {_shape(value)}"
    if isinstance(value, int | float | bool | str | None):
        text = repr(value)
        return text if len(text) < 40 else f"a {type(value).__name__}"
    return f"a {type(value).__name__}"


def _shape(value: Any) -> str:
    return str(tuple(value.shape))
