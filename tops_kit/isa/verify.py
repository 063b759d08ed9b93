"""What the machine may trust of a program: every number in it is in range, and control never leaves it.

The C machine checks what depends on data (extents, indices, spaces, types); all that stands in the program
itself is checked here, once, before the first launch.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.program import Buffer, Program
from tops_kit.isa.table import INSTRUCTIONS, MAX_OPERANDS, OPCODES, SPECIAL

MAX_INSTRUCTIONS = 65535  # a program counter is an operand: 16 bits
MAX_REGISTERS = 65535
MAX_AXES = 5  # of a view, as machine.h
MAX_RANK = 3  # of buffers and reshaped views
MAX_SLOTS = 65535
MAX_MESSAGE = 240  # characters
MAX_MEMORY_BYTES = 1 << 40  # keeps sums of offsets far from 64 bits; a launch compares with the part's sizes

# how many values an operand can have: fixed by the format, or (None) by the program
_LIMITS: dict[str, int | None] = {
    "unused": 1,
    "r": None,
    "t": None,
    "v": None,
    "l": None,
    "b": None,
    "g": None,
    "s": None,
    "axis": MAX_AXES,
    "dtype": len(DTYPES),
    "which": len(SPECIAL),
    "result": 2,
    "kind": 3,
    "channel": 256,
    "rank": MAX_RANK + 1,
    "order": 1 << (3 * MAX_AXES),
}
_CLASSES = tuple(_LIMITS)
_BEYOND_F32 = 2.0**128 - 2.0**103  # from here on a number is nearer to infinity than to the largest f32
_SPOKEN = {
    "r": "scalar register", "t": "tile register", "v": "vector register", "l": "jump target", "b": "buffer",
    "g": "pointer parameter", "s": "string", "unused": "unused operand",
}  # fmt: skip
_NO_FALL_THROUGH = (OPCODES["end"], OPCODES["jmp"])


def _operand_classes() -> npt.NDArray[np.intp]:
    classes = np.zeros((len(INSTRUCTIONS), MAX_OPERANDS), np.intp)
    for number, instruction in enumerate(INSTRUCTIONS):
        for position, operand in enumerate(instruction.operands):
            name = operand.name if operand.kind == "i" else operand.kind
            classes[number, position] = _CLASSES.index(name)
    return classes


_OPERAND_CLASSES = _operand_classes()
# where tperm's order stands in its row of code
_TPERM_ORDER = 1 + [operand.name for operand in INSTRUCTIONS[OPCODES["tperm"]].operands].index("order")


def verify(program: Program) -> None:
    """Raise BinaryError, with one line, unless the machine may run the program."""
    try:
        _names(program)
        _registers(program)
        _parameters(program)
        _code(program)
        _locations(program)
        for buffer in program.buffers:
            _buffer(program, buffer)
        _values(program)
    except _Wrong as wrong:
        raise BinaryError(_one_line(f"kernel {program.name}: {wrong}")) from None


def _one_line(text: str) -> str:
    """The text without line breaks and control characters, of a length that fits a terminal."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown if len(shown) <= MAX_MESSAGE else shown[: MAX_MESSAGE - 3] + "..."


class _Wrong(Exception):  # noqa: N818  # not an error of its own: becomes a BinaryError with the kernel's name
    pass


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise _Wrong(text)


def _names(program: Program) -> None:
    names = [program.name, program.arch, *(buffer.name for buffer in program.buffers)]
    names += [parameter.name for parameter in program.parameters]
    names += [variable.name for variable in program.variables]
    for name in names:
        _require(name.isprintable(), f"{name!a} can't be a name")


def _registers(program: Program) -> None:
    for kind, count in (("scalar", program.scalars), ("tile", program.tiles), ("vector", program.vectors)):
        _require(
            0 <= count <= MAX_REGISTERS, f"{count} {kind} registers; at most {MAX_REGISTERS} are possible"
        )


def _code(program: Program) -> None:
    code = program.code
    _require(
        code.dtype == np.uint16 and code.ndim == 2 and code.shape[1] == 1 + MAX_OPERANDS,
        f"code is {code.dtype} of shape {code.shape}, not uint16 of shape (n, {1 + MAX_OPERANDS})",
    )
    count = len(code)
    _require(1 <= count <= MAX_INSTRUCTIONS, f"{count} instructions; 1 to {MAX_INSTRUCTIONS} are possible")
    opcodes = code[:, 0].astype(np.intp)
    unknown = np.flatnonzero(opcodes >= len(INSTRUCTIONS))
    if len(unknown):
        raise _Wrong(f"instruction {unknown[0]} has the opcode {opcodes[unknown[0]]}, which does not exist")
    sizes = {
        "r": program.scalars,
        "t": program.tiles,
        "v": program.vectors,
        "l": count,
        "b": len(program.buffers),
        "g": sum(p.kind == "pointer" for p in program.parameters),
        "s": len(program.strings),
    }
    limits = np.array([sizes[name] if limit is None else limit for name, limit in _LIMITS.items()])
    classes = _OPERAND_CLASSES[opcodes]
    wrong = np.argwhere(code[:, 1:] >= limits[classes])
    if len(wrong):
        pc, position = (int(x) for x in wrong[0])
        name = _CLASSES[classes[pc, position]]
        raise _Wrong(
            f"instruction {pc} ({INSTRUCTIONS[opcodes[pc]].name}): {_SPOKEN.get(name, name)} "
            f"{code[pc, 1 + position]} is not below {limits[classes[pc, position]]}"
        )
    _orders(code, opcodes)
    _require(
        int(opcodes[-1]) in _NO_FALL_THROUGH,
        f"the last instruction is {INSTRUCTIONS[opcodes[-1]].name}: control would leave the program",
    )


