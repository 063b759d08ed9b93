"""Sampling the memory of Python programs: how it begins and ends; see crec_memory.h, which does it.

Only the C extension does: a function in Python can't stand before the allocators.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any, Final

    from topstx.recorder.interface import Backend

VARIABLE: Final = "TOPSTX_PYTHON_MEMORY"
"""The environment variable that asks for it: `MemoryOptions.text`."""

RATE_BYTES: Final = 512 << 10
"""One sample in so many bytes."""

_NUMPY: Final = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
_NUMPY_DEFAULT_HANDLER: Final = 306  # its place in numpy's C interface


class MemoryOptions:
    """How memory is sampled: one sample in `rate_bytes` bytes on average (1: each allocation). The same
    `seed` gives the same samples to a program that allocates the same; 0: another one each time.
    """

    __slots__ = ("rate_bytes", "seed")

    def __init__(self, rate_bytes: int = RATE_BYTES, seed: int = 0) -> None:
        self.rate_bytes, self.seed = rate_bytes, seed

    @property
    def text(self) -> str:
        """The value of VARIABLE."""
        return f"{self.rate_bytes} {self.seed}"

    @classmethod
    def of_text(cls, text: str) -> MemoryOptions:
        """The options that `text` gave. Raises ValueError."""
        rate_bytes, seed = text.split()
        return cls(int(rate_bytes), int(seed))


class Follower:
    """Samples while its process is in a session; see `topstx.on_session`."""

    def __init__(self, backend: Backend, text: str) -> None:
        self._backend = backend
        self._text = text
        self._begun = False

    def __call__(self, folder: str | None) -> None:
        """The process entered the session in `folder`, or (None) leaves it."""
        if folder is None:
            self.end()
            return
        import atexit

        try:
            options = MemoryOptions.of_text(self._text)
            seed = options.seed
            if not seed:
                import os

                seed = int.from_bytes(os.urandom(8), "little")
            self._backend.trace_memory(options.rate_bytes, seed)
        except (RuntimeError, ValueError) as error:
            self._note(str(error))
            return
        self._begun = True
        self._follow_numpy()
        # What is released from here on, by Python as it ends, was in use until the end.
        atexit.unregister(self.end)
        atexit.register(self.end)

    def end(self) -> None:
        """No more samples."""
        if not self._begun:
            return
        self._begun = False
        displaced, lost = self._backend.untrace_memory()
        if displaced:
            self._note("another tool removed us from Python's allocators: what followed is missing")
        elif lost:
            self._note(f"{lost} samples or releases of memory could not be kept")

    def _note(self, problem: str) -> None:
        self._backend.process_entry("python_memory", problem)

    def _follow_numpy(self) -> None:
        for name in _NUMPY:
            if name in sys.modules:
                self._numpy(sys.modules[name])
                return
        sys.meta_path.insert(0, _NumpyFinder(self._numpy))

    def _numpy(self, module: object) -> None:
        """See the memory of numpy's arrays."""
        try:
            seen = self._backend.trace_numpy(module)
        except (AttributeError, TypeError, ValueError):
            seen = False
        if not seen:
            self._note("memory of numpy's arrays is not seen: this version of it is not known")


class _NumpyFinder:
    """Waits for numpy to be imported, and tells of it."""

    def __init__(self, found: Callable[[object], None]) -> None:
        self._found = found

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The import system asks for `name`: None for all but numpy's module in C, which others find."""
        if name not in _NUMPY:
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader: Any = spec.loader
        execute, found = loader.exec_module, self._found

        def exec_module(module: Any) -> None:
            execute(module)
            found(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader that takes none: its arrays are not seen
            pass
        return spec
