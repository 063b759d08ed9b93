"""The cost model in Python: what timing*.c does, with the same numbers to the bit.

It serves where there is no C compiler, and the tests compare both. The model stands in timing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.timing_parameters import Parameters
from tops_kit.engine.timing_result import TimingResult
from tops_kit.engine.timing_twin.model import Model


def replay(
    parameters: Parameters,
    flags: npt.NDArray[np.uint8],
    keys: int,
    traces: Sequence[npt.NDArray[Any]],
    block_threads: int,
    *,
    intervals: bool = False,
) -> TimingResult:
    """As timing.replay."""
    if block_threads > parameters.sips_per_cluster:
        raise ValueError(f"a block of {block_threads} threads: the part can't hold it")
    return Model(parameters, flags, keys, traces, block_threads, record=intervals).run()


def clock(parameters: Parameters, flags: npt.NDArray[np.uint8], keys: int, events: npt.NDArray[Any]) -> int:
    """Cycles from a thread's start to behind its last event, as if it were alone on the part."""
    return Model(parameters, flags, keys, [events], 1, record=False).clock()
