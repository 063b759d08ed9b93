"""Errors that this machine is the cause of, told in one line: a library that can't be loaded, no memory, a
full disk. What else goes wrong is a fault of ours, and is shown with its traceback.
"""

from __future__ import annotations

from tops_kit import libraries


def explained(error: BaseException) -> str | None:
    """One line (what, where, what to do) on an error of this machine; None for any other."""
    library = libraries.problem(error)
    if library is not None:
        return library
    if isinstance(error, MemoryError):
        return f"out of memory ({str(error) or 'none is left'}): {libraries.memory_advice()}"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "no thread can be started: raise the limits of memory or processes (ulimit -v, ulimit -u)"
    if isinstance(error, OSError):  # a full disk, a folder without permission: the system says what and where
        place = f"'{error.filename}': " if error.filename is not None else ""
        return f"{place}{error.strerror or error}"
    return None