def _orders(code: npt.NDArray[np.uint16], opcodes: npt.NDArray[np.intp]) -> None:
    for pc in np.flatnonzero(opcodes == OPCODES["tperm"]):
        order = int(code[pc, _TPERM_ORDER])
        axes = [order >> (3 * axis) & 7 for axis in range(MAX_AXES)]
        _require(max(axes) < MAX_AXES, f"instruction {pc} (tperm): order {order:#o} names an axis above 4")


def _locations(program: Program) -> None:
    count = len(program.locations)
    of = program.location_of
    _require(
        of.dtype == np.int32 and of.shape == (len(program.code),),
        f"locations are {of.dtype} of shape {of.shape}, not one int32 for each instruction",
    )
    _require(bool(np.all((of >= -1) & (of < count))), "an instruction's location is not among the locations")
    for number, location in enumerate(program.locations):
        _require(
            0 <= location.file < len(program.files),
            f"location {number} is in file {location.file}, which is not there",
        )
        # a call is recorded before what is inlined there, so that chains end
        _require(
            -1 <= location.parent < number,
            f"location {number} is inlined at {location.parent}, which is not before it",
        )
        _require(
            min(location.line, location.column, location.end_line, location.end_column) >= 0,
            f"location {number} has a negative line or column",
        )


def _buffer(program: Program, buffer: Buffer) -> None:
    what = f"buffer {buffer.name}"
    _require(buffer.space in ("L1", "L2"), f"{what} lies in {buffer.space}, not in L1 or L2")
    _require(
        len(buffer.shape) <= MAX_RANK, f"{what} has {len(buffer.shape)} axes; at most {MAX_RANK} are possible"
    )
    _require(
        all(0 <= extent < 1 << 31 for extent in buffer.shape),
        f"{what} has the impossible shape {buffer.shape}",
    )
    _require(
        1 <= buffer.slots <= MAX_SLOTS, f"{what} has {buffer.slots} slots; 1 to {MAX_SLOTS} are possible"
    )
    _require(
        buffer.offset_bytes >= 0 and buffer.offset_bytes % 128 == 0 and buffer.slot_bytes % 128 == 0,
        f"{what} does not start on 128 bytes",
    )
    needed = math.prod(buffer.shape) * buffer.dtype.size_bytes
    _require(buffer.slot_bytes >= needed, f"{what} needs {needed} bytes a slot and has {buffer.slot_bytes}")
    _require(
        buffer.offset_bytes + buffer.slots * buffer.slot_bytes <= MAX_MEMORY_BYTES,
        f"{what} ends beyond {MAX_MEMORY_BYTES} bytes",
    )
    _require(-1 <= buffer.location < len(program.locations), f"{what} has a location that is not there")


def _parameters(program: Program) -> None:
    pointers = 0
    taken: dict[int, str] = {}
    for parameter in program.parameters:
        what = f"parameter {parameter.name}"
        _require(
            parameter.kind in ("pointer", "scalar"), f"{what} is a {parameter.kind}, not a pointer or scalar"
        )
        if parameter.kind == "pointer":
            _require(
                0 <= parameter.ndim <= MAX_AXES,
                f"{what} has {parameter.ndim} axes; at most {MAX_AXES} are possible",
            )
            pointers += 1
        else:
            _take(program, taken, parameter.index, what)
    indices = sorted(p.index for p in program.parameters if p.kind == "pointer")
    _require(indices == list(range(pointers)), f"pointers are numbered {indices}, not 0 to {pointers - 1}")
    for constant in program.constants:
        what = f"constant {constant.value}"
        _take(program, taken, constant.register, what)
        if isinstance(constant.value, int):
            _require(-(1 << 31) <= constant.value < 1 << 31, f"{what} does not fit 32 bits")
        else:
            fits = math.isinf(constant.value) or not abs(constant.value) >= _BEYOND_F32
            _require(fits, f"{what} does not fit f32")


def _take(program: Program, taken: dict[int, str], register: int, what: str) -> None:
    _require(0 <= register < program.scalars, f"{what} is for register {register} of {program.scalars}")
    _require(register not in taken, f"{what} and {taken.get(register)} are for the same register {register}")
    taken[register] = what


def _values(program: Program) -> None:
    counts = {
        "scalar": program.scalars,
        "event": program.scalars,
        "tile": program.tiles,
        "vector": program.vectors,
        "buffer": len(program.buffers),
    }
    for variable in program.variables:
        what = f"variable {variable.name}"
        _require(variable.kind in counts, f"{what} is a {variable.kind}, which does not exist")
        _require(
            0 <= variable.register < counts[variable.kind],
            f"{what} is {variable.kind} {variable.register} of {counts[variable.kind]}",
        )
        _require(
            0 <= variable.first_pc <= variable.last_pc < len(program.code),
            f"{what} lives from instruction {variable.first_pc} to {variable.last_pc} of {len(program.code)}",
        )
        _require(-1 <= variable.location < len(program.locations), f"{what} has a location that is not there")
