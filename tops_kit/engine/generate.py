"""Writes the machine's C from the instruction table: `python -m tops_kit.engine.generate FOLDER`.

machine_bodies.inc has the instructions' bodies (machine_bodies.py), opcodes.h their numbers and operands.
Uses the standard library only: it runs while the package is being built (building.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tops_kit.engine.machine_bodies import body
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.table import INSTRUCTIONS, MAX_OPERANDS, SPECIAL, TABLE_VERSION, Instruction

_HEADER = "/* Written by tops_kit/engine/generate.py from tops_kit/isa/table.py: change those. */\n"
_MAX_RANK = 3  # of buffers and reshaped views
# how many values immediates have that the machine uses without a look; the others it checks
_LIMITS = {"dtype": len(DTYPES), "which": len(SPECIAL), "result": 2, "kind": 3, "rank": _MAX_RANK + 1}

_OPCODE = f"""\
typedef struct {{
    char operand[{MAX_OPERANDS}]; /* kinds: r t v i l b g s, 0 for none */
    uint16_t limit[{MAX_OPERANDS}]; /* how many values an immediate has; 0: any */
    uint8_t cycles; /* that the scalar unit issues */
    char unit;
    uint8_t atomic;
}} opcode;
"""


def bodies() -> str:
    """machine_bodies.inc: every instruction's block."""
    return "\n\n".join([_HEADER.rstrip(), *(body(instruction) for instruction in INSTRUCTIONS)]) + "\n"


def opcodes() -> str:
    """opcodes.h: numbers, operand kinds, units and scalar costs of the instructions."""
    return "\n".join(_opcode_lines()) + "\n"


def _opcode_lines() -> Iterator[str]:
    yield _HEADER
    yield "#ifndef TOPS_OPCODES_H\n#define TOPS_OPCODES_H\n#include <stdint.h>\n"
    yield f"enum {{ TABLE_VERSION = {TABLE_VERSION}, OPCODES = {len(INSTRUCTIONS)} }};\n"
    yield "enum {"
    yield from (f"    OP_{x.name}," for x in INSTRUCTIONS)
    yield "};\n"
    yield "#define FOR_EACH_OPCODE(X) \\"
    yield from (f"    X({x.name}) \\" for x in INSTRUCTIONS)
    yield f"\n{_OPCODE}"
    yield "static const opcode opcode_of[OPCODES] = {"
    yield from (_opcode_row(x) for x in INSTRUCTIONS)
    yield "};\n\nenum {"
    yield from (f"    SPECIAL_{name.upper()}," for name in SPECIAL)
    yield "};\n\n#endif"


def _opcode_row(x: Instruction) -> str:
    kinds = ", ".join(f"'{o.kind}'" for o in x.operands) or "0"
    limits = ", ".join(str(_LIMITS.get(o.name, 0) if o.kind == "i" else 0) for o in x.operands) or "0"
    cycles = x.cost if x.unit == "S" and x.cost.isdigit() else "1"
    rest = f"{cycles}, '{x.unit}', {int(x.group == 'atomic')}"
    return f"    [OP_{x.name}] = {{{{{kinds}}}, {{{limits}}}, {rest}}},"


def write(folder: Path) -> list[Path]:
    """Write both files into `folder`. A file that would stay the same is left alone: nothing is rebuilt."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, text in (("machine_bodies.inc", bodies()), ("opcodes.h", opcodes())):
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        out.append(path)
    return out


if __name__ == "__main__":
    write(Path(sys.argv[1]))
