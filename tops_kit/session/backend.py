"""Which implementation of the passes over rows is used: the C extension, or its twin where there is none."""

from __future__ import annotations

import importlib
import os
from typing import Any

from tops_kit.session import _lanes_py


def backend() -> Any:
    """The module `_lanes`, or `_lanes_py` without it, or with TOPSKIT_PURE=1 in the environment."""
    if os.environ.get("TOPSKIT_PURE") == "1":
        return _lanes_py
    try:
        return importlib.import_module("tops_kit.session._lanes")
    except ImportError:
        return _lanes_py


def backend_name() -> str:
    """`C` or `twin`."""
    return "twin" if backend() is _lanes_py else "C"
