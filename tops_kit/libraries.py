"""Libraries that can't be loaded (missing, broken, no memory for them), told in one line."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final

from tops_kit.errors import UserError

LIBRARIES: Final = ("numpy", "pyarrow", "pandas", "duckdb")
"""Those that we stand on: their names as packages, and as distributions."""

_REASON_CHARACTERS: Final = 200
_SCARCE_BYTES: Final = 4 << 30
_HEADROOM_BYTES: Final = 64 << 20
_TRIAL_S: Final = 60
_TRIAL: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; room = bytearray(int(sys.argv[1])); import numpy, pyarrow"
)


class LibraryError(UserError):
    """A library can't be loaded."""


def problem(error: BaseException) -> str | None:
    """One line on a library that could not be loaded, where that is what `error` comes from; else None.

    Faults of our own are none of these: an ImportError of a module of ours, or of a name that a sound library
    doesn't have.
    """
    for cause in reversed(list(_causes(error))):
        library = _failed(cause)
        if library is not None:
            return _line(library, cause)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _failed(error: BaseException) -> str | None:
    """The library that was being loaded when `error` was raised, or that isn't what its name says."""
    trace, library = error.__traceback__, None
    while trace is not None:
        library = _loading(trace.tb_frame) or library
        trace = trace.tb_next
    if library is not None:
        return library
    if isinstance(error, SyntaxError) and error.filename:
        return next(filter(None, map(_library, Path(error.filename).with_suffix("").parts)), None)
    if isinstance(error, ImportError):
        library = _library(error.name)
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        library = _library(error.obj.__name__)
    return None if library is None or _sound(library) else library


def _loading(frame: FrameType) -> str | None:
    """The library that this frame loads, or a part of which it is while it is loaded (not while it runs)."""
    code = frame.f_code
    if code.co_name == "<module>":
        return _library(frame.f_globals.get("__name__"))
    if code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib"):
        return _library(frame.f_locals.get("name"))
    return None


def _library(module: object) -> str | None:
    top = module.partition(".")[0] if isinstance(module, str) else ""
    return top if top in LIBRARIES else None


def _sound(library: str) -> bool:
    """Whether it is loaded, and is what its name says: no file of the user's, no folder that was left."""
    return hasattr(sys.modules.get(library), "__version__")


def _line(library: str, error: BaseException) -> str:
    loaded = sys.modules.get(library)
    if loaded is not None and not _sound(library):
        place = getattr(loaded, "__file__", None) or ", ".join(getattr(loaded, "__path__", ()))
        return f"'{place}' stands in for the library {library}: rename it, or install {library} again"
    pip = f"{sys.executable} -m pip install"
    if isinstance(error, ModuleNotFoundError) and _library(error.name) == library == error.name:
        return f"the library {library} is not installed: {pip} {library}"
    reason = _reason(error)
    if _short_of_memory(error):
        return f"the library {library} can't be loaded ({reason}): {memory_advice()}"
    return f"the library {library} can't be loaded ({reason}): {pip} --force-reinstall {library}"


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no reason given"
    if not isinstance(error, ImportError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}..."


def _short_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    text = str(error)
    return "failed to map segment" in text or "annot allocate memory" in text or memory_limit() is not None


def memory_limit() -> int | None:
    """How much memory this process may have, in bytes, where a limit of the shell is low (`ulimit`)."""
    try:
        import resource
    except ImportError:
        return None  # Windows has none
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    scarce = [limit for limit in limits if limit != resource.RLIM_INFINITY and limit < _SCARCE_BYTES]
    return min(scarce, default=None)


def memory_advice() -> str:
    """What to do where memory is short."""
    limit = memory_limit()
    if limit is None:
        return "there is not enough memory: free some"
    return f"this process may have {limit >> 20} MB: raise the limit (ulimit -v, ulimit -d)"


def watch() -> None:
    """Where little memory is allowed, see that libraries are tried out before they are loaded: without the
    memory that they want some end the process, with no exception.
    """
    if memory_limit() is not None and not any(isinstance(finder, _Trial) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Trial())


class _Trial:
    """Loads the libraries in a process of their own when the first is asked for. If that fails, none is."""

    def __init__(self) -> None:
        self._outcome: str | None = None

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The import system asks. LibraryError when they can't be loaded."""
        if name not in LIBRARIES:
            return None
        if self._outcome is None:
            # We calculate nothing with it, and each of its threads reserves memory.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            self._outcome = _try_out()
        if self._outcome:
            raise LibraryError(
                f"the libraries numpy and pyarrow can't be loaded ({self._outcome}): {memory_advice()}"
            )
        return None


def _try_out() -> str:
    """Why the libraries can't be loaded, or nothing."""
    import subprocess

    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _TRIAL, str(_HEADROOM_BYTES), *sys.path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
            env=environ,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").splitlines()
    return next(filter(None, map(str.strip, reversed(lines))), f"it ended with {done.returncode}")
