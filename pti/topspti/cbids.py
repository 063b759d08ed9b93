"""Callback ids under the vendor's spelling: `cbids.TOPSPTI_RUNTIME_TRACE_CBID_topsMalloc`."""

from __future__ import annotations

from typing import Final

from tops_kit.runtime.api_table import DRIVER_IDS, RUNTIME_IDS
from topspti.errors import PtiError, shown

RUNTIME: Final = "TOPSPTI_RUNTIME_TRACE_CBID_"
DRIVER: Final = "TOPSPTI_DRIVER_TRACE_CBID_"
ALL: Final = {
    **{RUNTIME + name: number for name, number in RUNTIME_IDS.items()},
    **{DRIVER + name: number for name, number in DRIVER_IDS.items()},
}


def cbid(name: str) -> int:
    """The callback id of a runtime API: cbid("topsMalloc"). Raises PtiError: there is no such API."""
    if not isinstance(name, str) or name not in RUNTIME_IDS:
        raise PtiError(f"no runtime API {shown(name)}: topspti.cbids.ALL has them all")
    return RUNTIME_IDS[name]


def __getattr__(name: str) -> int:
    if name in ALL:
        return ALL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *ALL])
