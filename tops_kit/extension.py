"""Loading a C extension, or saying why its twin in Python serves.

Each C module exports the number INTERFACE, which its Python side repeats. A module that was built from other
sources than lie here (a checkout moved on, and was not installed again) has another number, and is not used:
its twin does the same, slower.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def flag(name: str) -> bool:
    """Whether the environment variable is set to something other than nothing and "0"."""
    return os.environ.get(name, "") not in ("", "0")


def load(name: str, interface: int, *, pure: bool | None = None) -> tuple[ModuleType | None, str]:
    """The extension module `name`, else None and the reason in words.

    `pure` asks for the twin; None: as the environment (TOPSKIT_PURE) says. Raises ImportError where an
    extension is missing or stale under TOPSKIT_REQUIRE_C.
    """
    if flag("TOPSKIT_PURE") if pure is None else pure:
        return None, "TOPSKIT_PURE is set"
    try:
        module = importlib.import_module(name)
        if getattr(module, "INTERFACE", 0) != interface:
            part = name.rpartition(".")[2]
            raise ImportError(f"{part} was built from other sources: pip install -e . again")
    except ModuleNotFoundError as error:
        if flag("TOPSKIT_REQUIRE_C"):
            raise
        if error.name != name:
            return None, str(error)
        return None, "not built: no C compiler when this was installed"
    except ImportError as error:
        if flag("TOPSKIT_REQUIRE_C"):
            raise
        return None, str(error)
    return module, ""
