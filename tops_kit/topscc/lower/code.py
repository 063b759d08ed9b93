"""Instructions before their registers have numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tops_kit.isa.table import INSTRUCTIONS
from tops_kit.topscc.diagnostics import Where


@dataclass(slots=True, eq=False)
class Register:
    """A scalar (r), tile (t) or vector (v) register. One that is `kept` has its number everywhere."""

    kind: str
    number: int = -1
    kept: bool = False


@dataclass(slots=True, eq=False)
class Label:
    """A place in the code that is jumped to."""

    pc: int = -1


Operand: TypeAlias = Register | Label | int


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction. `in_place`: tiles whose memory the result may take over if they die here."""

    name: str
    operands: tuple[Operand, ...]
    where: Where
    in_place: tuple[Register, ...] = ()


# of each instruction, the operands that are registers: position, whether it is read, whether written
REGISTER_OPERANDS = {
    instruction.name: tuple(
        (position, operand.reads, operand.writes)
        for position, operand in enumerate(instruction.operands)
        if operand.kind in "rtv"
    )
    for instruction in INSTRUCTIONS
}

JUMPS = frozenset(
    instruction.name
    for instruction in INSTRUCTIONS
    if any(operand.kind == "l" for operand in instruction.operands)
)
# what may stand between a load and the wait for it: scalars and views, which touch no memory
_HARMLESS = frozenset(
    instruction.name
    for instruction in INSTRUCTIONS
    if instruction.group in ("view", "scalar") or instruction.name == "special"
)


@dataclass(slots=True, eq=False)
class Pending:
    """A wait that may stand further down: its event, the register loaded into, its place in the source."""

    event: Register
    destination: Register
    where: Where


@dataclass(slots=True, eq=False)
class Code:
    """The instructions in order; loops as (first, last) pairs of positions, outer ones after inner ones."""

    instructions: list[Instruction] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    labels: set[int] = field(default_factory=set)  # where jumps go

    def emit(
        self, name: str, *operands: Operand, where: Where, in_place: tuple[Register, ...] = ()
    ) -> Instruction:
        """The next instruction. Waits for loads that precede it come first, unless it touches no memory."""
        if self.pending and name not in _HARMLESS:
            self.settle()
        instruction = Instruction(name, operands, where, in_place)
        self.instructions.append(instruction)
        return instruction

    def emit_load(self, name: str, *operands: Operand, where: Where) -> None:
        """A transfer into a tile of its own, from memory that no load goes to: loads in a row overlap."""
        pending, self.pending = self.pending, []
        self.emit(name, *operands, where=where)
        self.pending = pending

    def settle(self) -> None:
        """Wait for the loads that are under way."""
        pending, self.pending = self.pending, []
        for load in pending:
            self.instructions.append(Instruction("wait", (load.event,), load.where))

    def place(self, label: Label) -> None:
        """The label stands before the next instruction."""
        self.settle()
        label.pc = len(self.instructions)
        self.labels.add(label.pc)

    def __len__(self) -> int:
        return len(self.instructions)
