"""The reference page of the instructions (docs/gcu-instructions.md), made from the table.

python -m tops_kit.isa.reference docs/gcu-instructions.md
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tops_kit.isa.dtypes import DTYPES, accumulator
from tops_kit.isa.faults import FAULTS
from tops_kit.isa.table import INSTRUCTIONS, OPCODES, SPECIAL, TABLE_VERSION, Instruction

_INTRODUCTION = """\
<!-- Made from tops_kit/isa/table.py by `python -m tops_kit.isa.reference docs/gcu-instructions.md` -->

# Instructions of the simulated GCU

One instruction is eight 16-bit numbers: the opcode and up to seven operands. A thread (one SIP) has scalar
registers (`r`, 32 bits, zero at the start, then constants and parameters), tile registers (`t`, a view of
memory) and vector registers (`v`, 128 bytes). Other operands stand in the instruction itself (`#`): a
number (`i`), a jump's target (`l`), a buffer (`b`), a pointer parameter (`g`), a string (`s`).

A **view** has a memory space (L1 of the thread, L2 of the block, L3 of the device), an element type, and up
to five axes with extents and strides. Operations on views of the wrong space, type or extents end the
launch with a [fault](#faults) that names the source line.

In the operand column, `>` is written, `<` is read, `+` is read and written. Units: S scalar, V vector, M
matrix, D data transfer engine (DTE), Y synchronisation. The cost is in units of work of the unit; a
[specification](../tops_kit/gcu/parts) says how many it does in a cycle. `groups(x)` is how many 128-byte
vectors a view occupies, row by row; `macs` are multiply-accumulates; `lanes` is how many elements a vector
register holds.
"""
_GROUPS = {
    "control": (
        "Control",
        "Jumps name an instruction. When every thread of a block that still runs waits at a barrier, and one "
        "has ended, the barrier is divergent: a fault.",
    ),
    "scalar": (
        "Scalars",
        "32-bit integers wrap; floats are f32. f16 and bf16 scalars live as f32 that is rounded after each "
        "step, small integers and bool as i32. The meaning is given as a Python expression.",
    ),
    "view": ("Views", "A view costs one cycle of the scalar unit; no memory is touched."),
    "memory": ("Single elements", "On L1 and L2. Indices that the view has no axis for are not looked at."),
    "atomic": (
        "Atomics",
        "In the order of threads, so that results are the same each time.",
    ),
    "tile": (
        "Tiles",
        "All operands lie in L1. Shapes broadcast as numpy's. A compiler's tile gets its extents from what "
        "is written; other destinations must have them already.",
    ),
    "matrix": ("Matrices", "f32, f16 and bf16 accumulate in f32; integers in i32."),
    "dte": (
        "Data transfer engine",
        "A transfer runs beside the other units. Its event is a number that counts from 1 in each thread; "
        "channel 255 is the block's own.",
    ),
    "vector": (
        "Vector registers",
        "128 bytes: 32 lanes of f32 or i32, 64 of f16, bf16 or i16, 128 of i8, u8 or bool.",
    ),
}


def page() -> str:
    """The whole page, Markdown."""
    version = f"Version of the table: {TABLE_VERSION}; {len(INSTRUCTIONS)} instructions.\n"
    parts = [_INTRODUCTION, _types(), version]
    for group, (title, text) in _GROUPS.items():
        parts.append(f"## {title}\n\n{_wrapped(text)}\n\n{''.join(_rows(group))}")
        if group == "control":
            parts.append(_special())
    parts.append(_faults())
    return "\n".join(parts)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False))


def _types() -> str:
    rows = "".join(
        f"| `{dtype}` | {dtype.code} | {dtype.size_bytes} | `{accumulator(dtype)}` |\n" for dtype in DTYPES
    )
    return f"| Type | Code | Bytes | Sums and products in |\n|---|---|---|---|\n{rows}"


def _rows(group: str) -> Iterator[str]:
    yield "| Code | Name | Operands | Unit | What it does | Cost |\n|---|---|---|---|---|---|\n"
    for instruction in INSTRUCTIONS:
        if instruction.group == group:
            cells = (
                str(OPCODES[instruction.name]),
                f"`{instruction.name}`",
                _operands(instruction),
                instruction.unit,
                _meaning(instruction),
                f"`{instruction.cost}`",
            )
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _operands(instruction: Instruction) -> str:
    return ", ".join(f"`{operand.role}{operand.kind} {operand.name}`" for operand in instruction.operands)


def _meaning(instruction: Instruction) -> str:
    """The text, with the expression where it says more."""
    if instruction.group == "scalar" and instruction.name[0] in "il" and instruction.py:
        return f"{instruction.text}: `{instruction.py}`"
    return instruction.text


def _special() -> str:
    names = ", ".join(f"{number} `{name}`" for number, name in enumerate(SPECIAL))
    return f"{_wrapped(f'Numbers that `special` reads: {names}.')}\n"


def _faults() -> str:
    rows = "".join(f"| {kind.number} | `{kind.name}` | {kind.text} |\n" for kind in FAULTS)
    text = "From 32 on, only the sanitizer finds them."
    return f"## Faults\n\n{text}\n\n| Number | Name | Meaning |\n|---|---|---|\n{rows}"


def main(argv: list[str] | None = None) -> int:
    """Write the page to the file that is named."""
    parser = argparse.ArgumentParser(prog="python -m tops_kit.isa.reference", description=__doc__)
    parser.add_argument("file", type=Path, help="where the page goes")
    parser.parse_args(argv).file.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
