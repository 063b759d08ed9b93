"""Python processes of our own, started from whatever folder the user works in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import tops_kit


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of ours.

    A module of the user's in the working folder (a numpy.py, say) stands in for none of ours or of the
    library: Python puts that folder first for `-m`, unless told not to.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(*packages: str | None, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`base` for such a process and for what it starts: they find tops_kit where this process found it, and
    likewise `packages` (the `__file__` of each).
    """
    files = [file for file in (tops_kit.__file__, *packages) if file]
    roots = dict.fromkeys(str(Path(file).absolute().parent.parent) for file in files)
    path = os.pathsep.join([*roots, *filter(None, [base.get("PYTHONPATH")])])
    return {**base, "PYTHONSAFEPATH": "1", "PYTHONPATH": path}
