"""Which implementation of the passes over rows is used: the C extension, or its twin where there is none."""

from __future__ import annotations

from typing import Any

from tops_kit import extension
from tops_kit.session import _lanes_py

_INTERFACE = 1  # of _lanes.c, which says when to raise it


def backend() -> Any:
    """The module `_lanes`, or `_lanes_py` without it, or with TOPSKIT_PURE=1 in the environment."""
    return extension.load("tops_kit.session._lanes", _INTERFACE)[0] or _lanes_py


def problem() -> str:
    """Why the passes are not those in C; "" when they are."""
    return extension.load("tops_kit.session._lanes", _INTERFACE)[1]


def backend_name() -> str:
    """`C` or `twin`."""
    return "twin" if backend() is _lanes_py else "C"
