"""Programs as text, with source lines beside instructions, and as plain data for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.places import Place, chain
from tops_kit.isa.program import Buffer, Parameter, Program
from tops_kit.isa.table import INSTRUCTIONS, SPECIAL, Instruction, Operand

PRINT_KINDS = ("i32", "f32", "bool")
_TEXT_COLUMN = 48  # where source lines begin


class Disassembly:
    """A program's instructions as people read them; made once, asked by program counter."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._rows: list[tuple[Instruction, list[tuple[Operand, int]]]] = [
            (INSTRUCTIONS[row[0]], [*zip(INSTRUCTIONS[row[0]].operands, row[1:], strict=False)])
            for row in program.code.tolist()
        ]
        operands = [operand for _, named in self._rows for operand in named]
        written = {number for operand, number in operands if operand.kind == "r" and operand.writes}
        self._constants = {c.register: repr(c.value) for c in program.constants if c.register not in written}
        self.labels = tuple(sorted({number for operand, number in operands if operand.kind == "l"}))
        """Where jumps go, in order: instruction 12 is labelled L12."""

    def instruction(self, pc: int) -> Instruction:
        """The line of the table for an instruction."""
        return self._rows[pc][0]

    def operands(self, pc: int) -> list[tuple[Operand, int]]:
        """The operands of an instruction and the numbers they have."""
        return self._rows[pc][1]

    def operand_texts(self, pc: int) -> list[str]:
        """The operands of an instruction.

        Registers are r3, t1, v0, with the value where it is a constant (r3=1.0); labels are L12; buffers,
        parameters and strings are named; a slot stands in brackets behind its buffer.
        """
        out: list[str] = []
        for operand, number in self._rows[pc][1]:
            text = self._operand_text(operand, number)
            if operand.name == "slot":
                out[-1] += f"[{text}]"
            else:
                out.append(text)
        return out

    def instruction_text(self, pc: int) -> str:
        """One instruction: its name and operands."""
        return f"{self._rows[pc][0].name:<12} {', '.join(self.operand_texts(pc))}".rstrip()

    def lines(self) -> Iterator[str]:
        """The instructions, each new source line beside the first that comes from it."""
        targets = set(self.labels)
        shown: tuple[Place, ...] = ()
        for pc in range(len(self._rows)):
            label = f"L{pc}:" if pc in targets else ""
            line = f"{pc:5d} {label:<7} {self.instruction_text(pc)}"
            places = chain(self.program, pc)
            if places and places != shown:
                line = f"{line:<{_TEXT_COLUMN}} ; {_beside(places)}"
                shown = places
            yield line.rstrip()

    def _operand_text(self, operand: Operand, number: int) -> str:
        match operand.kind:
            case "r":
                return f"r{number}={self._constants[number]}" if number in self._constants else f"r{number}"
            case "t" | "v":
                return f"{operand.kind}{number}"
            case "l":
                return f"L{number}"
            case "b":
                return self.program.buffers[number].name
            case "g":
                return self.program.pointers[number].name
            case "s":
                return _quoted(self.program.strings[number])
            case _:
                return _immediate_text(operand.name, number)


def text(program: Program) -> str:
    """The whole program: what it needs, then its instructions with source lines beside them."""
    return "\n".join([*_head(program), "", *Disassembly(program).lines()]) + "\n"


def plain(program: Program) -> dict[str, Any]:
    """The whole program as dictionaries, lists, texts and numbers, for JSON.

    Floats that are not finite are texts.
    """
    disassembly = Disassembly(program)
    return {
        "name": program.name,
        "arch": program.arch,
        "registers": {"scalar": program.scalars, "tile": program.tiles, "vector": program.vectors},
        "l1_bytes": program.l1_bytes,
        "l2_bytes": program.l2_bytes,
        "parameters": [_plain_parameter(parameter) for parameter in program.parameters],
        "constexprs": {name: _number(value) for name, value in program.constexprs.items()},
        "constants": [{"register": f"r{c.register}", "value": _number(c.value)} for c in program.constants],
        "buffers": [_plain_buffer(buffer) for buffer in program.buffers],
        "files": [{"path": file.path, "first_line": file.first_line} for file in program.files],
        "labels": {f"L{pc}": pc for pc in disassembly.labels},
        "instructions": [_plain_instruction(disassembly, pc) for pc in range(len(program.code))],
    }


