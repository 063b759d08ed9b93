"""Fixtures for the kernel engine: its C machine, and launches of assembled programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.engine import tiles_calls
from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.launch import ENGINES, GlobalArray, LaunchResult, launch
from tops_kit.isa.dtypes import BY_NAME, DType
from tops_kit.isa.program import Program

Launch = Callable[..., LaunchResult]


@pytest.fixture(scope="session")
def c_engine() -> CEngine:
    """The C machine; skips where it isn't built."""
    engine = ENGINES.c()
    if engine is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")
    return engine


@pytest.fixture(params=["c", "oracle"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that launches on this machine."""
    if request.param == "c":
        request.getfixturevalue("c_engine")
    return str(request.param)


def as_argument(value: Any) -> Any:
    """A numpy array as an argument of its own type; numbers as they are."""
    if not isinstance(value, np.ndarray):
        return value
    dtype: DType = next(d for d in BY_NAME.values() if d.numpy == value.dtype.name)
    return GlobalArray.of(value, dtype)


@pytest.fixture
def run(c_engine: CEngine) -> Launch:
    """`run(program, *arguments, grid=1, block=1, **options)`: a launch on the C machine, arrays of numpy."""

    def run_program(
        program: Program,
        *arguments: Any,
        grid: int | tuple[int, ...] = 1,
        block: int | tuple[int, ...] = 1,
        **options: Any,
    ) -> LaunchResult:
        return launch(
            program,
            [as_argument(a) for a in arguments],
            grid=_tuple(grid),
            block=_tuple(block),
            engine="c",
            **options,
        )

    return run_program


def _tuple(extents: int | Sequence[int]) -> tuple[int, ...]:
    return (extents,) if isinstance(extents, int) else tuple(extents)


@pytest.fixture(scope="session")
def tile_library() -> Any:
    """The tile library in C, by calls that the engine's module has for tests; skips where it isn't built."""
    module, why_not = tiles_calls.module()
    if module is None:
        pytest.skip(why_not)
    path = module.tile_path()
    yield module
    module.tile_path(path)
