"""Verification: one line for each number that the machine could not trust."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tops_kit.errors import UserError
from tops_kit.isa import dtypes
from tops_kit.isa import program as parts
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.table import INSTRUCTIONS, OPCODES
from tops_kit.isa.verify import verify


def at(program, name):
    return int(np.flatnonzero(program.code[:, 0] == OPCODES[name])[0])


def changed_operand(program, name, operand, value):
    code = program.code.copy()
    names = [o.name for o in INSTRUCTIONS[OPCODES[name]].operands]
    code[at(program, name), 1 + names.index(operand)] = value
    return dataclasses.replace(program, code=code)


def refused(program, *words):
    with pytest.raises(BinaryError) as caught:
        verify(program)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    assert isinstance(caught.value, UserError)


@pytest.mark.smoke
def test_a_good_program_is_accepted(program):
    verify(program)


@pytest.mark.parametrize(
    ("name", "operand", "value", "words"),
    [
        ("iadd", "d", 4000, ("iadd", "scalar register 4000")),
        ("tmul_s", "a", 9, ("tmul_s", "tile register 9")),
        ("vsplat", "d", 1, ("vector register 1",)),
        ("vsplat", "dtype", 8, ("dtype 8",)),
        ("jmp", "target", 13, ("jump target 13 is not below 13",)),
        ("bge", "target", 65535, ("jump target",)),
        ("tbuf", "buffer", 2, ("buffer 2",)),
        ("tbuf", "result", 2, ("result 2",)),
        ("tptr", "parameter", 1, ("pointer parameter 1",)),
        ("assert", "message", 1, ("string 1",)),
        ("special", "which", 18, ("which 18",)),
        ("dma", "channel", 256, ("channel 256",)),
        ("tperm", "order", 0o5, ("tperm", "order")),
        ("tperm", "order", 1 << 15, ("order",)),
    ],
)
def test_operands_out_of_range(program, name, operand, value, words):
    refused(changed_operand(program, name, operand, value), *words)


def test_axes_are_below_five():
    from tops_kit.isa.assembler import Assembler

    asm = Assembler()
    asm.op("trsum", "t0", "t1", 5)
    asm.op("end")
    with pytest.raises(BinaryError, match=r"instruction 0 \(trsum\): axis 5"):
        asm.finish()


def test_operands_that_the_instruction_has_not_are_zero(program):
    code = program.code.copy()
    code[at(program, "end"), 3] = 1
    refused(dataclasses.replace(program, code=code), "end", "unused")


def test_unknown_opcode(program):
    code = program.code.copy()
    code[2, 0] = len(INSTRUCTIONS)
    refused(dataclasses.replace(program, code=code), "instruction 2", "opcode")


def test_control_cannot_leave(program):
    cut = dataclasses.replace(
        program, code=program.code[:1], location_of=program.location_of[:1], variables=()
    )
    refused(cut, "special")
    empty = dataclasses.replace(program, code=program.code[:0], location_of=program.location_of[:0])
    refused(empty, "0 instructions")


def test_too_long(program):
    code = np.zeros((65536, 8), np.uint16)
    code[:, 0] = OPCODES["end"]
    location_of = np.full(65536, -1, np.int32)
    refused(dataclasses.replace(program, code=code, location_of=location_of), "65536 instructions")
    verify(dataclasses.replace(program, code=code[1:], location_of=location_of[1:]))


def test_arrays_have_their_types(program):
    refused(dataclasses.replace(program, code=program.code.astype(np.int32)), "int32")
    refused(dataclasses.replace(program, code=program.code[:, :7]), "shape")
    refused(dataclasses.replace(program, location_of=program.location_of[1:]), "locations")
    refused(dataclasses.replace(program, location_of=program.location_of + 99), "location")
    refused(dataclasses.replace(program, scalars=65536), "scalar registers")


def with_first(program, field, **changes):
    first, *rest = getattr(program, field)
    return dataclasses.replace(program, **{field: (dataclasses.replace(first, **changes), *rest)})


@pytest.mark.parametrize(
    ("field", "changes", "word"),
    [
        ("buffers", {"space": "L3"}, "L3"),
        ("buffers", {"shape": (1, 1, 1, 1)}, "axes"),
        ("buffers", {"shape": (-1,)}, "shape"),
        ("buffers", {"shape": (1 << 31,)}, "shape"),
        ("buffers", {"shape": (1, 65)}, "260 bytes a slot"),
        ("buffers", {"slots": 0}, "slots"),
        ("buffers", {"offset_bytes": 64}, "128"),
        ("buffers", {"offset_bytes": -128}, "128"),
        ("buffers", {"slot_bytes": 300}, "128"),
        ("buffers", {"offset_bytes": 1 << 50}, "beyond"),
        ("buffers", {"slots": 65535, "slot_bytes": 1 << 40}, "beyond"),
        ("buffers", {"location": 99}, "location"),
        ("buffers", {"name": "a\nb"}, "name"),
        ("parameters", {"kind": "array"}, "array"),
        ("parameters", {"ndim": 6}, "axes"),
        ("parameters", {"index": 1}, "numbered"),
        ("parameters", {"index": -1}, "numbered"),
        ("constants", {"register": 77}, "77"),
        ("constants", {"value": 1 << 31}, "32 bits"),
        ("locations", {"file": 1}, "file"),
        ("locations", {"parent": 0}, "inlined"),
        ("locations", {"line": -1}, "negative"),
        ("variables", {"kind": "list"}, "list"),
        ("variables", {"register": 4000}, "4000"),
        ("variables", {"last_pc": 13}, "13"),
        ("variables", {"first_pc": 9}, "9 to 8"),
        ("variables", {"location": -2}, "location"),
    ],
)
def test_fields_out_of_range(program, field, changes, word):
    refused(with_first(program, field, **changes), word)


def test_two_values_for_one_register(program):
    twice = (*program.constants, dataclasses.replace(program.constants[0], value=5))
    refused(dataclasses.replace(program, constants=twice), "same register")
    scalar = parts.Parameter("m", "scalar", dtypes.I32, program.constants[0].register)
    refused(dataclasses.replace(program, parameters=(*program.parameters, scalar)), "same register")


def test_a_name_with_a_line_break_is_still_one_line(program):
    refused(dataclasses.replace(program, name="a\nb"), "a\\nb")
