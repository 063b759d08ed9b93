"""Types of buffers and arrays that the collector's modules share."""

from __future__ import annotations

import mmap
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Int64: TypeAlias = npt.NDArray[np.int64]
Buffer: TypeAlias = mmap.mmap | bytearray | memoryview
