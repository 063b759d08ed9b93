"""Arrays as arguments of kernels: numpy's and torch's, used in place."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.launch import GlobalArray
from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, U8, DType
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import LaunchError, TopsError, fail
from tops_kit.topscc.language.types import MAX_AXES, WIDE

_BY_NUMPY: dict[Any, DType] = {np.dtype(dtype.numpy): dtype for dtype in (F32, F16, I32, I16, I8, U8, BOOL)}
_BY_TORCH = {
    "torch.float32": F32, "torch.float16": F16, "torch.bfloat16": BF16, "torch.int32": I32,
    "torch.int16": I16, "torch.int8": I8, "torch.uint8": U8, "torch.bool": BOOL,
}  # fmt: skip


def is_array(value: object) -> bool:
    """Whether a value is an array that kernels take: numpy's, a torch tensor, or one of a device."""
    return isinstance(value, np.ndarray) or is_device_array(value) or is_tensor(value)


def is_device_array(value: object) -> bool:
    """Whether it lies in a device's memory (`tops.Array`)."""
    return getattr(type(value), "__tops_array__", False)


def is_tensor(value: object) -> bool:
    """Whether it is a torch tensor."""
    # without importing torch: who has a tensor has imported it
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_type(value: Any, name: str, declared: DType | None) -> tuple[DType, int]:
    """Element type and number of axes (0 axes count as 1); `declared` is the parameter's element type.

    Raises LaunchError for what the GCU does not have.
    """
    if isinstance(value, np.ndarray):
        dtype = _BY_NUMPY.get(value.dtype)
        if dtype is None:
            dtype = _rare(value.dtype, name, declared)
        axes = value.ndim
    elif is_device_array(value):
        dtype, axes = value.dtype, value.ndim
    else:
        check_tensor(value, name)
        found = _BY_TORCH.get(str(value.dtype))
        if found is None:
            raise LaunchError(
                f"{name} is {value.dtype}: {_wide(str(value.dtype), name, f'{name}.to(torch.{{}})')}"
            )
        dtype, axes = found, value.dim()
    if axes > MAX_AXES:
        raise LaunchError(f"{name} has {axes} axes: at most {MAX_AXES} are possible; reshape it")
    return dtype, axes or 1


def check_tensor(value: Any, name: str) -> None:
    """LaunchError for a tensor that is no dense memory of plain numbers on the CPU."""
    if value.device.type != "cpu":
        raise LaunchError(f"{name} lies on {value.device}: move it to the CPU: x.cpu()")
    if value.is_nested:
        raise LaunchError(
            f"{name} is a nested tensor: kernels take dense tensors: torch.nested.to_padded_tensor"
        )
    if str(value.layout) != "torch.strided":
        raise LaunchError(f"{name} is {value.layout}: kernels take dense tensors: x.to_dense()")
    if value.is_neg() or value.is_conj():
        raise LaunchError(
            f"{name} is a view that torch negates when it is read: x.resolve_neg().resolve_conj()"
        )


