"""A kernel's fault as people read it: what, where in the source, in which thread, on what memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tops_kit.engine import printing
from tops_kit.errors import UserError
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.faults import BY_NUMBER, FaultKind
from tops_kit.isa.program import Location, Program
from tops_kit.isa.table import INSTRUCTIONS

if TYPE_CHECKING:
    from tops_kit.engine.findings import Report

SPACES = {1: "L1", 2: "L2", 3: "L3"}

# names of the numbers that come with a fault, by its kind (fault_set in the C machine)
FAULT_FIELDS: dict[str, tuple[str, ...]] = {
    "slot": ("slot", "slots"),
    "view": ("axis", "start", "stop", "extent"),
    "bounds": ("axis", "first_existing", "end_existing", "extent"),
    "index": ("axis", "index", "low", "high"),
    "gather": ("index", "position", "axis", "extent"),
    "divide": ("dividend",),
    "assert": ("message",),
    "event": ("event", "issued"),
    "barrier": ("at_barrier", "at_grid_barrier", "ended"),
    "type": ("written", "read", "other"),
}


# reductions that have no result where there is nothing, by instruction
_NEED_ELEMENTS = {f"tr{name}": name for name in ("max", "min", "argmax", "argmin")}


@dataclass(frozen=True)
class RawFault:
    """A fault in numbers, as the machine and the oracle give it.

    `pc` is -1 where it belongs to no instruction. `object` is a buffer, or in L3 a pointer parameter (-1:
    none); `shapes` are extents that do not fit.
    """

    kind: int
    pc: int
    thread: int
    block: int
    object: int = -1
    space: int = 0
    values: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)


@dataclass(frozen=True)
class Place:
    """A place in a source. Lines count from 1, columns from 0; `text` is the line, "" where unknown."""

    path: str
    line: int
    column: int
    end_column: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column + 1}"


class KernelFault(UserError):  # noqa: N818 - a fault is the kernel's, and the word of all its documents
    """A kernel did what it must not do.

    `kind` says what, `message` is one line with the place; str() adds the source line and the calls it
    was inlined through. `location` is the chain of places, innermost first; `buffer` the buffer or
    parameter concerned, or ""; `detail` the numbers that belong to the kind; `output` what the kernel
    printed before; `report` (sanitized mode) all that the sanitizer found, this fault included.
    """

    def __init__(self, program: Program, raw: RawFault, output: Sequence[str] = ()) -> None:
        self.kernel = program.name
        self.kind: FaultKind = BY_NUMBER[raw.kind]
        self.pc = raw.pc
        self.thread = raw.thread
        self.block = raw.block
        self.location: tuple[Place, ...] = places(program, raw.pc)
        self.buffer = _object_name(program, raw)
        self.space = SPACES.get(raw.space, "")
        self.detail = _detail(program, self.kind, raw)
        self.output = tuple(output)
        self.report: Report | None = None
        self.what = _what(self.kind, self.buffer, self.detail)
        at = f"{self.location[0]}: " if self.location else f"{program.name}: "
        self.message = f"{at}{self.kind.name}: {self.what}{self._whose()}"
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        # what it was made of is not kept: a copy has the same attributes
        return _fault_again, (vars(self), self.message)

    def _whose(self) -> str:
        if self.thread < 0:
            return ""
        return f" (kernel {self.kernel}, thread {self.thread} of block {self.block})"

    def __str__(self) -> str:
        out = [self.message]
        if self.location and self.location[0].text:
            place = self.location[0]
            width = max(1, place.end_column - place.column)
            out += [f"    {place.text}", f"    {' ' * place.column}{'^' * width}"]
        out += [f"  inlined at {place}" for place in self.location[1:]]
        return "\n".join(out)


def _fault_again(attributes: dict[str, Any], message: str) -> KernelFault:
    """A fault from another process."""
    fault = KernelFault.__new__(KernelFault, message)
    vars(fault).update(attributes)
    return fault


def raw_fault(raw: tuple[Any, ...]) -> RawFault:
    """A fault as the C module gives it."""
    kind, pc, thread, block, _, object_, space, values, shape, other = raw
    return RawFault(kind, pc, thread, block, object_, space, values, (shape, other))


def places(program: Program, pc: int) -> tuple[Place, ...]:
    """Where an instruction comes from, innermost first; empty where the program doesn't say."""
    out: list[Place] = []
    number = int(program.location_of[pc]) if 0 <= pc < len(program.location_of) else -1
    while number >= 0:
        location = program.locations[number]
        out.append(_place(program, location))
        number = location.parent
    return tuple(out)


def _place(program: Program, location: Location) -> Place:
    source = program.files[location.file]
    lines = source.text.split("\n")
    index = location.line - source.first_line
    text = lines[index] if 0 <= index < len(lines) else ""
    end = location.end_column if location.end_line == location.line else len(text)
    return Place(source.path, location.line, location.column, end, text)


