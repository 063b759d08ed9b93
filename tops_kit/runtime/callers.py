"""Where in the program a call comes from: the first frame that is not ours."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

import topstx

_OURS = tuple(str(Path(file).parent) + "/" for file in (Path(__file__).parent, topstx.__file__))


class _Known:
    """Whether code is ours, remembered: a path is compared once."""

    def __init__(self) -> None:
        self.ours: dict[CodeType, bool] = {}

    def is_ours(self, code: CodeType) -> bool:
        known = self.ours.get(code)
        if known is None:
            if len(self.ours) > 4096:
                self.ours.clear()
            known = self.ours[code] = code.co_filename.startswith(_OURS)
        return known


_KNOWN = _Known()


def is_ours(code: CodeType) -> bool:
    """Whether code is of this package, or of the recorder's."""
    return _KNOWN.is_ours(code)


def first_of_program(frame: FrameType | None) -> FrameType | None:
    """The innermost frame from here on outwards that is the program's."""
    return _first(frame)


def _first(frame: FrameType | None) -> FrameType | None:
    while frame is not None and _KNOWN.is_ours(frame.f_code):
        frame = frame.f_back
    return frame


def where() -> str:
    """The line of the program that called us: "train.py:12"; "" where there is none."""
    frame = _first(sys._getframe(1))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


Lines = tuple[tuple[CodeType, int], ...]


def lines(most: int = 32) -> Lines:
    """The lines of the program that led here, innermost first, quick to take; `told` makes texts of them."""
    out: list[tuple[CodeType, int]] = []
    frame = _first(sys._getframe(1))
    while frame is not None and len(out) < most:
        code = frame.f_code
        if not _KNOWN.is_ours(code):
            out.append((code, frame.f_lineno))
        frame = frame.f_back
    return tuple(out)


def told(given: Lines) -> tuple[str, ...]:
    """Lines as people read them: "train.py:12 in step"."""
    return tuple(f"{code.co_filename}:{number} in {code.co_name}" for code, number in given)


def stack(most: int = 32) -> tuple[str, ...]:
    """The lines of the program that led here, innermost first: "train.py:12 in step"."""
    return told(lines(most))
