"""Kernels written with the builder, its methods without `where`: that is the line of the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tops_kit.engine.launch import ENGINES, GlobalArray, LaunchResult, launch
from tops_kit.isa.dtypes import BY_NAME, DType
from tops_kit.isa.program import Program, SourceFile
from tops_kit.isa.table import INSTRUCTIONS
from tops_kit.isa.verify import verify
from tops_kit.topscc.builder import Builder, Slice
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.lower import lower
from tops_kit.topscc.target import S60, Target
from tops_kit.topscc.tree import Kernel


@cache
def _source(path: str) -> SourceFile:
    return SourceFile(Path(path).name, Path(path).read_text(encoding="utf-8"))


def _here(depth: int) -> Where:
    frame = sys._getframe(depth)
    source = _source(frame.f_code.co_filename)
    line = source.text.splitlines()[frame.f_lineno - 1]
    start = len(line) - len(line.lstrip())
    return Where(source, frame.f_lineno, start, frame.f_lineno, len(line))


class Sketch:
    """A builder; every call takes its place from the line it stands on."""

    def __init__(self, name: str = "kernel", target: Target = S60) -> None:
        self.builder = Builder(name, _here(2), target=target)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.builder, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return method(*arguments, where=_here(2), **options)

        return call

    def tree(self) -> Kernel:
        """The tree."""
        return self.builder.finish(_here(2))

    def program(self) -> Program:
        """The program, verified."""
        program = lower(self.builder.finish(_here(2)))
        verify(program)
        return program


def part(*ends: Any) -> Slice:
    """`start:stop`, or `start:stop:step`."""
    return Slice(*ends)


def as_argument(value: Any) -> Any:
    """A numpy array as an argument of its own type; numbers as they are."""
    if not isinstance(value, np.ndarray):
        return value
    dtype: DType = next(d for d in BY_NAME.values() if d.numpy == value.dtype.name)
    return GlobalArray.of(value, dtype)


def run(
    program: Program,
    *arguments: Any,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 1,
    **options: Any,
) -> LaunchResult:
    """Launch on the C machine where there is one, and on the oracle; both must leave the same bits.

    Arrays are changed in place.
    """
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    block = (block,) if isinstance(block, int) else tuple(block)
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    given = [as_argument(a) for a in arguments]
    result = launch(program, given, grid=grid, block=block, engine="oracle", **options)
    if ENGINES.c() is None:
        return result
    wanted = [a.copy() for a in arrays]
    for array, old in zip(arrays, before, strict=True):
        array[...] = old
    fast = launch(program, given, grid=grid, block=block, engine="c", **options)
    for array, other in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(array.view(np.uint8), other.view(np.uint8))
    assert fast.output == result.output
    return fast


def names(program: Program) -> list[str]:
    """The names of a program's instructions, in order."""
    return [INSTRUCTIONS[row[0]].name for row in program.code.tolist()]
