"""Numbers for registers, places in memory for buffers, and the program's tables."""

from __future__ import annotations

import numpy as np

from tops_kit.isa.dtypes import I32
from tops_kit.isa.program import Buffer, Constant, Location, Parameter, Program, SourceFile
from tops_kit.isa.program import Variable as ProgramVariable
from tops_kit.isa.table import MAX_OPERANDS, OPCODES
from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.kinds import EventKind, ScalarKind, TileKind, VectorKind, ViewKind
from tops_kit.topscc.lower.code import Instruction, Label, Register
from tops_kit.topscc.lower.homes import Home, bounds
from tops_kit.topscc.lower.liveness import Interval, Pool, intervals, join_kept, number, share_homes
from tops_kit.topscc.lower.lowering import Lowering
from tops_kit.topscc.memory import Need, check, slot_bytes
from tops_kit.topscc.tree import Kernel, Value, Variable

MAX_INSTRUCTIONS = 65535
MAX_REGISTERS = 65535


class Locations:
    """The places that instructions come from, each once; calls before what is inlined in them."""

    def __init__(self) -> None:
        self.files: dict[SourceFile, int] = {}
        self.rows: list[Location] = []
        self._index: dict[Where, int] = {}
        self._seen: dict[int, tuple[Where, int]] = {}  # by identity: the usual case, without hashing

    def index(self, where: Where) -> int:
        """The index of a place."""
        seen = self._seen.get(id(where))
        if seen is not None:
            return seen[1]
        found = self._index.get(where)
        if found is None:
            parent = -1 if where.parent is None else self.index(where.parent)
            file = self.files.setdefault(where.source, len(self.files))
            self.rows.append(
                Location(file, where.line, where.column, where.end_line, where.end_column, parent)
            )
            found = self._index[where] = len(self.rows) - 1
        self._seen[id(where)] = (where, found)  # keeps the object, so that its identity stays its own
        return found


def encode(lowering: Lowering) -> Program:
    """The program of a kernel that has been lowered."""
    kernel = lowering.kernel
    body = lowering.code.instructions
    found = intervals(body, lowering.code.loops, lowering.parts)
    homes = list(lowering.home_of.values())
    joined = join_kept(homes, found, lowering.code, lowering.parts)
    apart = [home for home in homes if not home.kept and home.register not in joined]
    pools, stands_for = share_homes(apart, found, body)
    stands_for |= joined
    kept = sorted((home for home in homes if home.kept), key=lambda home: home.number)
    _check_memory(kernel, kept, pools)

    locations = Locations()
    locations.index(kernel.where)
    counts = _number_registers(lowering, found, pools, stands_for)
    for label_register, register in stands_for.items():
        label_register.number = register.number
    entry = _entry(lowering, kept, pools)
    instructions = entry + body
    if len(instructions) > MAX_INSTRUCTIONS or max(counts.values()) > MAX_REGISTERS:
        raise KernelError(
            f"the kernel is too long: {len(instructions)} instructions and {max(counts.values())} registers, "
            f"{MAX_INSTRUCTIONS} of each are possible",
            kernel.where,
            "loops that are not unrolled, smaller functions",
        )
    code = np.array([_row(instruction, len(entry)) for instruction in instructions], np.uint16)
    location_of = np.array([locations.index(instruction.where) for instruction in instructions], np.int32)
    buffers = _buffers(kernel, kept, pools, locations)
    variables = _variables(lowering, locations, len(entry), len(instructions))
    return Program(
        name=kernel.name,
        arch=kernel.target.name,
        code=code,
        location_of=location_of,
        locations=tuple(locations.rows),
        files=tuple(locations.files),
        scalars=counts["r"],
        tiles=counts["t"],
        vectors=counts["v"],
        constants=tuple(Constant(register.number, value) for register, value in lowering.constants.values()),
        buffers=buffers,
        parameters=_parameters(lowering),
        variables=variables,
        strings=tuple(lowering.strings),
        constexprs=kernel.constexprs,
    )


def _check_memory(kernel: Kernel, kept: list[Home], pools: list[Pool]) -> None:
    needs = [Need(b.name, b.space, b.dtype, b.shape, b.slots, b.where) for b in kernel.buffers]
    for home in (*kept, *(pool.home for pool in pools)):
        name = home.name or f"a tile of line {home.where.line}"
        needs.append(Need(name, "L1", home.dtype, home.shape, home.slots, home.where))
    check(needs, kernel.target)


def _number_registers(
    lowering: Lowering,
    found: dict[Register, Interval],
    pools: list[Pool],
    stands_for: dict[Register, Register],
) -> dict[str, int]:
    """Kept registers first, then the pools', then the temporaries; gives how many of each kind."""
    counts = {"r": 0, "t": 0, "v": 0}
    for register in (*lowering.kept, *(pool.register for pool in pools)):
        register.number = counts[register.kind]
        counts[register.kind] += 1
    temporaries = {register: interval for register, interval in found.items() if register not in stands_for}
    return number("rtv", temporaries, counts)