def _memory_of(value: Any, name: str, size: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Address, extents and strides in bytes of a tensor. LaunchError: its memory is not there."""
    shape, strides = tuple(value.shape), tuple(value.stride())
    if type(value).__torch_dispatch__ != sys.modules["torch"].Tensor.__torch_dispatch__:
        raise LaunchError(
            f"{name} is a {type(value).__name__}, not the tensor itself: kernels run on plain tensors"
        )
    try:
        there, address = value.untyped_storage().nbytes(), value.data_ptr()
    except RuntimeError:
        raise LaunchError(
            f"{name} is a tensor without memory, as inside of vmap and torch.func: launch the kernel outside"
        ) from None
    last = value.storage_offset() + sum(
        (extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)
    )
    if 0 not in shape and (last + 1) * size > there:
        raise LaunchError(
            f"{name} needs {(last + 1) * size:,} bytes, its storage has {there:,}: it was resized"
        )
    return address, shape, tuple(stride * size for stride in strides)


def changed(value: Any) -> None:
    """Tell torch that a tensor was stored to, so that a gradient that needs its old values says so."""
    if is_tensor(value) and not value.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(value)


def _rare(dtype: np.dtype[Any], name: str, declared: DType | None) -> DType:
    """Types of numpy that are not ours by themselves."""
    if dtype.name == "bfloat16":  # ml_dtypes
        return BF16
    if dtype == np.uint16 and declared is BF16:
        return BF16  # its 16 bits
    if not dtype.isnative:
        raise LaunchError(
            f"{name} has the byte order of another machine ({dtype.str}): "
            f"convert it: {name}.astype({name}.dtype.newbyteorder('='))"
        )
    if dtype.hasobject or dtype.fields:
        raise LaunchError(f"{name} is an array of {dtype}: kernels take arrays of numbers")
    raise LaunchError(f"{name} is {dtype.name}: {_wide(dtype.name, name, f'{name}.astype(numpy.{{}})')}")


def _wide(type_name: str, name: str, form: str) -> str:
    bare = type_name.rpartition(".")[2]
    if bare.startswith("complex"):
        return (
            f"the GCU has no complex numbers: give the real and the imaginary part: {name}.real, {name}.imag"
        )
    instead = {"f32": "float32", "i32": "int32"}.get(WIDE.get(bare, ""))
    if instead:
        return f"the GCU has no 64-bit types; convert it: {form.format(instead)}"
    return "the GCU has float32, float16, bfloat16, int32, int16, int8, uint8 and bool"


def as_global(value: Any, name: str, dtype: DType) -> GlobalArray:
    """The memory of an array as the machine takes it. Raises LaunchError: it is no CPU memory of strides."""
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise LaunchError(
                f"{name} is a masked array, and kernels know no masks: x.filled(...), or x.data"
            )
        plain = value if type(value) is np.ndarray else value.view(np.ndarray)
        address: int = plain.__array_interface__["data"][0]
        shape, strides = plain.shape, plain.strides
        writable = plain.flags.writeable
    elif is_device_array(value):
        address, shape, strides, writable = value.address, value.shape, value.strides, True
    else:
        address, shape, strides = _memory_of(value, name, dtype.size_bytes)
        writable = True
    if not shape:
        shape, strides = (1,), (dtype.size_bytes,)
    return GlobalArray(address, dtype, shape, strides, name, writable, value)


def element_type(value: Any, name: str) -> DType:
    """The element type of an array. Raises TopsError: the GCU has none such."""
    try:
        return array_type(value, name, None)[0]
    except LaunchError as error:
        fail(Code.topsErrorInvalidValue, error.text)


def host_array(value: Any, dtype: DType | None) -> npt.NDArray[Any]:
    """Something of the host's as a numpy array of a type, bf16 as its bits; what fits is not copied.

    Without a type: that of an array; f32, i32 or bool for Python's numbers. Raises TopsError.
    """
    if is_tensor(value):
        array = _of_tensor(value)
        if str(value.dtype) == "torch.bfloat16":
            return array if dtype in (None, BF16) else _widened(array).astype(dtype.numpy)
    elif (
        isinstance(value, np.ndarray | np.generic)
        or hasattr(value, "__array__")
        or hasattr(value, "__array_interface__")
    ):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        array = _of_numbers(value, dtype)
    if dtype is None:
        element_type(array, "the array")
        return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16) if dtype == BF16 else array.astype(dtype.numpy)
    if array.dtype.hasobject or array.dtype.fields or array.dtype.kind not in "biuf":
        raise TopsError(Code.topsErrorInvalidValue, f"an array of {array.dtype}: devices hold numbers")
    if dtype == BF16:
        return array if array.dtype == np.uint16 else _narrowed(array)
    return array.astype(dtype.numpy, copy=False)


def _of_tensor(value: Any) -> npt.NDArray[Any]:
    if value.device.type != "cpu" or str(value.layout) != "torch.strided":
        raise TopsError(
            Code.topsErrorInvalidValue, f"a tensor on {value.device}: move it to the CPU: x.cpu()"
        )
    torch = sys.modules["torch"]
    value = value.detach()
    out: npt.NDArray[Any] = (value.view(torch.int16) if value.dtype is torch.bfloat16 else value).numpy()
    return out.view(np.uint16) if value.dtype is torch.bfloat16 else out


def _of_numbers(value: Any, dtype: DType | None) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise TopsError(Code.topsErrorInvalidValue, f"no array: {error}") from None
    if dtype is None and array.dtype in (np.float64, np.int64):
        narrow = array.astype(np.float32 if array.dtype == np.float64 else np.int32)
        if array.dtype == np.int64 and not np.array_equal(narrow, array):
            raise TopsError(Code.topsErrorInvalidValue, "integers that do not fit 32 bits")
        return narrow
    return array


def _widened(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded_bf16(number: float) -> float:
    """The number of bf16 that is nearest."""
    return float(_widened(_narrowed(np.array([number], np.float32)))[0])


def _narrowed(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Numbers as bf16's bits, rounded to the nearest, ties to even."""
    wide = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (wide + (0x7FFF + ((wide >> 16) & 1))) >> 16
    nan = np.isnan(np.asarray(array, np.float32))
    return np.where(nan, np.uint32(0x7FC0), rounded).astype(np.uint16).reshape(np.shape(array))
