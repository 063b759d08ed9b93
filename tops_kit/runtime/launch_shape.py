"""Grids and blocks of launches, as people write them."""

from __future__ import annotations

import math
import operator
from typing import Any, NoReturn

import numpy as np

from tops_kit.gcu import Specification
from tops_kit.runtime.errors import LaunchError, shown
from tops_kit.runtime.parts import split_threads

_MOST_THREADS = 1 << 24  # as launch_module.c


def shape_of_threads(name: str, threads: Any, part: Specification) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Grid and block of `kernel[threads]`: a number of threads is split over the part's clusters.

    Raises LaunchError.
    """
    if isinstance(threads, tuple) and len(threads) == 1:
        threads = threads[0]  # as Triton's grids are written
    if isinstance(threads, tuple):
        if len(threads) != 2:
            _bad_shape(name, threads)
        grid, block = (_extents(name, extents, threads) for extents in threads)
        return grid, block
    count = _extents(name, threads, threads)
    if len(count) != 1:
        _bad_shape(name, threads)
    blocks, size = split_threads(count[0], part)
    return (blocks,), (size,)


def _extents(name: str, extents: Any, whole: Any) -> tuple[int, ...]:
    out = extents if isinstance(extents, tuple | list) else (extents,)
    if not 1 <= len(out) <= 3:
        _bad_shape(name, whole)
    for extent in out:
        if isinstance(extent, bool | np.bool_):
            _bad_shape(name, whole)
    try:
        counts = tuple(operator.index(extent) for extent in out)
    except TypeError:
        _bad_shape(name, whole)
    if min(counts) < 1:
        _bad_shape(name, whole)
    if math.prod(counts) > _MOST_THREADS:
        raise LaunchError(f"{name}[{shown(whole)}]: a launch has at most {_MOST_THREADS:,} threads")
    return counts


def _bad_shape(name: str, threads: Any) -> NoReturn:
    raise LaunchError(
        f"{name}[{shown(threads)}]: write {name}[threads], or {name}[grid, block] with 1 to 3 positive ints "
        "each"
    )