def _entry(lowering: Lowering, kept: list[Home], pools: list[Pool]) -> list[Instruction]:
    """What runs once: views of homes, then what the body wanted there."""
    zero, where = lowering.zero, lowering.kernel.where
    out = [
        Instruction("tbuf", (home.register, home.number, zero, 1), where) for home in kept if home.slots == 1
    ]
    first = len(lowering.kernel.buffers) + len(kept)
    out += [
        Instruction("tbuf", (pool.register, first + place, zero, 1), where)
        for place, pool in enumerate(pools)
    ]
    return out + lowering.entry


def _row(instruction: Instruction, entry: int) -> list[int]:
    row = [OPCODES[instruction.name]]
    for operand in instruction.operands:
        if isinstance(operand, Register):
            row.append(operand.number)
        elif isinstance(operand, Label):
            row.append(operand.pc + entry)
        else:
            row.append(operand)
    row += [0] * (1 + MAX_OPERANDS - len(row))
    return row


def _buffers(kernel: Kernel, kept: list[Home], pools: list[Pool], locations: Locations) -> tuple[Buffer, ...]:
    needs = [Need(b.name, b.space, b.dtype, b.shape, b.slots, b.where) for b in kernel.buffers]
    for place, home in enumerate((*kept, *(pool.home for pool in pools))):
        needs.append(Need(home.name or f"%{place}", "L1", home.dtype, home.shape, home.slots, home.where))
    ends = {"L1": 0, "L2": 0}
    out: list[Buffer] = []
    for number_, need in enumerate(needs):
        out.append(
            Buffer(
                need.name,
                need.space,
                need.dtype,
                need.shape,
                need.slots,
                ends[need.space],
                slot_bytes(need.dtype, need.shape),
                locations.index(need.where),
                temporary=number_ >= len(kernel.buffers),
            )
        )
        ends[need.space] += need.size_bytes
    return tuple(out)


def _parameters(lowering: Lowering) -> tuple[Parameter, ...]:
    loaded: set[object] = set()
    stored: set[object] = set()
    atomic: set[object] = set()
    roots = lowering.analysis.roots
    for node in lowering.analysis.nodes():
        match node:
            case tree.Load():
                loaded |= roots(node.source)
            case tree.Transfer() | tree.Store():
                loaded |= roots(node.source)
                stored |= roots(node.destination)
            case tree.Memset():
                stored |= roots(node.destination)
            case tree.Atomic() | tree.AtomicTile():
                atomic |= roots(node.target)
    out = []
    pointers = 0
    for parameter in lowering.kernel.parameters:
        if isinstance(parameter.holds, Value):
            flags = tuple(parameter in some for some in (loaded, stored, atomic))
            out.append(
                Parameter(parameter.name, "pointer", parameter.dtype, pointers, parameter.ndim, *flags)
            )
            pointers += 1
        else:
            register = lowering.variable(parameter.holds)
            out.append(Parameter(parameter.name, "scalar", parameter.dtype, register.number))
    return tuple(out)


def _variables(
    lowering: Lowering, locations: Locations, entry: int, count: int
) -> tuple[ProgramVariable, ...]:
    out = [
        ProgramVariable(
            buffer.name, "buffer", buffer.dtype, buffer.number, buffer.shape, 0, count - 1,
            locations.index(buffer.where),
        )
        for buffer in lowering.kernel.buffers
    ]  # fmt: skip
    for variable, first in lowering.first_assigned.items():
        if not variable.name:
            continue
        end = lowering.scope_end.get(variable)
        last = count - 1 if end is None else min(count - 1, max(entry + first, entry + end.pc - 1))
        first_pc = min(entry + first, last)
        out.append(_variable(lowering, variable, first_pc, last, locations.index(variable.where)))
    return tuple(out)


def _variable(
    lowering: Lowering, variable: Variable, first: int, last: int, location: int
) -> ProgramVariable:
    register = lowering.variable(variable).number
    kind = variable.kind
    match kind:
        case ScalarKind():
            return ProgramVariable(variable.name, "scalar", kind.dtype, register, (), first, last, location)
        case VectorKind():
            return ProgramVariable(variable.name, "vector", kind.dtype, register, (), first, last, location)
        case EventKind():
            return ProgramVariable(variable.name, "event", I32, register, (), first, last, location)
        case TileKind():
            shape = bounds(kind.shape)
            return ProgramVariable(variable.name, "tile", kind.dtype, register, shape, first, last, location)
        case ViewKind():
            known = tuple(n if isinstance(n, int) else -1 for n in kind.shape)
            return ProgramVariable(variable.name, "tile", kind.dtype, register, known, first, last, location)
