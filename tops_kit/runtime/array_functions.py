"""Making arrays in a device's memory: `tops.empty`, `zeros`, `full`, `array`, `asarray`."""

from __future__ import annotations

from typing import Any

from tops_kit.isa.dtypes import DType
from tops_kit.runtime.array import Array, dtype_named, empty_on, shape_of
from tops_kit.runtime.arrays import element_type, host_array, is_tensor
from tops_kit.runtime.stream import Stream, stream_of
from tops_kit.topscc.language.types import f32
from tops_kit.topscc.language.words import OutsideKernelError


def empty(shape: Any, dtype: Any = f32, *, stream: Stream | None = None) -> Array:
    """A new array whose contents are not defined, on the thread's device. Raises TopsError."""
    return empty_on(stream_of(stream), shape_of(shape), dtype_named(dtype))


def empty_like(other: Any, dtype: Any = None, *, stream: Stream | None = None) -> Array:
    """A new array of another one's shape and type (a host array's, too); contents are not defined."""
    return empty(_shape(other), _dtype(other, dtype), stream=stream)


def zeros(shape: Any, dtype: Any = f32, *, stream: Stream | None = None) -> Array:
    """A new array of zeros. Raises TopsError."""
    _outside(shape, "zeros")
    return full(shape, 0, dtype, stream=stream)


def zeros_like(other: Any, dtype: Any = None, *, stream: Stream | None = None) -> Array:
    """A new array of zeros with another one's shape and type."""
    return full(_shape(other), 0, _dtype(other, dtype), stream=stream)


def full(shape: Any, value: Any, dtype: Any = None, *, stream: Stream | None = None) -> Array:
    """A new array of one number (dtype None: f32, i32 or bool, by the number). Raises TopsError."""
    _outside(shape, "full")
    kind = element_type(host_array(value, None), "the value") if dtype is None else dtype_named(dtype)
    on = stream_of(stream)
    out = empty_on(on, shape_of(shape), kind)
    out.fill(value, on)
    return out


# words of the kernel language have the same names: the compiler knows them by these marks
zeros.__word__ = "zeros"  # type: ignore[attr-defined]
full.__word__ = "full"  # type: ignore[attr-defined]


def array(value: Any, dtype: Any = None, *, stream: Stream | None = None) -> Array:
    """A new array with the contents of a host array, tensor, list, number or array of a device.

    Without `dtype` the type is the array's own; f32, i32 or bool for Python's numbers. Raises TopsError.
    """
    on = stream_of(stream)
    kind = None if dtype is None else dtype_named(dtype)
    if isinstance(value, Array):
        if kind is not None and kind != value.dtype:
            value = value.numpy()
        else:
            out = empty_on(on, value.shape, value.dtype)
            out.assign(value, on)
            return out
    found = _type_of(value) if kind is None else kind
    host = host_array(value, found)
    if found is None:
        found = element_type(host, "the array")
    out = empty_on(on, host.shape, found)
    out.assign(host, stream)
    return out


def asarray(value: Any, dtype: Any = None, *, stream: Stream | None = None) -> Array:
    """As `array`; an array of a device is given back as it is, where its type is right."""
    if isinstance(value, Array) and (dtype is None or dtype_named(dtype) == value.dtype):
        return value
    return array(value, dtype, stream=stream)


def _outside(shape: Any, name: str) -> None:
    if isinstance(shape, DType):
        raise OutsideKernelError(
            f"tops.{name}({shape}, ...) makes a tile, inside of kernels only; on the host shape comes first: "
            f"tops.{name}({'shape' if name == 'zeros' else 'shape, value'}, tops.{shape})"
        )


def _type_of(value: Any) -> DType | None:
    """The type of what knows it, bf16 among them; None: of the contents."""
    if is_tensor(value) or hasattr(value, "dtype"):
        name = str(value.dtype)
        if name.rpartition(".")[2] == "bfloat16":
            return dtype_named("bfloat16")
    return None


def _shape(other: Any) -> tuple[int, ...]:
    found = getattr(other, "shape", None)
    return tuple(found) if isinstance(found, tuple) else host_array(other, None).shape


def _dtype(other: Any, dtype: Any) -> DType:
    if dtype is not None:
        return dtype_named(dtype)
    if isinstance(other, Array):
        return other.dtype
    return _type_of(other) or element_type(host_array(other, None), "the array")
