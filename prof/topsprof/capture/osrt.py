"""Recording calls of the operating system: the library to preload, and programs that it can't enter."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from topstx import osrt_injection

from tops_kit.errors import UserError
from topsprof.capture.options import RecordOptions
from topsprof.capture.program import Program
from topsprof.capture.unrecorded import Reason

UNHOOKED: Final = "osrt_not_loaded"
"""Code of programs whose calls of the operating system can't be recorded."""

_ELF: Final = b"\x7fELF"
_PT_INTERP: Final = 3
_MOST_PARTS: Final = 128


class Preload:
    """What -t osrt needs for one program: variables of its environment, and what is in the way."""

    def __init__(self, program: Program, options: RecordOptions) -> None:
        """Raises UserError where osrt is asked for and the library is missing."""
        self.obstacle: Reason | None = None
        self._library: str | None = None
        self._threshold_ns = options.osrt_threshold_ns
        if "osrt" not in options.traces:
            return
        problem = osrt_injection.problem()
        if problem:
            raise UserError(f"-t osrt: the library that records calls of the system can't be used: {problem}")
        why = obstacle(program.executable)
        if why:
            note = f"{program.executable} {why}: its calls of the operating system are not recorded"
            self.obstacle = Reason(UNHOOKED, note)
        self._library = osrt_injection.library_path()

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables to add to the program's; what it starts inherits them."""
        if self._library is None:
            return {}
        return osrt_injection.environment(environ, self._library, threshold_ns=self._threshold_ns)


def obstacle(path: str, *, depth: int = 0) -> str:
    """Why no library can be loaded into the program in this file; "" where nothing speaks against it."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(64)
            if head[:2] == b"#!" and not depth:
                file.seek(2)
                words = os.fsdecode(file.readline(512)).split()
                return obstacle(words[0], depth=1) if words else ""
            if head[:4] != _ELF or len(head) < 64:
                return ""
            if head[4] != struct.calcsize("P") // 4:
                return "is built for another word size"
            begin, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            file.seek(begin)
            data = file.read(size * min(count, _MOST_PARTS))
            kinds = [struct.unpack_from("<I", data, at)[0] for at in range(0, len(data) - 3, size or 56)]
            mode = os.fstat(file.fileno())
    except (OSError, struct.error):
        return ""
    if _PT_INTERP not in kinds:
        return "is linked statically"
    if (mode.st_mode & stat.S_ISUID and mode.st_uid != os.geteuid()) or (
        mode.st_mode & stat.S_ISGID and mode.st_gid != os.getegid()
    ):
        return "runs as another user"
    return ""