def parameter_text(parameter: Parameter) -> str:
    """A parameter as a kernel declares it: `x: ptr(f32, 2)`, `n: i32`."""
    if parameter.kind == "pointer":
        return f"{parameter.name}: ptr({parameter.dtype}, {parameter.ndim})"
    return f"{parameter.name}: {parameter.dtype}"


def _immediate_text(name: str, number: int) -> str:
    match name:
        case "dtype":
            return DTYPES[number].name
        case "which":
            return SPECIAL[number]
        case "kind":
            return PRINT_KINDS[number]
        case "order":
            axes = [number >> (3 * axis) & 7 for axis in range(5)]
            # the view's rank is not known here: as few axes as are an order of themselves
            count = next((k for k in range(1, 5) if sorted(axes[:k]) == [*range(k)] and not any(axes[k:])), 5)
            return f"order={''.join(map(str, axes[:count]))}"
        case _:
            return f"{name}={number}"


def _quoted(string: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else repr(c)[1:-1] for c in string) + '"'


def _head(program: Program) -> list[str]:
    registers = f"{program.scalars} scalar, {program.tiles} tile, {program.vectors} vector registers"
    lines = [f"kernel {program.name}  {program.arch}  {len(program.code)} instructions  {registers}"]
    for parameter in program.parameters:
        uses = [use for use in ("loaded", "stored", "atomic") if getattr(parameter, use)]
        where = ", ".join(uses) if parameter.kind == "pointer" else f"r{parameter.index}"
        lines.append(f"  {parameter_text(parameter):<24} {where}".rstrip())
    lines += [f"  {name} = {value!r}" for name, value in program.constexprs.items()]
    lines += [f"  {_buffer_text(buffer)}" for buffer in program.buffers]
    return [_printable(line) for line in lines]


def _buffer_text(buffer: Buffer) -> str:
    shape = " x ".join(str(extent) for extent in buffer.shape) or "1 element"
    end = buffer.offset_bytes + buffer.slots * buffer.slot_bytes
    slots = f", {buffer.slots} slots" if buffer.slots > 1 else ""
    temporary = ", temporary" if buffer.temporary else ""
    where = f"{buffer.space} {buffer.offset_bytes}..{end}"
    return f"{buffer.name}: {buffer.dtype} {shape}{slots}  {where}{temporary}"


def _beside(places: tuple[Place, ...]) -> str:
    first = places[0]
    calls = "".join(f"  < {_file_name(call.path)}:{call.line}" for call in places[1:])
    return _printable(f"{_file_name(first.path)}:{first.line}{calls}  {first.source.strip()}".rstrip())


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _printable(line: str) -> str:
    """A line of a source or a name, without what a terminal would act upon."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)


def _number(value: int | float | bool | str) -> int | float | bool | str:
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain_parameter(parameter: Parameter) -> dict[str, Any]:
    plain_one = {"name": parameter.name, "kind": parameter.kind, "dtype": parameter.dtype.name}
    if parameter.kind == "pointer":
        uses = [use for use in ("loaded", "stored", "atomic") if getattr(parameter, use)]
        return plain_one | {"ndim": parameter.ndim, "uses": uses}
    return plain_one | {"register": f"r{parameter.index}"}


def _plain_buffer(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "space": buffer.space,
        "dtype": buffer.dtype.name,
        "shape": list(buffer.shape),
        "slots": buffer.slots,
        "offset_bytes": buffer.offset_bytes,
        "slot_bytes": buffer.slot_bytes,
        "temporary": buffer.temporary,
    }


def _plain_instruction(disassembly: Disassembly, pc: int) -> dict[str, Any]:
    instruction = disassembly.instruction(pc)
    return {
        "pc": pc,
        "name": instruction.name,
        "unit": instruction.unit,
        "operands": {operand.name: number for operand, number in disassembly.operands(pc)},
        "text": disassembly.instruction_text(pc),
        "places": [
            {
                "path": at.path,
                "line": at.line,
                "column": at.column,
                "end_line": at.end_line,
                "end_column": at.end_column,
            }
            for at in chain(disassembly.program, pc)
        ],
    }
