"""Python processes of our own, started from whatever folder the user works in, with whatever PYTHONPATH.

A module of the user's there (a json.py, a numpy.py) stands in for none of ours, of Python's or of the
libraries': such a process is started without PYTHONPATH, and puts its folders last (see own_path).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import tops_kit

ROOTS = "TOPSKIT_OWN_PATH"
"""Variable of such a process at its start: the folders that hold our packages."""
USERS_PATH = "TOPSKIT_USERS_PYTHONPATH"
"""The same: what PYTHONPATH was. It is set again before the module runs, for what the process starts."""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of ours, in `environment`."""
    start = Path(tops_kit.__file__ or "").absolute().with_name("own_start.py")
    return [sys.executable, "-P", str(start), module, *arguments]


def environment(*packages: str | None, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`base` for such a process, which finds tops_kit where this process found it, and likewise `packages`
    (the `__file__` of each).
    """
    roots = dict.fromkeys(str(Path(file).absolute().parent.parent) for file in packages if file)
    result = {**base, ROOTS: os.pathsep.join(roots)}
    users = result.pop("PYTHONPATH", None)
    if users is not None:
        result[USERS_PATH] = users
    return result
