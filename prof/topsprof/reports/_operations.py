"""How device operations other than kernels are called in reports, for groupings and for SQL."""

from __future__ import annotations

from collections.abc import Sequence

from topsprof.reports.model import Source

_SPELLED = {
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "DtoD": "Device-to-Device",
    "PtoP": "Peer-to-Peer",
    "HtoH": "Host-to-Host",
}


def memcpy_label(keys: Sequence[object]) -> tuple[object, ...]:
    """("HtoD",) -> ("[memcpy Host-to-Device]",)"""
    kind = keys[0]
    return (f"[memcpy {_SPELLED.get(str(kind), kind)}]" if kind else "[memcpy]",)


def memset_label(keys: Sequence[object]) -> tuple[object, ...]:
    """("Device",) -> ("[memset Device]",)"""
    return (f"[memset {keys[0]}]" if keys[0] else "[memset]",)


MEMCPY = Source("memcpy", ("copy_kind",), memcpy_label)
MEMSET = Source("memset", ("memory_kind",), memset_label)

_CASES = " ".join(f"WHEN '{short}' THEN '{spelled}'" for short, spelled in _SPELLED.items())
MEMCPY_SQL = (
    f"'[memcpy' || coalesce(' ' || CASE copy_kind {_CASES} ELSE nullif(copy_kind, '') END, '') || ']'"
)
MEMSET_SQL = "'[memset' || coalesce(' ' || nullif(memory_kind, ''), '') || ']'"
