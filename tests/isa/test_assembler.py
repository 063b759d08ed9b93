"""The assembler: names, labels, buffers and constants become the numbers that the format holds."""

from __future__ import annotations

import pytest

from tops_kit.isa import assembler, dtypes, table


def opcode(program, pc):
    return table.INSTRUCTIONS[program.code[pc, 0]].name


@pytest.mark.smoke
def test_names_get_the_registers_that_numbers_leave_over():
    asm = assembler.Assembler()
    asm.op("iadd", 0, "a", "b")
    asm.op("imov", 2, "a")
    asm.op("end")
    program = asm.finish()
    assert program.code[0, 1:4].tolist() == [0, 1, 3]
    assert program.code[1, 1:3].tolist() == [2, 1]
    assert program.scalars == 4


def test_labels_before_and_behind():
    asm = assembler.Assembler()
    asm.label("again")
    asm.op("brz", "x", "out")
    asm.op("jmp", "again")
    asm.label("out")
    asm.op("end")
    program = asm.finish()
    assert program.code[0, 2] == 2
    assert program.code[1, 1] == 0


def test_an_unknown_label_is_named():
    asm = assembler.Assembler()
    asm.op("jmp", "nowhere")
    with pytest.raises(ValueError, match="nowhere"):
        asm.finish()


def test_buffers_start_on_vectors():
    asm = assembler.Assembler()
    asm.buffer("a", "L1", dtypes.I8, (5,), 3)
    asm.buffer("shared", "L2", dtypes.F16, (2, 65))
    asm.buffer("b", "L1", dtypes.F32, (33,))
    asm.op("end")
    program = asm.finish()
    a, shared, b = program.buffers
    assert (a.offset_bytes, a.slot_bytes) == (0, 128)
    assert (shared.offset_bytes, shared.slot_bytes) == (0, 384)
    assert (b.offset_bytes, b.slot_bytes) == (384, 256)
    assert (program.l1_bytes, program.l2_bytes) == (640, 384)


def test_constants_are_kept_once_by_type_and_sign():
    asm = assembler.Assembler()
    names = {asm.constant(value) for value in (0, 0, 0.0, -0.0, float("nan"), float("nan"), 1)}
    asm.op("end")
    program = asm.finish()
    assert len(names) == len(program.constants) == 5
    assert program.scalars == 5


def test_parameters_strings_types_and_specials():
    asm = assembler.Assembler()
    asm.pointer("x", dtypes.F32, 2)
    n = asm.scalar("n", dtypes.I32)
    asm.pointer("y", dtypes.F32, 1)
    asm.op("tptr", "t", "y")
    asm.op("assert", n, "n is 0")
    asm.op("vsplat", "v", 1.5, "f32")
    asm.op("special", "id", "thread_id")
    asm.op("tperm", "t", "t", (1, 0))
    asm.op("end")
    program = asm.finish()
    assert program.code[0, 2] == 1
    assert program.strings == ("n is 0",)
    assert [p.kind for p in program.parameters] == ["pointer", "scalar", "pointer"]
    assert program.parameters[1].index == program.code[1, 1]
    assert program.code[4, 3] == 0b001
    assert [c.value for c in program.constants] == [1.5]


def test_locations_and_inline_chains():
    asm = assembler.Assembler("k")
    call = asm.at(3)
    asm.op("imov", "a", "b")
    asm.at(10, parent=call)
    asm.op("imov", "b", "a")
    asm.op("end")
    program = asm.finish()
    assert program.location_of.tolist() == [0, 1, 1]
    assert program.locations[1].parent == 0
    assert program.files[0].path == "k.asm"


def test_wrong_operands_are_refused():
    asm = assembler.Assembler()
    with pytest.raises(ValueError, match="iadd takes"):
        asm.op("iadd", "a", "b")
    with pytest.raises(KeyError):
        asm.op("nonsense")
