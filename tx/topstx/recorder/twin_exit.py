"""How the Python twin learns a process's exit code, which Python tells nobody: through libc alone, after
Python has ended.

libc's `on_exit` calls a C function with the status and a pointer. `fputc` is one such: it puts the status
into a stream, and exit() flushes all streams. Ours are memory streams that lie over exit_known and
exit_status of the names file. So the status gets there in an orderly exit, and in no other end. What is at
those addresses is a page that we map over: the names file while a session is attached (in a fork child, the
child's), nothing otherwise.
"""

from __future__ import annotations

import os

from topstx.recorder import layout

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from typing import Any

    from topstx.recorder.twin_memory import Native

_READ_WRITE = 3
_SHARED, _FIXED, _ANONYMOUS = 0x01, 0x10, 0x20
_LINE_BYTES = 4


class ExitStatus:
    """The page, the streams over it, and the registration with libc.

    One per process, made at its first session.
    """

    def __init__(self, native: Native) -> None:
        """Raises AttributeError where libc has no on_exit, OSError when there is no memory."""
        import ctypes

        self._native = native
        libc = ctypes.CDLL(None)
        put, register, open_memory = libc.fputc, libc.on_exit, libc.fmemopen
        open_memory.restype = ctypes.c_void_p
        open_memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
        put.argtypes = [ctypes.c_int, ctypes.c_void_p]
        register.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        page = native.map(None, layout.PAGE, _READ_WRITE, _SHARED | _ANONYMOUS, -1, 0)
        if page is None or page == native.failed:
            raise OSError(native.errno(), "no page for the exit status")
        self._page: int = page
        known, status = (
            open_memory(page + layout.NAMES_OFFSET[field], _LINE_BYTES, b"r+")
            for field in ("exit_known", "exit_status")
        )
        if not known or not status:
            raise OSError(native.errno(), "no stream for the exit status")
        self._known: Any = known
        self._put = put
        register(ctypes.cast(put, ctypes.c_void_p), status)

    def follow(self, names_path: str | None) -> None:
        """From here on it is this names file's header that gets the status; None: none does."""
        descriptor, flags = -1, _SHARED | _FIXED | _ANONYMOUS
        if names_path is not None:
            try:
                descriptor, flags = os.open(names_path, os.O_RDWR | os.O_CLOEXEC), _SHARED | _FIXED
            except OSError:
                pass  # the folder went away; nobody will read the status
        try:
            self._native.map(self._page, layout.PAGE, _READ_WRITE, flags, descriptor, 0)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def ends(self) -> None:
        """Python ends in order: the status that exit() is given will be the process's."""
        self._put(1, self._known)
