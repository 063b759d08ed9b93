"""Programs as text and as data: names for what stands behind numbers, source lines beside instructions."""

from __future__ import annotations

import json
import re

import pytest

from tops_kit.isa import disassemble, dtypes, places
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.table import INSTRUCTIONS


def line(text, name):
    (found,) = [x for x in text.splitlines() if re.match(rf"\s*\d+ (L\d+:)?\s*{name}\b", x)]
    return found


@pytest.mark.smoke
def test_operands_are_named(program):
    text = disassemble.text(program)
    assert "tptr         t0, x" in line(text, "tptr")
    assert "row[r0=0], result=0" in line(text, "tbuf")
    assert "L12" in line(text, "bge")
    assert "12 L12:" in line(text, "end")
    assert 'assert       r5, "i is never 0"' in line(text, "assert")
    assert "thread_id" in line(text, "special")
    assert "v0, r2=nan, f32" in line(text, "vsplat")
    assert "order=10" in line(text, "tperm")


def test_what_a_launch_needs_stands_first(program):
    head = disassemble.text(program).split("\n\n", 1)[0]
    assert "kernel kernel" in head and "s60" in head and "13 instructions" in head
    assert re.search(r"x: ptr\(f32, 2\) +loaded, stored, atomic", head)
    assert re.search(r"n: i32 +r4", head)
    assert "row: f32 1 x 64, 2 slots  L1 0..512" in head
    assert "SCALE = 2.5" in head


def test_source_lines_stand_beside_the_first_of_their_instructions(program):
    text = disassemble.text(program)
    assert line(text, "tptr").endswith("; k.py:7  load(row, x[i])")
    assert ";" not in line(text, "dma")
    assert line(text, "tmul_s").endswith("; k.py:2  < k.py:8  return v * 2.0")


def test_a_written_register_is_no_constant():
    asm = Assembler()
    asm.op("iadd", asm.constant(1), asm.constant(1), asm.constant(2))
    asm.op("end")
    assert "r0, r0, r1=2" in disassemble.text(asm.finish())


def test_nothing_that_a_terminal_acts_upon():
    asm = Assembler()
    asm.source("k\x1b[2J.py", "a\tb\x1b]0;x\x07\r\n")
    asm.at(1)
    asm.op("assert", "a", 'say "\x1b[1m"\n')
    asm.op("end")
    text = disassemble.text(asm.finish())
    assert not re.search(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f]", text)


def test_lines_that_the_program_does_not_hold():
    asm = Assembler()
    asm.source("k.py", "only\n", first_line=5)
    for number in (4, 5, 9):
        asm.at(number)
        asm.op("brk")
    asm.op("end")
    program = asm.finish()
    assert [places.chain(program, pc)[0].source for pc in range(3)] == ["", "only", ""]
    assert str(places.chain(program, 1)[0]) == "k.py:5:1"


def test_chains_begin_inside(program):
    chain = places.chain(program, 6)
    assert [place.line for place in chain] == [2, 8]


def test_data_is_json(program):
    data = json.loads(json.dumps(disassemble.plain(program), allow_nan=False))
    assert data["labels"] == {"L1": 1, "L12": 12}
    bge = data["instructions"][1]
    assert (bge["name"], bge["operands"]["target"], bge["unit"]) == ("bge", 12, "S")
    assert [place["line"] for place in data["instructions"][6]["places"]] == [2, 8]
    assert data["constants"][2]["value"] == "nan"
    assert data["l1_bytes"] == 512


def test_every_instruction_has_a_text():
    asm = Assembler()
    asm.pointer("x", dtypes.F32)
    asm.buffer("row", "L1", dtypes.F32, (8,))
    asm.string("text")
    for instruction in INSTRUCTIONS:
        asm.op(instruction.name, *[0] * len(instruction.operands))
    asm.op("end")
    program = asm.finish()
    text = disassemble.text(program)
    for instruction in INSTRUCTIONS:
        assert instruction.name in text
    json.dumps(disassemble.plain(program))
