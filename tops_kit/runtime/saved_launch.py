"""Launches that `topsprof run --save-launch` saved: what they were given, and launching them again.

saved = tops.saved_launch("run.topsprof", "softmax-1")
replay = saved.replay()              # on memory of the host with the same contents; waits for its end
replay.launch.cycles, replay.launch["y"], replay.differences()

A file is data: its program is verified as that of any compiled file, its arrays stay within the memory that
it holds, or it is refused.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tops_kit import launch_files
from tops_kit.gcu import Specification
from tops_kit.gcu.figures import FIELDS
from tops_kit.isa.binary import decode
from tops_kit.isa.dtypes import BY_NAME
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.program import Program
from tops_kit.launch_files import LaunchFile, LaunchFileError
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import TopsError, is_path, shown
from tops_kit.runtime.module import Function, Module
from tops_kit.runtime.result import Launch
from tops_kit.topscc.language.types import MAX_AXES

_PAGE = 4096


class SavedLaunchError(TopsError, LaunchFileError):
    """A saved launch that is not there, is damaged, or of another version."""


@dataclass(frozen=True)
class Argument:
    """An argument: of an array its type, extents, strides in bytes, and place in a piece of memory."""

    name: str
    dtype: str
    value: int | float | None  # of a number
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    memory: int = -1  # which piece; -1: a number
    at: int = 0  # where its first element lies in it, bytes


class SavedLaunch:
    """A launch that was saved. Raises SavedLaunchError where the file is damaged, or no such file."""

    def __init__(self, file: LaunchFile) -> None:
        self.file = file
        header = file.header
        self.kernel = self._text(header, "kernel")
        self.grid = self._extents(header, "grid")
        self.block = self._extents(header, "block")
        settings = header.get("settings")
        if not isinstance(settings, dict) or not isinstance(header.get("memory"), list):
            self._refuse("its header is not complete")
        self._settings: Mapping[str, Any] = settings
        self.arguments = tuple(self._argument(one) for one in self._list(header, "arguments"))

    @property
    def name(self) -> str:
        """Its name in the session: "softmax-1"."""
        return self.file.name

    @cached_property
    def program(self) -> Program:
        """The kernel's program."""
        try:
            (program,) = decode(self._piece(self.file.header.get("program")), str(self.file.path))
        except BinaryError as error:
            raise _error(Code.topsErrorInvalidImage, error) from None
        except ValueError:
            self._refuse("it holds other than one program")
        return program

    @cached_property
    def part(self) -> Specification:
        """The part that it ran on, with the figures that it had then."""
        return self._part(self.file.header.get("specification"))

    @property
    def recorded_cycles(self) -> int | None:
        """How long it took; None: it was not timed, failed, or never ended."""
        cycles = None if self.file.outcome is None else self.file.outcome.get("cycles")
        return cycles if isinstance(cycles, int) else None

    @property
    def recorded_fault(self) -> str | None:
        """What it did wrong; None: nothing, or it never ended."""
        fault = None if self.file.outcome is None else self.file.outcome.get("fault")
        return fault if isinstance(fault, str) else None

    def replay(self, **options: Any) -> Replay:
        """Launch it again, on memory that is as it was, and wait for its end; `options` as Kernel.options.

        Raises SavedLaunchError, LaunchError, KernelFault.
        """
        kept = self._settings
        chosen: dict[str, Any] = {"mode": kept.get("mode"), "cooperative": kept.get("cooperative") is True}
        chosen |= options
        if kept.get("defer") is True and chosen["mode"] in ("sanitized", "debug"):
            chosen.setdefault("defer", True)
        module = Module(self.name, {})
        function = Function(module, {self.part.name: self.program}).on(self.part)
        memory = self._memory()
        launch = function.options(**chosen)[self.grid, self.block](*self._values(memory))
        return Replay(self, launch, memory)

    def _values(self, memory: Sequence[npt.NDArray[np.uint8]]) -> list[Any]:
        """The arguments as they were: numbers, and arrays in memory."""
        parameters = self.program.parameters
        if [p.name for p in parameters] != [a.name for a in self.arguments]:
            self._refuse("its arguments are not those of its program")
        out: list[Any] = []
        for parameter, argument in zip(parameters, self.arguments, strict=True):
            is_array = argument.memory >= 0
            if (parameter.kind == "pointer") != is_array or parameter.dtype.name != argument.dtype:
                self._refuse(f"argument {argument.name} is none of its program")
            out.append(self._array(argument, memory) if is_array else argument.value)
        return out

    def __repr__(self) -> str:
        return f"<SavedLaunch {self.name} of {self.kernel}: grid {self.grid}, block {self.block}>"

    # what the file says, checked

    def _piece(self, about: object) -> bytes:
        try:
            return self.file.piece(about)
        except LaunchFileError as error:
            raise _error(Code.topsErrorInvalidImage, error) from None

    def _memory(self) -> list[npt.NDArray[np.uint8]]:
        out = []
        for about in self._list(self.file.header, "memory"):
            data = np.frombuffer(self._piece(about), np.uint8)
            address = about.get("address", 0)
            out.append(_aligned_copy(data, address % _PAGE if isinstance(address, int) else 0))
        return out

    def _array(self, argument: Argument, memory: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[Any]:
        piece = memory[argument.memory]
        dtype = np.dtype(BY_NAME[argument.dtype].numpy)
        if 0 in argument.shape:
            return np.ndarray(argument.shape, dtype)
        try:
            return np.ndarray(argument.shape, dtype, piece, argument.at, argument.strides)
        except (ValueError, TypeError, OverflowError):
            self._refuse(f"array {argument.name} goes beyond its memory")

    def _argument(self, about: Any) -> Argument:
        if not isinstance(about, dict) or about.get("dtype") not in BY_NAME:
            self._refuse("an argument has no type")
        name, dtype = self._text(about, "name"), about["dtype"]
        if about.get("kind") == "number":
            value = about.get("value")
            if isinstance(value, str):
                try:
                    return Argument(name, dtype, float.fromhex(value))
                except (ValueError, OverflowError):
                    self._refuse(f"argument {name} is no number")
            if isinstance(value, bool) or not isinstance(value, int):
                self._refuse(f"argument {name} is no number")
            return Argument(name, dtype, bool(value) if dtype == "bool" else value)
        shape, strides = self._integers(about, "shape"), self._integers(about, "strides")
        memory, at = about.get("memory"), about.get("at")
        if (
            len(shape) != len(strides)
            or len(shape) > MAX_AXES
            or not isinstance(memory, int)
            or not 0 <= memory < len(self.file.header["memory"])
            or not isinstance(at, int)
            or min(shape, default=0) < 0
        ):
            self._refuse(f"argument {name} is no array")
        return Argument(name, dtype, None, shape, strides, memory, at)

    def _part(self, about: Any) -> Specification:
        if not isinstance(about, dict) or not isinstance(about.get("figures"), dict):
            self._refuse("it has no specification")
        values: dict[str, Any] = {name: self._text(about, name) for name in ("name", "title", "architecture")}
        sources: dict[str, str] = {}

        def figure(name: str, least: float, most: float, whole: bool) -> int | float:
            found = about["figures"].get(name)
            if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], str):
                self._refuse(f"its specification has no {name}")
            number = found[0]
            kinds = int if whole else int | float
            if isinstance(number, bool) or not isinstance(number, kinds) or not least <= number <= most:
                self._refuse(f"its specification has a {name} that makes no sense")
            sources[name] = found[1]
            return number

        for field in FIELDS:
            if field.keys:
                values[field.name] = MappingProxyType(
                    {
                        key: figure(f"{field.name}.{key}", field.least, field.most, field.whole)
                        for key in field.keys
                    }
                )
            else:
                values[field.name] = figure(field.name, field.least, field.most, field.whole)
        known = {field.name for field in fields(Specification)} - {"sources"}
        if values.keys() != known:
            self._refuse("its specification is that of another version")
        return Specification(sources=MappingProxyType(sources), **values)

    def _text(self, about: Mapping[str, Any], key: str) -> str:
        value = about.get(key)
        if not isinstance(value, str):
            self._refuse(f"its header has no {key}")
        return value

    def _list(self, about: Mapping[str, Any], key: str) -> list[Any]:
        value = about.get(key)
        if not isinstance(value, list):
            self._refuse(f"its header has no {key}")
        return value

    def _integers(self, about: Mapping[str, Any], key: str) -> tuple[int, ...]:
        value = self._list(about, key)
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
            self._refuse(f"its header has a {key} that is no list of integers")
        return tuple(value)

    def _extents(self, about: Mapping[str, Any], key: str) -> tuple[int, ...]:
        value = self._integers(about, key)
        if not 1 <= len(value) <= 3 or min(value) < 1:
            self._refuse(f"its header has no {key}")
        return value

    def _refuse(self, why: str) -> NoReturn:
        raise SavedLaunchError(
            Code.topsErrorInvalidImage,
            f"{_line(str(self.file.path))} is damaged: {why}; save the launch again",
        )


