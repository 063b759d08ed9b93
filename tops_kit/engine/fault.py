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


# instructions whose "view" fault is not that of a slice: what is wrong
_NO_PART = {"vld": "vector", "vst": "vector", "tstep": "step", "tshape": "shape"}


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
    printed before, `printed_by` the (block, thread of the launch) of each line; `report` (sanitized mode)
    all that the sanitizer found, this fault included.
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
        self.printed_by: tuple[tuple[int, int], ...] = ()
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
    instruction = INSTRUCTIONS[program.code[raw.pc][0]] if raw.pc >= 0 else None
    if kind.name == "view" and instruction is not None and instruction.name in _NO_PART:
        out = {"of": _NO_PART[instruction.name], **{k: v for k, v in out.items() if k in ("axis", "stop")}}
    if kind.name == "type":
        out = {name: DTYPES[code].name for name, code in zip(names, raw.values, strict=False) if code >= 0}
    if raw.shapes[0] is not None:
        out["shape"] = raw.shapes[0]
    if raw.shapes[1] is not None:
        out["other_shape"] = raw.shapes[1]
        if instruction is not None and kind.name == "shape" and 0 in raw.shapes[1]:
            out["of_nothing"] = _NEED_ELEMENTS.get(instruction.name)
        if instruction is not None and kind.name == "shape" and any(raw.values):
            out["product" if instruction.unit == "M" else "sources"] = True
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


def _no_part(name: str, detail: dict[str, object]) -> str:
    """A view that isn't as an instruction needs it."""
    if detail["of"] == "vector":
        return f"{name or 'the view'} is not dense: vectors are 128 bytes that lie one behind another"
    if detail["of"] == "shape":
        return f"{name or 'the view'} reaches outside of its array and can't have other extents"
    return (
        f"a step of {detail['stop']} on axis {detail['axis']}{_of(name)}: steps are at least 1, of an axis "
        "that does not reach outside"
    )


def _bad_part(name: str, detail: dict[str, object]) -> str:
    """A slice outside of its axis, or one that ends before it starts."""
    start, stop, extent = (detail[key] for key in ("start", "stop", "extent"))
    assert isinstance(start, int) and isinstance(stop, int) and isinstance(extent, int)
    part = f"[{start}, {stop}) on axis {detail['axis']}{_of(name)}"
    if start >= 0 and (stop < 0 or (start == 0 and stop < start)):
        return f"{part} ends below 0: take max(n, 0), or test `if n > 0:`; only literals count from the end"
    if start > stop or start > extent:
        past = f"starts past its extent {extent}" if start > extent else "starts past its end"
        return f"{part} {past}: test `if i < n:` before, or loop over range(thread_id() * B, n, ...)"
    if start < 0:
        return (
            f"{part} starts below 0: only literals count from the end; load with pad= or store with "
            "clip=True what may reach outside"
        )
    hint = "end at min(i + B, n), load with pad= or store with clip=True"
    return f"{part} is outside of its extent {extent}: {hint}"


def _bad_extents(name: str, detail: dict[str, object]) -> str:
    """Two extents that don't fit, and how they can be made to."""
    a, b = detail.get("shape"), detail.get("other_shape")
    if not isinstance(a, tuple):
        return "extents that do not fit together"
    if not isinstance(b, tuple):
        return f"extents that do not fit together: {a}"
    if "product" in detail:
        return f"a matrix product of {a} and {b}: the first needs as many columns as the second has rows"
    hint = ""
    if len(a) == len(b):
        least = [min(pair) for pair in zip(a, b, strict=True)]
        part = ", ".join(":" if x == y else f"0:{n}" for x, y, n in zip(a, b, least, strict=True))
        if least == list(b) and "sources" not in detail and name:
            hint = f"; name the part that fits, {name}[{part}]"
        elif least in (list(a), list(b)):
            hint = f"; take the part that fits of the larger one, [{part}]"
    return f"extents that do not fit together: {a} and {b}{hint}"


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
        case "view" if "of" in detail:
            return _no_part(name, detail)
        case "view" if detail["extent"] == -1:
            return f"axis {detail['axis']}{_of(name)} does not exist"
        case "view":
            return _bad_part(name, detail)
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
            return _bad_extents(name, detail)
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
            return (
                f"{kind.text} (events of a timed launch may take 2 GB, which an endless loop that moves data "
                'fills before its time is up): less work, or mode="fast"'
            )
        case _:
            return kind.text


def interrupted_output(program: Program, error: BaseException) -> Sequence[str]:
    """What a kernel had printed when an exception of a signal's handler (Ctrl-C) ended its launch."""
    records = getattr(error, "kernel_prints", b"")
    return printing.lines(records, program.strings) if isinstance(records, bytes) else ()


def fault_error(
    program: Program, raw: RawFault, prints: bytes, report: Report | None = None
) -> KernelFault | KeyboardInterrupt:
    """What to raise for a fault, with what was printed before; a stopped launch is the user's Ctrl-C."""
    fault = KernelFault(program, raw, printing.lines(prints, program.strings))
    fault.printed_by = tuple(printing.places(prints))
    fault.report = report
    return KeyboardInterrupt(fault.message) if fault.kind.name == "stopped" else fault
