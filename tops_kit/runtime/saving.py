"""Saving launches into a session that is being recorded (`topsprof run --save-launch`): what they were given.

A launch is saved before it runs, so one that ends its process is there as well; its outcome is added behind
it. docs/session-format.md says what is in such a file, `saved_launch.py` launches it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tops_kit import launch_files
from tops_kit.engine.launch import GlobalArray
from tops_kit.gcu import Specification
from tops_kit.isa.binary import encode
from tops_kit.isa.errors import BinaryError

if TYPE_CHECKING:
    from tops_kit.runtime.plan import Outcome, Plan

_PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Request:
    """What a session asks for. `count`: launches of each kernel in a process; `limit_bytes`: all files."""

    kernels: re.Pattern[str]
    count: int
    limit_bytes: int


def read_request(session: str) -> Request | None:
    """What the session in a folder asks for; None: nothing. Raises ValueError: it makes no sense."""
    path = Path(session, launch_files.FOLDER, launch_files.REQUEST)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None  # nothing was asked for
    try:
        asked = json.loads(text)
        return Request(re.compile(asked["kernels"]), int(asked["count"]), int(asked["limit_bytes"]))
    except (KeyError, TypeError, ValueError, re.error) as error:
        raise ValueError(f"{path}: {error}") from None


class Saver:
    """Of one process: saves the first launches of each kernel asked for, while recording is on."""

    def __init__(self, session: str, request: Request, recording: Callable[[], bool]) -> None:
        self._folder = Path(session, launch_files.FOLDER)
        self._request = request
        self._recording = recording
        self._left: dict[str, int] = {}  # launches to save, by kernel

    def may_want(self, kernel: str) -> bool:
        """Whether a launch of a kernel is still to be saved, now or later."""
        left = self._left.get(kernel)
        if left is None:
            wanted = self._request.kernels.search(kernel) is not None
            left = self._left[kernel] = self._request.count if wanted else 0
        return left > 0

    def save(self, plan: Plan, values: Sequence[Any], correlation_id: int) -> Saved | None:
        """Save a launch that is about to run, where it is wanted; what can't be saved is told once."""
        if not self.may_want(plan.name) or not self._recording():
            return None
        self._left[plan.name] -= 1
        try:
            return self._save(plan, values, correlation_id)
        except BinaryError as error:
            self._refuse(plan.name, f"its program can't be written: {error}")
        except OSError as error:
            self._refuse(plan.name, error.strerror or str(error))
        return None

    def _save(self, plan: Plan, values: Sequence[Any], correlation_id: int) -> Saved | None:
        packed = plan.pack(values)
        arrays = [argument for argument in packed if isinstance(argument, GlobalArray)]
        program = encode([plan.program])
        pieces = whole_pieces(arrays)
        room = self._request.limit_bytes - self._used()
        needed = len(program) + sum(piece.size_bytes for piece in pieces)
        if needed > room:  # without what of the allocations the kernel is not given
            pieces = _merged(_extent(array) for array in arrays)
            needed = len(program) + sum(piece.size_bytes for piece in pieces)
        if needed > room:
            self._left[plan.name] = 0
            self._refuse(
                plan.name,
                f"it needs {needed:,} bytes, and of --save-launch-limit {self._request.limit_bytes:,} bytes "
                f"{max(room, 0):,} are left",
            )
            return None
        header = _header(plan, correlation_id) | {"arguments": _arguments(plan, packed, pieces)}
        memory = [(piece.described(), piece.view()) for piece in pieces]
        name = _PLAIN_NAME.sub("_", plan.name)[:100] or "kernel"
        return Saved(launch_files.create(self._folder, name, header, program, memory), pieces)

    def _used(self) -> int:
        used = 0
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                used += path.stat().st_size
        return used

    def _refuse(self, kernel: str, why: str) -> None:
        """A line for `topsprof run`, which says it at the end and writes it into the ledger."""
        line = json.dumps({"kernel": kernel, "why": why, "pid": os.getpid()}) + "\n"
        try:
            with (self._folder / launch_files.REFUSED).open("ab", buffering=0) as file:
                file.write(line.encode())
        except OSError:
            print(f"tops_kit: a launch of {kernel} was not saved: {why}", file=sys.stderr)


