"""Arrays in device memory: shape, type and views as numpy has them; contents move by recorded copies only."""

from __future__ import annotations

import math
import operator
import struct
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tops_kit.isa.dtypes import BF16, DType
from tops_kit.runtime import activity as acts
from tops_kit.runtime.arrays import host_array
from tops_kit.runtime.blocks import Block, DevicePointer
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.fills import put_fill
from tops_kit.runtime.hooks import api
from tops_kit.runtime.memory import owned_block
from tops_kit.runtime.stream import Stream, stream_of
from tops_kit.runtime.transfers import Side, copy, side_of, stream_for
from tops_kit.topscc.language.types import MAX_AXES, dtype_complaint, dtype_of

_PACKED = struct.Struct("=Q5q5iiii")  # as packing.py lays an array out
_NO_AXES = (0,) * MAX_AXES


class _Memory:
    """Memory as numpy takes it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], form: str) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": form,
            "version": 3,
        }


class Array:
    """An array in a device's memory, made by `tops.empty`, `tops.array` and the like.

    `x.numpy()` copies it to the host, `x[...]` gives a view, `x[...] = y` copies into it. Kernels take it as
    it is, and run asynchronously. Its memory goes back when no array uses it any more.
    """

    __slots__ = (
        "__weakref__",
        "address",
        "block",
        "dtype",
        "ndim",
        "packed",
        "shape",
        "signature",
        "strides",
    )
    __tops_array__ = True

    block: Block
    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ndim: int
    signature: int
    packed: bytes

    __hash__ = object.__hash__

    def __init__(self) -> None:
        fail(
            Code.topsErrorInvalidValue, "arrays are made by tops.empty, tops.zeros, tops.array, tops.asarray"
        )

    @classmethod
    def _make(
        cls, block: Block, address: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Array:
        """An array in a block; strides in bytes."""
        out = cls.__new__(cls)
        out.block = block
        out.address = address
        out.dtype = dtype
        out.shape = shape
        out.strides = strides
        out.ndim = ndim = len(shape)
        rank = ndim or 1
        out.signature = dtype.code * 8 + rank  # what kernels are compiled for
        if ndim:
            rest = _NO_AXES[ndim:]
            out.packed = _PACKED.pack(address, *strides, *rest, *shape, *rest, ndim, dtype.code, 1)
        else:
            out.packed = _PACKED.pack(address, dtype.size_bytes, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, dtype.code, 1)
        return out

    # what it is

    @property
    def device(self) -> int:
        """The number of its device."""
        return self.block.context.device_id

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.size_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all its elements."""
        return math.prod(self.shape) * self.dtype.size_bytes

    @property
    def pointer(self) -> DevicePointer:
        """Where its first element lies."""
        return DevicePointer(self.block, self.address)

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements follow each other, the last axis fastest."""
        return self.strides == contiguous(self.shape, self.dtype.size_bytes) or 0 in self.shape

    @property
    def T(self) -> Array:  # noqa: N802 - numpy's name
        """Its axes in reverse order, as a view."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Array {self.shape} {self.dtype} on device {self.device}>"

    # to the host

    def numpy(self, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Its contents as a numpy array (into `out` where given), when the device is done with it.

        bf16 comes as ml_dtypes.bfloat16 where that is installed, else widened to float32. Raises TopsError.
        """
        if out is None:
            out = np.empty(self.shape, self.dtype.numpy)
            self._read(out)
            return of_bits(out, self.dtype)
        if self.dtype == BF16 and out.dtype == np.float32:
            out[...] = of_bits(self.bits(), BF16).astype(np.float32)
            return out
        self._read(out.view(np.uint16) if self.dtype == BF16 else out)
        return out

    def bits(self) -> npt.NDArray[Any]:
        """As `numpy`, with bf16 as its 16 bits (uint16)."""
        out = np.empty(self.shape, self.dtype.numpy)
        self._read(out)
        return out

    def _read(self, out: npt.NDArray[Any]) -> None:
        if out.shape != self.shape or out.dtype != np.dtype(self.dtype.numpy):
            fail(
                Code.topsErrorInvalidValue,
                f"{self!r} does not fit a host array of {out.dtype} {out.shape}",
            )
        _copy_out(out, self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self!r} lies on a device: it can only be copied")
        out = self.numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __dlpack__(self, **wanted: Any) -> Any:
        """Its contents for other libraries, copied to the host (as `__dlpack_device__` says)."""
        if wanted.get("copy") is False:
            raise BufferError(f"{self!r} lies on a device: it can only be copied")
        if self.dtype == BF16:
            torch = sys.modules.get("torch")
            if torch is None:
                raise BufferError("bf16 goes to torch only: import it first, or take x.numpy()")
            return torch.from_numpy(self.bits()).view(torch.bfloat16).__dlpack__()
        return self.numpy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU

    def item(self) -> Any:
        """The only element as a Python number. Raises TopsError: there are more."""
        if self.size != 1:
            fail(Code.topsErrorInvalidValue, f"{self!r} has {self.size} elements, not 1")
        return self.numpy().reshape(1)[0].item()

    def tolist(self) -> Any:
        """Its contents as nested lists."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    # views

    def _view(self) -> npt.NDArray[Any]:
        """The memory itself as numpy's; only for what is simulated."""
        form = np.dtype(self.dtype.numpy).str
        return np.asarray(_Memory(self.address, self.shape, self.strides, form))

    def _like(self, view: npt.NDArray[Any]) -> Array:
        """A view of numpy's as one of ours."""
        if view.ndim > MAX_AXES:
            fail(Code.topsErrorInvalidValue, f"{view.ndim} axes: at most {MAX_AXES} are possible")
        address: int = view.__array_interface__["data"][0]
        if not view.size:
            address = self.address
        return Array._make(self.block, address, self.dtype, view.shape, view.strides)

    def __getitem__(self, index: Any) -> Array:
        """A view: ints, slices, `...` and None, as numpy has them. Arrays as indices are for kernels."""
        return self._like(self._view()[_basic(index)])

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("iteration over an array without axes")
        return (self[k] for k in range(self.shape[0]))

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape: a view where that is possible, else of a copy."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        view = self._view()
        try:
            changed = view.reshape(tuple(wanted))
        except (ValueError, TypeError) as error:
            fail(Code.topsErrorInvalidValue, f"{self!r}: {error}")
        if self.is_contiguous or np.may_share_memory(changed, view):
            return self._like(changed)
        return self.copy().reshape(changed.shape)

    def ravel(self) -> Array:
        """All elements on one axis: a view where that is possible."""
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> Array:
        """Its axes in another order (default: reversed), as a view."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes or None
        try:
            return self._like(self._view().transpose(order))
        except (ValueError, TypeError) as error:
            fail(Code.topsErrorInvalidValue, f"{self!r}: {error}")

    def squeeze(self, axis: Any = None) -> Array:
        """Without its axes of one element."""
        return self._like(self._view().squeeze(axis))

    def view(self, dtype: Any) -> Array:
        """The same bytes as elements of another type; of another size only where the last axis allows it."""
        kind = dtype_named(dtype)
        try:
            changed = self._view().view(kind.numpy)
        except (ValueError, TypeError) as error:
            fail(Code.topsErrorInvalidValue, f"{self!r}: {error}")
        address: int = changed.__array_interface__["data"][0]
        return Array._make(self.block, address, kind, changed.shape, changed.strides)

    # into it

    def __setitem__(self, index: Any, value: Any) -> None:
        """Copy into a part of it: numbers, host arrays, arrays of a device, as numpy broadcasts them."""
        self[index].assign(value)

    def fill(self, value: Any, stream: Stream | None = None) -> None:
        """Make all elements one number."""
        _fill(self, value, self.nbytes, stream)

    def assign(self, value: Any, stream: Stream | None = None) -> None:
        """Copy into it, as numpy broadcasts; it waits for pageable host memory. Raises TopsError."""
        if isinstance(value, Array):
            _copy_within(self, value, stream)
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            self.fill(value, stream)
        else:
            _copy_in(self, host_array(value, self.dtype), stream)

    def copy(self, stream: Stream | None = None) -> Array:
        """A contiguous copy on the same device."""
        on = stream_of(stream)
        if on.context is not self.block.context:
            on = self.block.context.default_stream
        out = empty_on(on, self.shape, self.dtype)
        _copy_within(out, self, on)
        return out

    def to(self, device: int, stream: Stream | None = None) -> Array:
        """A copy on another device; itself where it is there already."""
        from tops_kit.runtime.process import RUNTIME

        context = RUNTIME.context(device)
        if context is self.block.context:
            return self
        out = empty_on(context.default_stream, self.shape, self.dtype)
        source = self if self.is_contiguous else self.copy()
        _copy_within(out, source, stream)
        return out


@api("topsMemsetAsync")
def _fill(target: Array, value: Any, size_bytes: int, stream: Stream | None) -> None:
    number = host_array(value, target.dtype)
    if number.size != 1:
        fail(Code.topsErrorInvalidValue, f"an array is filled with one number, not {shown(value)}")
    bits = int.from_bytes(number.tobytes(), "little")
    stream = stream_of(stream)
    target.block.check()
    side = Side(acts.MEMORY_DEVICE, target.block.context, target.address, size_bytes, target)
    on = stream_for(side, side, None) if stream.context is not target.block.context else stream
    work = None
    if not target.is_contiguous:
        work = _assigner(target, np.frombuffer(number.tobytes(), target.dtype.numpy)[0])
    put_fill(side, bits, target.dtype.size_bytes, size_bytes, stream=on, work=work)


@api("topsMemcpyDtoH")
def _copy_out(target: npt.NDArray[Any], source: Array) -> None:
    source.block.check()
    into = Side(acts.MEMORY_PAGEABLE, None, target.__array_interface__["data"][0], target.nbytes, target)
    if target.flags.c_contiguous:
        into = side_of(target, None, write=True)
    out_of = Side(acts.MEMORY_DEVICE, source.block.context, source.address, source.nbytes, source)
    work = None
    if not (source.is_contiguous and target.flags.c_contiguous):
        view = source._view()

        def work() -> None:
            np.copyto(target, view)

    copy(into, out_of, source.nbytes, stream_for(into, out_of, None), wait=True, work=work)


@api("topsMemcpyHtoD")
def _copy_in(target: Array, source: npt.NDArray[Any], stream: Stream | None) -> None:
    target.block.check()
    if source.shape != target.shape:
        try:
            source = np.broadcast_to(source, target.shape)
        except ValueError:
            fail(Code.topsErrorInvalidValue, f"an array of {source.shape} does not fit {target!r}")
    into = Side(acts.MEMORY_DEVICE, target.block.context, target.address, target.nbytes, target)
    plain = source.flags.c_contiguous and target.is_contiguous
    if source.flags.c_contiguous:
        out_of = side_of(source, None, write=False)
    else:
        out_of = Side(
            acts.MEMORY_PAGEABLE, None, source.__array_interface__["data"][0], source.nbytes, source
        )
    copy(
        into, out_of, target.nbytes, stream_for(into, out_of, stream), wait=stream is None,
        work=None if plain else _assigner(target, source),
    )  # fmt: skip


@api("topsMemcpyDtoDAsync")
def _copy_within(target: Array, source: Array, stream: Stream | None) -> None:
    target.block.check()
    source.block.check()
    if source.dtype != target.dtype:
        fail(Code.topsErrorInvalidValue, f"{source!r} is of another type than {target!r}: a kernel converts")
    view = source._view()
    if source.shape != target.shape:
        try:
            view = np.broadcast_to(view, target.shape)
        except ValueError:
            fail(Code.topsErrorInvalidValue, f"{source!r} does not fit {target!r}")
    plain = source.shape == target.shape and source.is_contiguous and target.is_contiguous
    into = Side(acts.MEMORY_DEVICE, target.block.context, target.address, target.nbytes, target)
    out_of = Side(acts.MEMORY_DEVICE, source.block.context, source.address, source.nbytes, source)
    work = None
    if not plain:

        def work(keep: Array = source) -> None:
            keep.block.check()
            np.copyto(target._view(), view)

    copy(into, out_of, target.nbytes, stream_for(into, out_of, stream), wait=False, work=work)


def _assigner(target: Array, value: Any) -> Any:
    def work() -> None:
        target.block.check()
        np.copyto(target._view(), value)

    return work


def contiguous(shape: tuple[int, ...], size_bytes: int) -> tuple[int, ...]:
    """Strides in bytes of elements that follow each other."""
    out: list[int] = []
    for extent in reversed(shape):
        out.append(size_bytes)
        size_bytes *= extent
    return tuple(reversed(out))


def dtype_named(dtype: Any) -> DType:
    """An element type as a person writes it. Raises TopsError."""
    found = dtype_of(dtype)
    if found is None:
        what, instead = dtype_complaint(dtype)
        if "\n" in what or len(what) > 100:
            what = f"{shown(dtype)} is no element type"
        fail(Code.topsErrorInvalidValue, f"{what}: {instead}")
    return found


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape as a person writes it. Raises TopsError."""
    given = shape if isinstance(shape, tuple | list) else (shape,)
    try:
        out = tuple(operator.index(extent) for extent in given)
    except TypeError:
        out = (-1,)
    if any(extent < 0 for extent in out):
        fail(
            Code.topsErrorInvalidValue,
            f"a shape is an int or a tuple of ints, at least 0, not {shown(shape)}",
        )
    if len(out) > MAX_AXES:
        fail(Code.topsErrorInvalidValue, f"{len(out)} axes: at most {MAX_AXES} are possible")
    return out


def empty_on(stream: Stream, shape: tuple[int, ...], dtype: DType) -> Array:
    """A new array for what comes next on a stream."""
    size = math.prod(shape) * dtype.size_bytes
    block = owned_block(size, stream)
    return Array._make(block, block.address, dtype, shape, contiguous(shape, dtype.size_bytes))


def array_at(pointer: DevicePointer, shape: Any, dtype: Any) -> Array:
    """Memory that is there as an array. Raises TopsError: it is too short, or was freed."""
    kind = dtype_named(dtype)
    pointer.block.check()
    extents = (pointer.size_bytes // kind.size_bytes,) if shape is None else shape_of(shape)
    size = math.prod(extents) * kind.size_bytes
    if size > pointer.size_bytes or pointer.address % kind.size_bytes:
        fail(
            Code.topsErrorInvalidValue,
            f"an array {extents} of {kind} has {size:,} bytes, {pointer!r} does not hold it",
        )
    return Array._make(pointer.block, pointer.address, kind, extents, contiguous(extents, kind.size_bytes))


def tensor_array(tensor: Any) -> npt.NDArray[Any]:
    """A CPU tensor as a numpy array: the same memory, but for bf16 without ml_dtypes, which is widened."""
    bf16 = str(tensor.dtype) == "torch.bfloat16"
    return of_bits(host_array(tensor, None), BF16) if bf16 else np.asarray(tensor.detach())


def of_bits(bits: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """An array as people want it, from how it is held: bf16 has a type in ml_dtypes, else it is widened."""
    if dtype != BF16:
        return bits
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    out: npt.NDArray[Any] = bits.view(ml_dtypes.bfloat16)
    return out


def _basic(index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            continue
        if isinstance(item, bool | np.bool_) or not hasattr(type(item), "__index__"):
            _no_index(item)
    # a tuple with an ellipsis gives views only, never numbers
    return (*items, Ellipsis) if Ellipsis not in items else items


def _no_index(item: Any) -> NoReturn:
    fail(
        Code.topsErrorInvalidValue,
        f"arrays of a device take ints, slices, ... and None as indices, not {type(item).__name__}: "
        "tops.gather does that in a kernel",
    )
