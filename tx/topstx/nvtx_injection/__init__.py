"""Programs that are annotated with NVTX (the Python package `nvtx`, or any C program) are recorded unchanged.

NVTX version 3 loads, at its first call, the library that NVTX_INJECTION64_PATH names. Ours (`_nvtx.c`) writes
the records of topstx.h into the session. It is a plain shared library; the wheel has it where a compiler was
at hand, and `build` makes it elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "NVTX_INJECTION64_PATH"
_HERE = Path(__file__).resolve().parent


_STAMP = b"topstx _nvtx interface 1;"  # in the library's file; _nvtx.c says when to raise the number


def library_path() -> str | None:
    """The library's absolute path, or None where it was not built, or from other sources than lie here.

    It needs no Python: any build serves.
    """
    return next((str(path) for path in sorted(_HERE.glob("_nvtx.*so")) if _STAMP in path.read_bytes()), None)


def problem() -> str:
    """Why there is no library; "" when there is."""
    if library_path() is not None:
        return ""
    if any(_HERE.glob("_nvtx.*so")):
        return "_nvtx was built from other sources: pip install -e . again"
    return "not built: no C compiler when this was installed"


def environment(session: str | Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that record a program's NVTX calls into the session folder `session`.

    Empty without a library, and where `base` (the program's environment) names another tool: that one stays.
    """
    path = library_path()
    if path is None or (base or {}).get(VARIABLE, path) != path:
        return {}
    return {VARIABLE: path, "TOPSTX_SESSION": str(Path(session).absolute())}


def build(folder: str | Path, compiler: str | None = None) -> str:
    """Compile the library into `folder` and return its path. Raises OSError or subprocess.CalledProcessError.

    `compiler` is a command, with options if need be; None takes CC, or `cc`.
    """
    import shlex
    import subprocess

    target = Path(folder) / "_nvtx.so"
    command = shlex.split(compiler or os.environ.get("CC") or "cc")
    flags = ["-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete", "-pthread"]
    include = f"-I{_HERE.parent / 'recorder' / 'include'}"
    subprocess.run([*command, *flags, include, str(_HERE / "_nvtx.c"), "-o", str(target)], check=True)
    return str(target)