class Saved:
    """A launch that was saved and is about to run."""

    def __init__(self, path: Path, pieces: Sequence[Piece]) -> None:
        self._path = path
        self._pieces = pieces

    def ended(self, outcome: Outcome) -> None:
        """It ran: its cycles, and what the memory holds now."""
        times = outcome.result.times
        self._add({"cycles": None if times is None else times.cycles, "fault": None})

    def failed(self, fault: BaseException) -> None:
        """It did what it must not."""
        self._add({"cycles": None, "fault": str(fault)})

    def _add(self, outcome: dict[str, Any]) -> None:
        after = [zlib.crc32(piece.view()) for piece in self._pieces]
        with contextlib.suppress(OSError):  # it is a launch that never ended, then
            launch_files.add_outcome(self._path, {**outcome, "memory_crc32": after})


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory that a launch is given. `note`: where it was allocated; `whole`: all of the allocation."""

    address: int
    size_bytes: int
    owners: tuple[object, ...]  # keep it alive
    space: str = "host"
    note: str = ""
    whole: bool = False

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size_bytes

    def view(self) -> memoryview:
        """Its contents, in place."""
        if not self.size_bytes:
            return memoryview(b"")
        return memoryview((ctypes.c_ubyte * self.size_bytes).from_address(self.address)).cast("B")

    def described(self) -> dict[str, Any]:
        """What the file's header says of it."""
        return {"address": self.address, "space": self.space, "allocated_at": self.note, "whole": self.whole}


def whole_pieces(arrays: Sequence[GlobalArray]) -> list[Piece]:
    """The allocations that arrays of a device lie in, the bytes that arrays of the host span; none twice."""
    pieces = []
    for array in arrays:
        block = getattr(array.owner, "block", None)
        if block is None:
            pieces.append(_extent(array))
        else:
            pieces.append(
                Piece(block.address, block.size_bytes, (array.owner,), "device", block.note, whole=True)
            )
    return _merged(pieces)


def _extent(array: GlobalArray) -> Piece:
    """From the first to the last byte of an array's elements."""
    low = high = array.address
    if 0 not in array.shape:
        for extent, stride in zip(array.shape, array.strides_bytes, strict=True):
            low += min(0, (extent - 1) * stride)
            high += max(0, (extent - 1) * stride)
        high += array.dtype.size_bytes
    block = getattr(array.owner, "block", None)
    space, note = ("host", "") if block is None else ("device", block.note)
    return Piece(low, high - low, (array.owner,), space, note)


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Pieces by address; those that share bytes are one."""
    out: list[Piece] = []
    for piece in sorted(pieces, key=lambda one: (one.address, -one.size_bytes)):
        last = out[-1] if out else None
        if last is None or not (piece.address < last.end or piece.end == last.end):
            out.append(piece)
            continue
        size = max(last.end, piece.end) - last.address
        owners = (*last.owners, *piece.owners)
        out[-1] = Piece(last.address, size, owners, last.space, last.note, last.whole)
    return out


def _arguments(plan: Plan, packed: Sequence[Any], pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for parameter, argument in zip(plan.program.parameters, packed, strict=True):
        if not isinstance(argument, GlobalArray):
            value = argument.hex() if isinstance(argument, float) else int(argument)
            out.append(
                {"name": parameter.name, "kind": "number", "dtype": parameter.dtype.name, "value": value}
            )
            continue
        span = _extent(argument)
        place = next(k for k, p in enumerate(pieces) if p.address <= span.address and span.end <= p.end)
        out.append(
            {
                "name": parameter.name, "kind": "array", "dtype": argument.dtype.name,
                "shape": list(argument.shape), "strides": list(argument.strides_bytes), "memory": place,
                "at": argument.address - pieces[place].address,
            }
        )  # fmt: skip
    return out


def _header(plan: Plan, correlation_id: int) -> dict[str, Any]:
    from tops_kit.engine.timing import COST_MODEL_VERSION

    settings = plan.settings
    return {
        "kernel": plan.name,
        "full_name": plan.full_name,
        "grid": list(plan.options.grid),
        "block": list(plan.options.block),
        "clusters": plan.clusters,
        "part": plan.part.name,
        "specification": specification_json(plan.part),
        "specification_hash": plan.part.hash,
        "cost_model": COST_MODEL_VERSION,
        "settings": {
            "mode": settings.mode,
            "budget_s": float(settings.budget_s),
            "cooperative": bool(settings.cooperative),
            "defer": bool(settings.defer),
        },
        "constants": {name: str(value) for name, value in plan.program.constexprs.items()},
        "pid": os.getpid(),
        "correlation_id": correlation_id,
    }


def specification_json(part: Specification) -> dict[str, Any]:
    """A part as JSON values: name, title, architecture, and each figure's value and source."""
    return {
        "name": part.name,
        "title": part.title,
        "architecture": part.architecture,
        "figures": {figure.name: [figure.value, figure.source] for figure in part.figures()},
    }
