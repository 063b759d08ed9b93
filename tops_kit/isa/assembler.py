"""Builds programs by instructions, for tests and generators; kernels in Python come from topscc.

asm = Assembler("scale")
x = asm.pointer("x", F32, ndim=1, loaded=True, stored=True)
row = asm.buffer("row", "L1", F32, (256,))
asm.op("tptr", "x", x)
asm.op("tbuf", "row", row, asm.constant(0), 0)
asm.op("dma", "ev", "row", "x", asm.constant(0), 0)
asm.op("wait", "ev")
asm.op("tmul_s", "row", "row", asm.constant(2.0))
asm.op("end")
program = asm.finish()
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tops_kit.isa.dtypes import BY_NAME, DType
from tops_kit.isa.program import (
    Buffer,
    Constant,
    Location,
    Parameter,
    Program,
    SourceFile,
    Variable,
)
from tops_kit.isa.table import INSTRUCTIONS, MAX_OPERANDS, OPCODES, SPECIAL
from tops_kit.isa.verify import verify

SLOT_ALIGNMENT = 128  # bytes: every slot starts on a vector

_REGISTERS = "rtv"


@dataclass(frozen=True)
class Name:
    """A register, label or string that gets its number when the program is finished."""

    kind: str
    text: str


Operand = int | str | float | DType | tuple[int, ...]


class Assembler:
    """Collects instructions, buffers, parameters and constants; `finish` numbers everything.

    Operands by kind: registers (r, t, v) are a number or a name, names get the numbers that are left over;
    labels, buffers, parameters and strings are a name (for strings: the text) or an index; immediates are a
    number, a type or its name (`dtype`), a name of SPECIAL (`which`), or a tuple of axes (`order`).
    """

    def __init__(self, name: str = "kernel", arch: str = "s60") -> None:
        self.name = name
        self.arch = arch
        self._rows: list[tuple[int, list[int | Name], int]] = []
        self._labels: dict[str, int] = {}
        self._constants: dict[str, int | float] = {}  # by register name
        self._buffers: list[Buffer] = []
        self._ends = {"L1": 0, "L2": 0}
        self._parameters: list[tuple[Parameter, str]] = []
        self._strings: list[str] = []
        self._files: list[SourceFile] = []
        self._locations: list[Location] = []
        self._location = -1
        self._variables: list[tuple[Variable, int | str]] = []

    def __len__(self) -> int:
        """How many instructions there are: the number of the next one."""
        return len(self._rows)

    def pointer(
        self,
        name: str,
        dtype: DType,
        ndim: int = 1,
        *,
        loaded: bool = True,
        stored: bool = True,
        atomic: bool = False,
    ) -> int:
        """A pointer parameter; returns its index among the pointers."""
        index = sum(p.kind == "pointer" for p, _ in self._parameters)
        parameter = Parameter(name, "pointer", dtype, index, ndim, loaded, stored, atomic)
        self._parameters.append((parameter, ""))
        return index

    def scalar(self, name: str, dtype: DType) -> str:
        """A scalar parameter; returns the name of its register."""
        self._parameters.append((Parameter(name, "scalar", dtype, 0), name))
        return name

    def constant(self, value: int | float) -> str:
        """The register that holds `value` from the start: i32 for an int, f32 for a float."""
        name = f"={value.hex()}" if isinstance(value, float) else f"={value}"  # hex tells -0.0 from 0.0
        self._constants[name] = value
        return name

    def buffer(
        self,
        name: str,
        space: str,
        dtype: DType,
        shape: Sequence[int],
        slots: int = 1,
        *,
        temporary: bool = False,
    ) -> int:
        """Memory in "L1" or "L2" behind what is there already; returns the buffer's index."""
        slot_bytes = _aligned(math.prod(shape) * dtype.size_bytes)
        offset = self._ends[space]
        self._ends[space] = offset + slots * slot_bytes
        self._buffers.append(
            Buffer(name, space, dtype, tuple(shape), slots, offset, slot_bytes, self._location, temporary)
        )
        return len(self._buffers) - 1

    def string(self, text: str) -> int:
        """The index of a string, for assert and print."""
        if text not in self._strings:
            self._strings.append(text)
        return self._strings.index(text)

    def source(self, path: str, text: str, first_line: int = 1) -> int:
        """A source file; returns its index. Without one, `at` makes an empty file of the program's name."""
        self._files.append(SourceFile(path, text, first_line))
        return len(self._files) - 1

    def at(
        self,
        line: int,
        column: int = 0,
        end_column: int | None = None,
        *,
        end_line: int | None = None,
        file: int = 0,
        parent: int = -1,
    ) -> int:
        """Instructions from here on come from this place; returns its index, for `parent` of inlined ones."""
        if not self._files:
            self.source(f"{self.name}.asm", "")
        end = column if end_column is None else end_column
        self._locations.append(Location(file, line, column, end_line or line, end, parent))
        self._location = len(self._locations) - 1
        return self._location

    def variable(
        self,
        name: str,
        kind: str,
        dtype: DType,
        register: int | str,
        *,
        shape: tuple[int, ...] = (),
        first_pc: int = 0,
        last_pc: int = 0,
    ) -> None:
        """A variable of the source and the register (or buffer index) it lives in."""
        variable = Variable(name, kind, dtype, 0, shape, first_pc, last_pc, self._location)
        self._variables.append((variable, register))

    def label(self, name: str) -> None:
        """The next instruction is where jumps to `name` go. ValueError when the label exists."""
        if name in self._labels:
            raise ValueError(f"label {name} is defined twice")
        self._labels[name] = len(self._rows)

    def op(self, name: str, *operands: Operand) -> int:
        """Append an instruction, operands in the table's order; returns its number (pc).

        KeyError: no such instruction; ValueError: not its operands.
        """
        instruction = INSTRUCTIONS[OPCODES[name]]
        if len(operands) != len(instruction.operands):
            raise ValueError(f"{name} takes {instruction.signature or 'no operands'}; got {operands}")
        numbers = [
            self._operand(operand.kind, operand.name, given)
            for operand, given in zip(instruction.operands, operands, strict=True)
        ]
        self._rows.append((OPCODES[name], numbers, self._location))
        return len(self._rows) - 1

    def _operand(self, kind: str, name: str, given: Operand) -> int | Name:
        if isinstance(given, DType):
            return given.code
        if isinstance(given, tuple):
            return sum(axis << (3 * position) for position, axis in enumerate(given))
        if isinstance(given, float):
            if kind != "r":
                raise ValueError(f"operand {name} can't be {given}")
            return Name("r", self.constant(given))
        if isinstance(given, int):
            return given
        if kind in _REGISTERS or kind == "l":
            return Name(kind, given)
        if kind == "s":
            return self.string(given)
        if kind == "b":
            return [b.name for b in self._buffers].index(given)
        if kind == "g":
            return [p.name for p, _ in self._parameters if p.kind == "pointer"].index(given)
        return BY_NAME[given].code if name == "dtype" else SPECIAL.index(given)

    def finish(self, *, check: bool = True) -> Program:
        """The program, verified unless `check` is false. ValueError: a label that is nowhere."""
        numbers = {kind: self._number(kind) for kind in _REGISTERS}
        code = np.zeros((len(self._rows), 1 + MAX_OPERANDS), np.uint16)
        for pc, (opcode, operands, _) in enumerate(self._rows):
            code[pc, 0] = opcode
            for position, operand in enumerate(operands):
                code[pc, 1 + position] = (
                    operand if isinstance(operand, int) else self._resolve(operand, numbers)
                )
        parameters = tuple(
            Parameter(p.name, p.kind, p.dtype, numbers["r"][register]) if p.kind == "scalar" else p
            for p, register in self._parameters
        )
        program = Program(
            name=self.name,
            arch=self.arch,
            code=code,
            location_of=np.array([location for _, _, location in self._rows], np.int32),
            locations=tuple(self._locations),
            files=tuple(self._files),
            scalars=self._count("r", numbers["r"]),
            tiles=self._count("t", numbers["t"]),
            vectors=self._count("v", numbers["v"]),
            constants=tuple(Constant(numbers["r"][n], v) for n, v in self._constants.items()),
            buffers=tuple(self._buffers),
            parameters=parameters,
            variables=tuple(self._finish_variable(v, r, numbers) for v, r in self._variables),
            strings=tuple(self._strings),
        )
        if check:
            verify(program)
        return program

    def _resolve(self, name: Name, numbers: dict[str, dict[str, int]]) -> int:
        if name.kind in numbers:
            return numbers[name.kind][name.text]
        if name.text not in self._labels:
            raise ValueError(f"no label {name.text}")
        return self._labels[name.text]

    def _literals(self, kind: str) -> set[int]:
        """Register numbers that instructions give as numbers."""
        return {
            given
            for opcode, operands, _ in self._rows
            for operand, given in zip(INSTRUCTIONS[opcode].operands, operands, strict=True)
            if operand.kind == kind and isinstance(given, int)
        }

    def _number(self, kind: str) -> dict[str, int]:
        """Numbers for the named registers of a kind: the lowest that no instruction gives as a number."""
        names: dict[str, None] = {}
        if kind == "r":
            names = dict.fromkeys([*self._constants, *(r for p, r in self._parameters if r)])
        for _, operands, _ in self._rows:
            names |= dict.fromkeys(o.text for o in operands if isinstance(o, Name) and o.kind == kind)
        taken = self._literals(kind)
        out: dict[str, int] = {}
        number = 0
        for name in names:
            while number in taken:
                number += 1
            out[name] = number
            number += 1
        return out

    def _count(self, kind: str, numbers: dict[str, int]) -> int:
        return 1 + max([*numbers.values(), *self._literals(kind)], default=-1)

    @staticmethod
    def _finish_variable(
        variable: Variable, register: int | str, numbers: dict[str, dict[str, int]]
    ) -> Variable:
        kind = {"tile": "t", "vector": "v"}.get(variable.kind, "r")
        number = register if isinstance(register, int) else numbers[kind][register]
        return Variable(
            variable.name,
            variable.kind,
            variable.dtype,
            number,
            variable.shape,
            variable.first_pc,
            variable.last_pc,
            variable.location,
        )


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // SLOT_ALIGNMENT) * SLOT_ALIGNMENT
