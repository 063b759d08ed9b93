"""Shared file mappings and the identity of the current context, for the Python twin of the recorder.

`mmap.mmap` keeps a duplicate of the file's descriptor: ten thousand threads would use up the program's
descriptors, and a program that closes all descriptors (a daemon) could have one of its own closed by us
later. So libc's mmap is called through `ctypes`; without ctypes the `mmap` module serves.
"""

# `pathlib` is too heavy for `import topstx`, and calls spell out what an annotation is made of.
# ruff: noqa: PTH108

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Cell(Protocol):
        """Something whose item 0 is the present value."""

        def __getitem__(self, index: int, /) -> int: ...


_PROT_READ_WRITE = 3
_MAP_SHARED = 1
_VIEW_READ, _VIEW_WRITE = 0x100, 0x200


class Native:
    """The few C functions that are needed. Raises ImportError or AttributeError where they can't be had.

    The libraries are opened anew, so that setting argument types does not touch the program's
    `ctypes.pythonapi`.
    """

    def __init__(self) -> None:
        import ctypes

        libc, python = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None)
        self.map: Any = libc.mmap
        self.map.restype = ctypes.c_void_p
        # Offsets are 0 throughout, so the width of off_t does not matter.
        integer = ctypes.c_int
        self.map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer, integer, integer, ctypes.c_long]
        self.unmap: Any = libc.munmap
        self.unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.view: Any = python.PyMemoryView_FromMemory
        self.view.restype = ctypes.py_object
        self.view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
        self.thread_state: Any = python.PyThreadState_Get
        self.thread_state.restype = ctypes.c_void_p
        self.thread_state.argtypes = []
        self.object_at: Callable[[int], Any] = lambda address: ctypes.cast(address, ctypes.py_object).value
        self.errno = ctypes.get_errno
        self.failed = ctypes.c_void_p(-1).value


class Memory:
    """Makes mappings: with libc's mmap, or the `mmap` module where there is no ctypes."""

    def __init__(self) -> None:
        self.native: Native | None
        try:
            self.native = Native()
        except (ImportError, AttributeError, TypeError, OSError):
            self.native = None

    def create_file(self, path: str, size: int) -> Mapping:
        """A new file of `size` allocated bytes, mapped.

        Raises OSError (also when it exists); leaves no file behind then.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, size)
            return Mapping(self.native, descriptor, size)
        except BaseException:
            try:
                os.unlink(path)
            except OSError:
                pass  # the folder went away; there is nothing left to clean
            raise
        finally:
            os.close(descriptor)

    def open_file(self, path: str, size: int, *, allocate: bool = True) -> Mapping:
        """An existing file's first `size` bytes, mapped. Raises OSError, also when it is shorter.

        `allocate` makes it as long as that before.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if allocate:
                os.posix_fallocate(descriptor, 0, size)
            elif os.fstat(descriptor).st_size < size:
                raise OSError(errno.EINVAL, "shorter than it must be", path)
            return Mapping(self.native, descriptor, size)
        finally:
            os.close(descriptor)


class Mapping:
    """`size` bytes of a file, mapped shared and writable. Its views die with it: keep it while they are in
    use.

    A single item assigned to `words` is one store of 8 bytes. `struct.pack_into` is not: it clears the place
    first, so it serves for what is published later only.
    """

    __slots__ = ("_address", "_native", "_owner", "bytes", "size", "words")

    def __init__(self, native: Native | None, descriptor: int, size: int) -> None:
        """Map the file behind `descriptor`, which may be closed afterwards. Raises OSError."""
        self.size = size
        self._native = native
        self._address = 0
        if native is None:
            import mmap

            self._owner = mmap.mmap(descriptor, size)
            self.bytes = memoryview(self._owner)
        else:
            address = native.map(None, size, _PROT_READ_WRITE, _MAP_SHARED, descriptor, 0)
            if address is None or address == native.failed:
                code = native.errno()
                raise OSError(code, os.strerror(code))
            self._address = address
            self.bytes = native.view(address, size, _VIEW_WRITE)
        self.words: memoryview = self.bytes.cast("Q")

    def __del__(self) -> None:
        address, native = getattr(self, "_address", 0), getattr(self, "_native", None)
        if address and native is not None:
            self._address = 0
            native.unmap(address, self.size)


class ContextFinder:
    """Finds where CPython keeps a thread's current `contextvars.Context`, so that tasks can be told apart
    cheaply.

    Python has no call that says which context is current. The interpreter keeps the pointer in the thread's
    state; its place there is found by entering two contexts and looking for their addresses. Where that fails
    (another interpreter, no ctypes) the current asyncio task stands in for the context.
    """

    def __init__(self, native: Native | None) -> None:
        self._native = native
        self._offset = -1 if native is None else self._find(native)

    @staticmethod
    def _find(native: Native) -> int:
        """Byte offset of the pointer in PyThreadState, or -1."""
        try:
            from _contextvars import Context

            words = native.view(native.thread_state(), 512, _VIEW_READ).cast("N")
        except (ImportError, TypeError, ValueError):
            return -1
        found = set(range(len(words)))
        for context in (Context(), Context()):
            wanted = id(context)
            found &= {place for place in found if context.run(words.__getitem__, place) == wanted}
            found -= {place for place in found if words[place] == wanted}
        return found.pop() * int(words.itemsize) if len(found) == 1 else -1

    def for_this_thread(self) -> Cell:
        """A cell that holds the identity of the calling thread's current context (0:

        None). Good in this thread only.
        """
        if self._native is None or self._offset < 0:
            return _TaskCell()
        cell: Cell = self._native.view(self._native.thread_state() + self._offset, 8, _VIEW_READ).cast("N")
        return cell

    def entered(self, identity: int) -> bool:
        """Whether the current context, of that identity, was entered by someone (a task, `Context.run`)."""
        if self._native is None or self._offset < 0:
            return True
        try:
            self._native.object_at(identity).run(int)
        except RuntimeError:  # a context can be entered only once at a time
            return True
        return False


class _TaskCell:
    """The identity of the running asyncio task, 0 outside of one."""

    def __getitem__(self, index: int, /) -> int:
        asyncio = sys.modules.get("asyncio")
        if asyncio is None or asyncio._get_running_loop() is None:
            return 0
        task = asyncio.current_task()
        return 0 if task is None else id(task)
