"""`--arg NAME=VALUE` of the topscc command: values for a kernel's parameters, and arrays made for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tops_kit.errors import UserError
from tops_kit.isa.dtypes import BF16, DType
from tops_kit.runtime.errors import LaunchError
from tops_kit.runtime.examples import LAUNCH_KEYS, Examples
from tops_kit.topscc.language.types import PointerType, constexpr, dtype_of
from tops_kit.topscc.python.build import ArrayType
from tops_kit.topscc.python.signature import MISSING, Parameter

_SHAPE = re.compile(r"(?:(?P<dtype>[a-z_]+\d*):)?(?P<extents>\d+(?:x\d+)*)")
_DEFAULT_DTYPE = "f32"


@dataclass(frozen=True, slots=True)
class ArrayOption:
    """`x=f16:64x128`: an array of a shape, of the parameter's type where none is given."""

    dtype: DType | None
    shape: tuple[int, ...]


def read_options(texts: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts by name; UserError: another form, or a name twice."""
    out: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UserError(f"--arg {text}: write NAME=VALUE, such as --arg COLS=4096")
        if name.strip() in out:
            raise UserError(f"--arg {name.strip()} is given twice")
        out[name.strip()] = value.strip()
    return out


def read_value(name: str, text: str) -> Any:
    """A number, True, False, None, a tuple of these, an element type (`f16`), or else a text."""
    found = dtype_of(text) if re.fullmatch(r"[a-z_]+\d*", text) else None
    if found is not None:
        return found
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, int | float | bool | str | tuple | None):
        return value
    raise UserError(f"--arg {name}={text}: a number, True, False, None, a type, a tuple or a text")


def read_array(name: str, text: str) -> ArrayOption:
    """`4096x4096`, `f16:64`."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise UserError(f"--arg {name}={text}: an array is given by its shape: 4096x4096, or f16:4096x4096")
    dtype = dtype_of(match["dtype"]) if match["dtype"] else None
    if match["dtype"] and dtype is None:
        raise UserError(
            f"--arg {name}={text}: {match['dtype']} is no element type: f32 f16 bf16 i32 i16 i8 u8 bool"
        )
    return ArrayOption(dtype, tuple(int(extent) for extent in match["extents"].split("x")))


class Tried(Protocol):
    """A kernel as far as arguments are made for it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What it takes."""

    @property
    def examples(self) -> Examples:
        """Its example and reference."""


class KernelOptions:
    """Arguments for one kernel, from its example and the command line."""

    def __init__(self, kernel: Tried, given: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._parameters = {parameter.name: parameter for parameter in kernel.parameters}
        self._given = dict(given)
        known = {*self._parameters, *kernel.examples.options()}
        for name in given:
            if name not in known:
                raise UserError(f"--arg {name}: {kernel.name} takes {', '.join(sorted(known)) or 'none'}")

    def arguments(self, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments by name to launch with; and of `threads`, `grid`, `block` what the example gives."""
        out, launch = self._example(seed)
        random = np.random.default_rng(seed)
        for name, parameter in self._parameters.items():
            if self._is_array(parameter):
                if name in self._given or name not in out:
                    option = self._array(parameter)
                    try:
                        out[name] = self._made(parameter, option, random)
                    except (MemoryError, ValueError, OverflowError):
                        shape = self._given.get(name, option.shape)
                        text = f"{self._kernel.name}: {name}={shape}: this machine can't make such an array"
                        raise LaunchError(text) from None
            elif name in self._given and name not in self._kernel.examples.options():
                out[name] = read_value(name, self._given[name])
            elif name not in out and parameter.default is MISSING:
                raise LaunchError(f"{self._kernel.name}: {name} has no value: {self._how(name, 'VALUE')}")
        return out, launch

    def types(self) -> dict[str, Any]:
        """What to compile for: as arguments, with an ArrayType for each array."""
        if self._kernel.examples.has_example and not self._complete():
            return self.arguments()[0]
        out: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            if self._is_array(parameter):
                out[name] = self._array_type(parameter)
            elif parameter.type is constexpr or parameter.type is None:
                if name in self._given:
                    out[name] = read_value(name, self._given[name])
                elif parameter.default is MISSING:
                    raise LaunchError(f"{self._kernel.name}: {name} has no value: {self._how(name, 'VALUE')}")
            else:
                out[name] = 0
        return out

    def _complete(self) -> bool:
        """Whether the signature and the command line say all that compiling needs."""
        for name, parameter in self._parameters.items():
            if name in self._given or parameter.default is not MISSING:
                continue
            kind = parameter.type
            if kind is constexpr or kind is None:
                return False
            if isinstance(kind, PointerType) and (kind.dtype is None or kind.ndim is None):
                return False
        return True

    def _how(self, name: str, form: str) -> str:
        example = (
            ""
            if self._kernel.examples.has_example
            else f", or write @{self._kernel.name}.example in the file"
        )
        return f"--arg {name}={form}{example}"

    def _example(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        examples = self._kernel.examples
        if not examples.has_example:
            return {}, {}
        options = {  # where the default is a text, f16 and 3 are texts, too
            name: self._given[name] if isinstance(default, str) else read_value(name, self._given[name])
            for name, default in examples.options().items()
            if name in self._given
        }
        try:
            out = examples.arguments(options, seed)
        except LaunchError as reason:
            raise LaunchError(f"{self._kernel.name}: {reason}") from None
        launch = {name: out.pop(name) for name in LAUNCH_KEYS if name in out and name not in self._parameters}
        for name in out:
            if name not in self._parameters:
                raise LaunchError(
                    f"{self._kernel.name}: the example gives {name}, which is no parameter: "
                    f"{', '.join(self._parameters)}"
                )
        return out, launch

    # arrays

    def _is_array(self, parameter: Parameter) -> bool:
        if parameter.type is None:
            text = self._given.get(parameter.name, "")
            return ":" in text or "x" in text
        return isinstance(parameter.type, PointerType)

    def _array(self, parameter: Parameter) -> ArrayOption:
        text = self._given.get(parameter.name)
        if text is None:
            how = self._how(parameter.name, "ROWSxCOLS")
            raise LaunchError(f"{self._kernel.name}: {parameter.name} has no shape: {how}")
        return read_array(parameter.name, text)

    def _array_type(self, parameter: Parameter) -> ArrayType:
        kind = parameter.type if isinstance(parameter.type, PointerType) else PointerType()
        if parameter.name not in self._given and kind.dtype is not None and kind.ndim is not None:
            return ArrayType(kind.dtype, kind.ndim)
        option = self._array(parameter)
        return ArrayType(self._dtype(parameter, option), len(option.shape))

    def _dtype(self, parameter: Parameter, option: ArrayOption) -> DType:
        declared = parameter.type.dtype if isinstance(parameter.type, PointerType) else None
        found = option.dtype or declared or dtype_of(_DEFAULT_DTYPE)
        assert found is not None
        return found

    def _made(
        self, parameter: Parameter, option: ArrayOption, random: np.random.Generator
    ) -> npt.NDArray[Any]:
        """An array of random numbers."""
        dtype = self._dtype(parameter, option)
        if dtype is BF16:
            bits = random.standard_normal(option.shape, dtype=np.float32).view(np.uint32)
            return (bits >> 16).astype(np.uint16)
        if dtype.is_float:
            return random.standard_normal(option.shape, dtype=np.float32).astype(dtype.numpy)
        high = 2 if dtype.kind == "b" else 100
        return random.integers(0, high, option.shape).astype(dtype.numpy)