def _object_name(program: Program, raw: RawFault) -> str:
    if raw.object < 0:
        return ""
    if raw.space == 3:
        return program.pointers[raw.object].name
    return program.buffers[raw.object].name


def _detail(program: Program, kind: FaultKind, raw: RawFault) -> dict[str, object]:
    names = FAULT_FIELDS.get(kind.name, ())
    out: dict[str, object] = dict(zip(names, raw.values, strict=False))
    if kind.name == "assert":
        out["message"] = program.strings[raw.values[0]]
    if kind.name == "index" and raw.values[0] < 0:
        _, index, end, elements = raw.values
        out = {"index": index, "lanes": end - index, "elements": elements}
    if kind.name == "type":
        out = {name: DTYPES[code].name for name, code in zip(names, raw.values, strict=False) if code >= 0}
    if raw.shapes[0] is not None:
        out["shape"] = raw.shapes[0]
    if raw.shapes[1] is not None:
        out["other_shape"] = raw.shapes[1]
        if kind.name == "shape" and raw.pc >= 0 and 0 in raw.shapes[1]:
            out["of_nothing"] = _NEED_ELEMENTS.get(INSTRUCTIONS[program.code[raw.pc][0]].name)
    if kind.name == "space" and raw.space:
        out["space"] = SPACES[raw.space]
    return {name: value for name, value in out.items() if value is not None}


def _place_in(shape: object, position: object) -> list[int]:
    """The subscripts of the element of that number, counted row by row."""
    assert isinstance(shape, tuple) and isinstance(position, int)
    out = []
    for extent in reversed(shape):
        position, at = divmod(position, extent)
        out.append(at)
    return out[::-1]


def _of(name: str) -> str:
    return f" of {name}" if name else ""


def _what(kind: FaultKind, name: str, detail: dict[str, object]) -> str:
    match kind.name:
        case "slot":
            return f"{name or 'the buffer'} has no slot {detail['slot']}: it has {detail['slots']}"
        case "index" if "lanes" in detail:
            return (
                f"a vector of {detail['lanes']} elements from index {detail['index']} on reaches outside of "
                f"{name or 'its view'}, which has {detail['elements']}"
            )
        case "index":
            return (
                f"index {detail['index']} on axis {detail['axis']}{_of(name)} is outside of "
                f"[{detail['low']}, {detail['high']})"
            )
        case "view" if detail["extent"] == -1:
            return f"axis {detail['axis']}{_of(name)} does not exist"
        case "view":
            return (
                f"[{detail['start']}, {detail['stop']}) on axis {detail['axis']}{_of(name)} is outside of "
                f"its extent {detail['extent']}: end at min(i + B, n), load with pad= or store with clip=True"
            )
        case "bounds":
            return (
                f"the transfer reaches outside of {name or 'its array'} on axis {detail['axis']}: "
                f"only [{detail['first_existing']}, {detail['end_existing']}) of {detail['extent']} exist"
            )
        case "shape" if "of_nothing" in detail:
            return (
                f"{detail['of_nothing']} of a tile without elements, of extents {detail['other_shape']}: "
                "ask for its extents first"
            )
        case "shape":
            shapes = " and ".join(str(detail[key]) for key in ("shape", "other_shape") if key in detail)
            hint = "; name the part that fits, as y[0:64]" if "other_shape" in detail else ""
            return f"extents that do not fit together{': ' + shapes if shapes else ''}{hint}"
        case "gather" if "shape" in detail:
            place = _place_in(detail["shape"], detail["position"])
            return (
                f"index {detail['index']} at {place} of the indices is outside of axis {detail['axis']}, "
                f"which has {detail['extent']} elements"
            )
        case "assert":
            return f"{detail['message'] or kind.text}"
        case "space":
            where = f"{name} lies in {detail['space']}" if name else "the view is not set"
            return f"{kind.text}: {where}"
        case "type":
            return f"{kind.text}: {', '.join(str(x) for x in detail.values())}"
        case "event":
            return f"event {detail['event']} was never triggered ({detail['issued']} were)"
        case "barrier":
            return (
                f"threads of the block do not meet: {detail['at_barrier']} wait at a barrier, "
                f"{detail['at_grid_barrier']} at a grid barrier, {detail['ended']} have ended"
            )
        case "memory":
            return f'{kind.text} (events of a timed launch may take 2 GB): less work, or mode="fast"'
        case _:
            return kind.text


def interrupted_output(program: Program, error: BaseException) -> Sequence[str]:
    """What a kernel had printed when an exception of a signal's handler (Ctrl-C) ended its launch."""
    records = getattr(error, "kernel_prints", b"")
    return printing.lines(records, program.strings) if isinstance(records, bytes) else ()


def fault_error(
    program: Program, raw: RawFault, output: Sequence[str], report: Report | None = None
) -> KernelFault | KeyboardInterrupt:
    """What to raise for a fault: a stopped launch is the user's Ctrl-C."""
    fault = KernelFault(program, raw, output)
    fault.report = report
    return KeyboardInterrupt(fault.message) if fault.kind.name == "stopped" else fault
