"""Call stacks of runtime calls, as numbers: a frame with all its callers is told once."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from topstx.recorder import rows
from topstx.recorder.rows import RowWriter

from tops_kit.runtime.callers import first_of_program, is_ours

_MOST = 1 << 20  # then numbers begin anew at no frame: a program that makes code without end fills no memory


class Stacks:
    """Numbers of the stacks of one process; new frames are written as rows. Not for several threads at once,
    but by the GIL: two may tell the same frame, under two numbers.
    """

    def __init__(self, writer: RowWriter, depth: int) -> None:
        self._writer = writer
        self._depth = depth
        self._known: dict[tuple[int, CodeType, int], int] = {}
        self._kind = rows.KINDS[rows.KIND_BACKTRACE]

    def here(self) -> int:
        """The number of the program's stack that called us; 0: there is none."""
        frames: list[tuple[CodeType, int]] = []
        frame: FrameType | None = first_of_program(sys._getframe(1))
        while frame is not None and len(frames) < self._depth:
            if not is_ours(frame.f_code):
                frames.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        number = 0
        for code, line in reversed(frames):
            known = self._known.get((number, code, line))
            number = known if known is not None else self._new(number, code, line)
        return number

    def _new(self, parent: int, code: CodeType, line: int) -> int:
        number = len(self._known) + 1
        if number > _MOST:
            return parent
        self._known[parent, code, line] = number
        writer = self._writer
        body = self._kind.body.pack(number, parent, writer.intern(code.co_filename), line)
        writer.write(self._kind.number, 0, 0, code.co_qualname, body)
        return number
