"""The environment that makes a program record itself: variables only, nothing of the program is changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from topstx.recorder import calls as python_calls
from topstx.recorder import memory as python_memory

import topsprof.capture
from topsprof.capture import extensions

INJECTION = Path(topsprof.capture.__file__).parent / "injection"
"""The folder that is put in front of PYTHONPATH; it holds only a sitecustomize."""


def environment(
    session: Path,
    environ: Mapping[str, str] = os.environ,
    *,
    calls: python_calls.CallOptions | None = None,
    osrt: Mapping[str, str] | None = None,
    memory: python_memory.MemoryOptions | None = None,
) -> dict[str, str]:
    """`environ` for a program that records into the folder `session`.

    TOPSTX_SESSION        the session, for topstx in any language
    PYTHONPATH            begins with INJECTION, whose sitecustomize attaches the recorder and steps aside
    TOPSTX_INJECTED_ROOT  where that sitecustomize finds topstx for a Python that has none
    TOPSTX_EXTENSIONS     where it finds the recorder built for other Python versions
    TOPSTX_PYTHON_CALLS   what calls of Python functions to record, if any
    TOPSTX_PYTHON_MEMORY  how to sample their memory, if at all
    NVTX_INJECTION64_PATH makes programs annotated with NVTX record, unless the user set it

    `osrt`: more of them, that make any program record its calls of the operating system.

    They stay set in the program, because its children have to be recorded as well.
    """
    result = dict(environ)
    injection = str(INJECTION)
    others = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry != injection]
    result["PYTHONPATH"] = os.pathsep.join([injection, *others]) if any(others) else injection
    result["TOPSTX_SESSION"] = str(session.absolute())
    result["TOPSTX_INJECTED_ROOT"] = str(extensions.topstx_root())
    result["TOPSTX_EXTENSIONS"] = str(extensions.cache_folder(environ))
    for variable, options in ((python_calls.VARIABLE, calls), (python_memory.VARIABLE, memory)):
        result.pop(variable, None)
        if options is not None:
            result[variable] = options.text
    library = nvtx_library()
    if library is not None and not environ.get("NVTX_INJECTION64_PATH"):
        result["NVTX_INJECTION64_PATH"] = library
    return result | dict(osrt or {})


def nvtx_library() -> str | None:
    """The library that NVTX loads into annotated programs, or None where this installation has none."""
    try:
        from topstx import nvtx_injection
    except ImportError:
        return None
    path = nvtx_injection.library_path()
    return None if path is None else str(path)
