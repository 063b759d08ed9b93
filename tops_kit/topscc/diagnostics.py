"""What the compiler says when it refuses a kernel: where, what, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tops_kit.errors import UserError
from tops_kit.isa.program import SourceFile

_LONGEST = 400  # characters of a source line that are shown


@dataclass(frozen=True, slots=True)
class Where:
    """A span of a source. Lines count from 1, columns from 0 (characters), as in Python's ast; its end is
    exclusive.

    `parent` is the call through which this code was inlined, None in the kernel itself. `function` names the
    function that the span stands in.
    """

    source: SourceFile = field(repr=False)  # its text would fill a screen
    line: int
    column: int
    end_line: int
    end_column: int
    parent: Where | None = None
    function: str = ""

    def __str__(self) -> str:
        """`path:line:column`, the column counted from 1 as editors do."""
        return f"{self.source.path}:{self.line}:{self.column + 1}"

    def chain(self) -> tuple[Where, ...]:
        """This place and the calls it was inlined through, innermost first."""
        out = [self]
        while out[-1].parent is not None:
            out.append(out[-1].parent)
        return tuple(out)

    def line_text(self) -> str:
        """The source line on which the span starts, empty when the source doesn't have it."""
        lines = self.source.text.split("\n")
        index = self.line - self.source.first_line
        return lines[index] if 0 <= index < len(lines) else ""

    def text(self) -> str:
        """What stands at the span, when it lies on one line; else empty."""
        return self.line_text()[self.column : self.end_column] if self.line == self.end_line else ""


class KernelError(UserError):
    """A kernel that can't be compiled.

    The text is `path:line:column: error: what`, the source line, carets under the span, `hint: what to write
    instead`, and one `inlined at` line for each call the code was inlined through. `notes` are further
    places, each with a remark, such as where a variable got its type.
    """

    def __init__(
        self, what: str, where: Where, hint: str = "", notes: tuple[tuple[str, Where], ...] = ()
    ) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        self.notes = notes
        super().__init__(_text(what, where, hint, notes))

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelError, (self.what, self.where, self.hint, self.notes)


def _text(what: str, where: Where, hint: str, notes: tuple[tuple[str, Where], ...]) -> str:
    lines = [f"{where}: error: {what}", *_excerpt(where)]
    if hint:
        lines.append(f"  hint: {hint}")
    for remark, place in notes:
        lines += [f"{place}: note: {remark}", *_excerpt(place)]
    for call in where.chain()[1:]:
        lines += [f"{call}: inlined at", *_excerpt(call)]
    return "\n".join(lines)


def _excerpt(where: Where) -> list[str]:
    """The source line, and carets under the part of the span that lies on it."""
    text = where.line_text()
    if not text.strip():
        return []
    stop = where.end_column if where.end_line == where.line else len(text.rstrip())
    column = where.column
    width = max(1, min(stop, len(text)) - column)
    if len(text) > _LONGEST:  # only what is around the span
        first = max(0, column - _LONGEST // 4)
        text, column, width = text[first : first + _LONGEST], column - first, min(width, _LONGEST // 2)
    # tabs stay tabs, so that the carets stand under what they point at however wide a tab is shown
    indent = "".join("\t" if letter == "\t" else " " for letter in text[:column])
    return [f"    {text.rstrip()}", f"    {indent}{'^' * width}"]
