"""The columns of a batch of scanned events, as _scan.c and scan_twin.py fill them and scan.py reads them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

ABSENT, GIVEN, WRONG = 0, 1, 2
"""ts_state and dur_state: not there, right, there but not a time"""
NONE, NUMBER, STRING = 0, 1, 2
"""pid_kind and tid_kind: what the value is; id_kind has these, plus LOCAL or GLOBAL when it came from id2"""
LOCAL, GLOBAL = 2, 4

EVENT: Final[dict[str, type[np.generic[Any]]]] = {
    "ph": np.uint8,
    "ts_state": np.uint8,
    "dur_state": np.uint8,
    "pid_kind": np.uint8,
    "tid_kind": np.uint8,
    "id_kind": np.uint8,
    "bp": np.uint8,
    "s": np.uint8,
    "ts": np.int64,
    "dur": np.int64,
    "pid": np.int64,
    "tid": np.int64,
    "id": np.int64,
    "name": np.int32,
    "cat": np.int32,
    "scope": np.int32,
}
"""A value for every event."""
REST: Final[dict[str, type[np.generic[Any]]]] = {"rest_rows": np.uint32, "rest_ends": np.int64}
"""Events with args that are no wanted key: their row, and where the text of each ends in `rest`."""
SERIES: Final[dict[str, type[np.generic[Any]]]] = {
    "series_rows": np.uint32,
    "series_keys": np.int32,
    "series_values": np.float64,
}
"""Values of counters."""
