"""Where instructions come from: file and line of each."""

from __future__ import annotations

from dataclasses import dataclass

from tops_kit.isa.program import Program


@dataclass(frozen=True, order=True)
class Place:
    """A line of a source; `line` 0: the compiler's own code."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else "(compiler)"


NOWHERE = Place("", 0)


def places(program: Program) -> list[Place]:
    """Of each instruction, and of the `end` that stands behind the last."""
    out = []
    for index in program.location_of.tolist():
        if index < 0:
            out.append(NOWHERE)
            continue
        location = program.locations[index]
        out.append(Place(program.files[location.file].path, location.line))
    return [*out, NOWHERE]


def source_text(program: Program, place: Place) -> str:
    """The line's text when the kernel was compiled, without indentation; "" where it is not known."""
    for file in program.files:
        lines = file.text.split("\n")
        if file.path == place.path and 0 <= place.line - file.first_line < len(lines):
            return lines[place.line - file.first_line].strip()
    return ""