class Replay:
    """A saved launch that was launched again: `launch`, and what it left in `memory` (a piece each)."""

    def __init__(self, saved: SavedLaunch, launch: Launch, memory: Sequence[npt.NDArray[np.uint8]]) -> None:
        self.saved = saved
        self.launch = launch
        self.memory = memory

    def differences(self) -> list[str]:
        """What is not as when it was recorded, for people: cycles, contents of memory. [] also where the
        recorded one never ended.
        """
        saved, times = self.saved, self.launch.result.times
        if saved.file.outcome is None:
            return []
        out = []
        cycles = saved.recorded_cycles
        if cycles is not None and times is not None and times.cycles != cycles:
            out.append(f"it took {times.cycles:,} cycles, {cycles:,} when it was recorded")
        expected = saved.file.outcome.get("memory_crc32")
        after = [zlib.crc32(piece.data) for piece in self.memory]
        if not isinstance(expected, list) or len(expected) != len(after):
            return [*out, "the file does not say what memory held after it"]
        for number, (one, other) in enumerate(zip(after, expected, strict=True)):
            if one != other:
                names = ", ".join(a.name for a in saved.arguments if a.memory == number)
                out.append(f"the memory of {names} holds other bytes than when it was recorded")
        return out


def saved_launch(session: str | Path, name: str | None = None) -> SavedLaunch:
    """A launch that a session holds, by its name ("softmax-1") or its kernel's; its only one without a name.

    `session` may be the file of a launch, too. Raises SavedLaunchError.
    """
    if not is_path(session):
        raise SavedLaunchError(Code.topsErrorInvalidValue, f"a session is a path, not {shown(session)}")
    if name is not None and not isinstance(name, str):
        raise SavedLaunchError(Code.topsErrorInvalidValue, f"a saved launch has a name, not {shown(name)}")
    path, place = Path(session), _line(str(session))
    if name is None and path.suffix == launch_files.SUFFIX:
        return SavedLaunch(_read(path))
    files = launch_files.in_session(path)
    if not files:
        if not path.is_dir():
            raise SavedLaunchError(Code.topsErrorFileNotFound, f"{place}: no session")
        raise SavedLaunchError(
            Code.topsErrorNotFound,
            f"{place} has no saved launches: topsprof run --save-launch REGEX saves some",
        )
    names = [file.name.removesuffix(launch_files.SUFFIX) for file in files]
    if name in names:
        return SavedLaunch(_read(files[names.index(name)]))
    of_kernel = [k for k, one in enumerate(names) if name is None or one.rpartition("-")[0] == name]
    if not of_kernel:
        wanted = _line(name or "")[:200]
        text = f"{place} has no saved launch {wanted}: there are {', '.join(names)}"
        raise SavedLaunchError(Code.topsErrorNotFound, text)
    if len(of_kernel) > 1:
        known = ", ".join(names[k] for k in of_kernel)
        text = f"{place} has saved launches {known}: name one: {place}:{names[of_kernel[0]]}"
        raise SavedLaunchError(Code.topsErrorInvalidValue, text)
    return SavedLaunch(_read(files[of_kernel[0]]))


