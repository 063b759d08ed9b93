"""How the time of a recording with a device divides, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_PARTS: Final = ("host", "waiting", "simulator", "profiler")
_NEEDED: Final = frozenset({"mode", "wall_ns", "host_ns", "waiting_ns", "simulator_ns"})


def is_division(value: object) -> bool:
    """Whether it is the attribute `time` of a recording."""
    return isinstance(value, dict) and set(value) >= _NEEDED


def division(time: dict[str, Any], length: Callable[[int], str]) -> str:
    """`wall = host + waiting + ...`, with the clock; `length` writes ns."""
    parts = [f"{length(time[f'{name}_ns'])} {name}" for name in _PARTS if f"{name}_ns" in time]
    mode = time["mode"] if not time.get("order") else f"{time['mode']}, order {time['order']}"
    return f"{length(time['wall_ns'])} = {' + '.join(parts)} ({mode} clock)"
