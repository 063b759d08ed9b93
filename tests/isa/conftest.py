"""A program that has something of everything the format holds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tops_kit.isa import dtypes
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.program import Program

SOURCE = """def helper(v):
    return v * 2.0

def kernel(x, n, SCALE):
    row = l1(f32, (1, 64), slots=2)
    for i in range(n):
        load(row, x[i])
        row = helper(row)
"""


def full_program(name: str = "kernel") -> Program:
    asm = Assembler(name)
    asm.source("kernels/k.py", SOURCE)
    asm.at(4, 0, 30)
    x = asm.pointer("x", dtypes.F32, 2, atomic=True)
    n = asm.scalar("n", dtypes.I32)
    asm.at(5, 4, 35)
    row = asm.buffer("row", "L1", dtypes.F32, (1, 64), slots=2)
    asm.buffer("shared", "L2", dtypes.BF16, (4, 4, 4))
    asm.at(6, 4, 27)
    asm.variable("i", "scalar", dtypes.I32, "i", first_pc=1, last_pc=8)
    asm.variable("row", "buffer", dtypes.F32, row, shape=(1, 64), last_pc=8)
    asm.op("special", "i", "thread_id")
    asm.label("loop")
    asm.op("bge", "i", n, "done")
    asm.at(7, 8, 23)
    asm.op("tptr", "t1", x)
    asm.op("tbuf", "t0", row, asm.constant(0), 0)
    asm.op("dma", "ev", "t0", "t1", asm.constant(0), 3)
    asm.op("wait", "ev")
    call = asm.at(8, 14, 25)
    asm.at(2, 11, 18, parent=call)
    asm.op("tmul_s", "t0", "t0", 2.0)
    asm.op("tperm", "t2", "t0", (1, 0))
    asm.at(6, 4, 27)
    asm.op("assert", "i", "i is never 0")
    asm.op("vsplat", "v0", float("nan"), "f32")
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("jmp", "loop")
    asm.label("done")
    asm.op("end")
    constexprs = {"SCALE": 2.5, "ROWS": 4, "FLAG": True, "KIND": "tête", "INF": float("-inf")}
    return dataclasses.replace(asm.finish(), constexprs=constexprs)


@pytest.fixture
def program() -> Program:
    return full_program()


@pytest.fixture
def make_program():
    return full_program


def _same(a: Program, b: Program) -> bool:
    for field in dataclasses.fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, np.ndarray):
            if left.dtype != right.dtype or not np.array_equal(left, right):
                return False
        elif repr(left) != repr(right):  # by repr: NaN is like NaN, and -0.0 is not 0.0
            return False
    return True


@pytest.fixture
def same_programs():
    return _same