def _read(path: Path) -> LaunchFile:
    try:
        return launch_files.read(path)
    except LaunchFileError as error:
        missing = not os.path.lexists(path)
        raise _error(Code.topsErrorFileNotFound if missing else Code.topsErrorInvalidImage, error) from None


def _error(code: Code, error: Exception) -> SavedLaunchError:
    return SavedLaunchError(code, _line(str(error)))


def _line(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]  # names of files may hold anything


def find_launch(text: str) -> SavedLaunch | None:
    """The launch of a command's argument: SESSION:LAUNCH, SESSION, or a .topslaunch; None: it is none.

    Raises SavedLaunchError.
    """
    path = Path(text)
    if path.suffix == launch_files.SUFFIX or path.is_dir():
        return saved_launch(path)
    left, colon, name = text.rpartition(":")
    if colon and launch_files.is_name(name) and Path(left).is_dir():
        return saved_launch(left, name)
    return None


def _aligned_copy(data: npt.NDArray[np.uint8], offset: int) -> npt.NDArray[np.uint8]:
    """A copy whose address is `offset` beyond a multiple of a page."""
    room = np.empty(len(data) + 2 * _PAGE, np.uint8)
    begin = (offset - room.ctypes.data) % _PAGE
    out = room[begin : begin + len(data)]
    out[...] = data
    return out
