"""Where instructions come from: places in sources, with the calls they were inlined at."""

from __future__ import annotations

from dataclasses import dataclass

from tops_kit.isa.program import Location, Program


@dataclass(frozen=True)
class Place:
    """A place in a source, as people read it. Lines count from 1, columns from 0.

    `source` is the line's text; empty where the program does not hold it.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    source: str

    def __str__(self) -> str:
        """`path:line:column`, the column counted from 1 as editors do."""
        return f"{self.path}:{self.line}:{self.column + 1}"


def place(program: Program, location: int) -> Place:
    """The place of a location's index."""
    at = program.locations[location]
    return Place(
        program.files[at.file].path,
        at.line,
        at.column,
        at.end_line,
        at.end_column,
        _source_line(program, at),
    )


def chain(program: Program, pc: int) -> tuple[Place, ...]:
    """The places of an instruction: where it stands, then the calls it was inlined at, innermost first.

    Empty for an instruction without a location.
    """
    out = []
    location = int(program.location_of[pc])
    while location >= 0:
        out.append(place(program, location))
        location = program.locations[location].parent
    return tuple(out)


def _source_line(program: Program, at: Location) -> str:
    file = program.files[at.file]
    lines = file.text.split("\n")
    number = at.line - file.first_line
    return lines[number].rstrip("\r") if 0 <= number < len(lines) else ""
