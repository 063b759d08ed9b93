"""Programs that are annotated with NVTX (the Python package `nvtx`, or any C program) are recorded unchanged.

NVTX version 3 loads, at its first call, the library that NVTX_INJECTION64_PATH names. Ours (`_nvtx.c`) writes the records of
topstx.h into the session. It is a plain shared library; it is shipped with the wheel where a compiler built it, and `build`
makes it elsewhere.
"""

from __future__ import annotations

import os

_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCE = os.path.join(_HERE, "_nvtx.c")
VARIABLE = "NVTX_INJECTION64_PATH"


def library_path() -> str | None:
    """The library's absolute path, or None where it was not built. Any build serves: it does not depend on a Python."""
    try:
        names = sorted(os.listdir(_HERE))
    except OSError:
        return None
    found = [name for name in names if name.startswith("_nvtx.") and name.endswith(".so")]
    return os.path.join(_HERE, found[0]) if found else None


def environment(session: str, base: dict[str, str] | None = None) -> dict[str, str]:
    """The variables that record a program's NVTX calls into the session folder `session` (absolute).

    Empty where there is no library, and where `base` (the program's environment) names a tool of its own: that one stays.
    """
    path = library_path()
    if path is None or (base or {}).get(VARIABLE, path) != path:
        return {}
    return {VARIABLE: path, "TOPSTX_SESSION": session}


def build(folder: str, compiler: str | None = None) -> str:
    """Compile the library into `folder` and return its path. Raises OSError or subprocess.CalledProcessError."""
    import shlex
    import subprocess

    target = os.path.join(folder, "_nvtx.so")
    include = os.path.join(os.path.dirname(_HERE), "recorder", "include")
    command = shlex.split(compiler or os.environ.get("CC") or "cc")
    flags = ["-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete", "-pthread"]
    subprocess.run([*command, *flags, f"-I{include}", _SOURCE, "-o", target], check=True)
    return target
