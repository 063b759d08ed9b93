"""Calls of the operating system are recorded by a library in LD_PRELOAD, in programs of any language.

The library (`_osrt.c`) writes the records of topstx.h into the session. It is a plain shared library; the
wheel has it where a compiler was at hand, and `build` makes it elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "LD_PRELOAD"
THRESHOLD_VARIABLE = "TOPSTX_OSRT_THRESHOLD_NS"
THRESHOLD_NS = 1000
"""Shorter calls are counted only, unless it is said otherwise."""
SOURCES = (
    "_osrt.c",
    "osrt_files.h",
    "osrt_memory.h",
    "osrt_processes.h",
    "osrt_real.h",
    "osrt_record.h",
    "osrt_targets.h",
    "osrt_waits.h",
)

_HERE = Path(__file__).resolve().parent
_STAMP = b"topstx _osrt interface 1;"  # in the library's file; _osrt.c says when to raise the number
_ASAN = (
    "verify_asan_link_order=0"  # else the address sanitizer ends its programs: it wants to be first
)


def library_path() -> str | None:
    """The library's absolute path, or None where it was not built, or from other sources than lie here.

    It needs no Python: any build serves.
    """
    return next((str(path) for path in sorted(_HERE.glob("_osrt.*so")) if _STAMP in path.read_bytes()), None)


def problem() -> str:
    """Why it can't be loaded into programs; "" when it can."""
    path = library_path()
    if path is not None:
        if any(mark in path for mark in " :\t\n"):
            return f"{path} has a blank or a colon, which no path in LD_PRELOAD may have"
        return ""
    if any(_HERE.glob("_osrt.*so")):
        return "_osrt was built from other sources: pip install -e . again"
    return "not built: no C compiler when this was installed"


def environment(base: Mapping[str, str], library: str, *, threshold_ns: int = THRESHOLD_NS) -> dict[str, str]:
    """The variables that load `library` into programs, behind what `base` (their environment) preloads."""
    before = [word for word in base.get(VARIABLE, "").replace(":", " ").split() if word != library]
    result = {VARIABLE: ":".join([*before, library]), THRESHOLD_VARIABLE: str(threshold_ns)}
    sanitizer = base.get("ASAN_OPTIONS", "")
    if "verify_asan_link_order" not in sanitizer:
        result["ASAN_OPTIONS"] = f"{sanitizer}:{_ASAN}" if sanitizer else _ASAN
    return result


def build(folder: str | Path, compiler: str | None = None) -> str:
    """Compile the library into `folder` and return its path. Raises OSError or subprocess.CalledProcessError.

    `compiler` is a command, with options if need be; None takes CC, or `cc`.
    """
    import shlex
    import subprocess

    target = Path(folder) / "_osrt.so"
    command = shlex.split(compiler or os.environ.get("CC") or "cc")
    flags = ["-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete", "-pthread"]
    include = f"-I{_HERE.parent / 'recorder' / 'include'}"
    subprocess.run([*command, *flags, include, str(_HERE / "_osrt.c"), "-o", str(target), "-ldl"], check=True)
    return str(target)
