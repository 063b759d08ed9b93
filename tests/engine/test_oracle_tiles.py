"""The oracle on tiles and transfers, and behind `launch`: it reaches the tile library as the machine does."""

from __future__ import annotations

import numpy as np
import pytest

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.launch import GlobalArray, launch
from tops_kit.isa import dtypes
from tops_kit.isa.assembler import Assembler


def argument(array):
    dtype = next(d for d in dtypes.DTYPES if d.numpy == array.dtype.name)
    return GlobalArray.of(array, dtype)


def run(asm, *arrays, **options):
    given = {"grid": (1,), "block": (1,), "engine": "oracle"} | options
    return launch(asm.finish(), [argument(a) for a in arrays], **given)


def copying(shape, *, out_shape=None, dtype=dtypes.F32):
    """x into L1 tile `t`; `finish_copy` stores tile `d` to y."""
    asm = Assembler()
    asm.pointer("x", dtype, len(shape), stored=False)
    asm.pointer("y", dtype, len(out_shape or shape), loaded=False)
    asm.buffer("row", "L1", dtype, shape)
    c = asm.constant
    asm.op("tptr", "x", "x")
    asm.op("tptr", "y", "y")
    asm.op("tbuf", "t", "row", c(0), 0)
    asm.op("dma", "e", "t", "x", c(0), 0)
    asm.op("wait", "e")
    return asm


def store(asm, tile="t"):
    asm.op("dma", "e", "y", tile, asm.constant(0), 0)
    asm.op("wait", "e")
    asm.op("end")


@pytest.mark.smoke
def test_a_kernel_with_a_result_tile():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.zeros((3, 1), np.float32)
    asm = copying((3, 4), out_shape=(3, 1))
    asm.buffer("sums", "L1", dtypes.F32, (8, 1))
    asm.op("tbuf", "d", "sums", asm.constant(0), 1)
    asm.op("trsum", "d", "t", 1)
    asm.op("tmul_s", "d", "d", asm.constant(0.5))
    store(asm, "d")
    result = run(asm, x, y, mode="counted")
    assert np.array_equal(y[:, 0], x.sum(1) / 2)
    assert result.engine == "oracle"
    assert result.counts is not None and result.counts.tolist() == [1] * len(asm)


def test_a_result_that_does_not_fit_its_buffer():
    asm = copying((3, 4))
    asm.buffer("small", "L1", dtypes.F32, (2, 4))
    asm.op("tbuf", "d", "small", asm.constant(0), 1)
    asm.op("tneg", "d", "t")
    store(asm, "d")
    with pytest.raises(KernelFault, match="do not fit") as caught:
        run(asm, np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32))
    assert caught.value.kind.name == "shape"


def test_a_source_in_the_register_of_the_result():
    """The tile is read with its own extents although the result gives the register others."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.zeros((2, 1), np.float32)
    asm = copying((2, 3), out_shape=(2, 1))
    asm.op("tbuf", "r", "row", asm.constant(0), 1)
    asm.op("trmax", "r", "r", 1)
    store(asm, "r")
    run(asm, x, y)
    assert y[:, 0].tolist() == [2, 5]


def test_padding_and_clipping():
    x = np.arange(1, 6, dtype=np.float32)
    y = np.zeros(6, np.float32)
    asm = Assembler()
    asm.pointer("x", dtypes.F32, 1)
    asm.pointer("y", dtypes.F32, 1)
    asm.buffer("row", "L1", dtypes.F32, (8,))
    c = asm.constant
    asm.op("tptr", "x", "x")
    asm.op("tptr", "y", "y")
    asm.op("tbuf", "t", "row", c(0), 0)
    asm.op("tover", "x", "x", 0, c(-2), c(6))
    asm.op("dmapad", "e", "t", "x", c(9.0), c(0), 0)
    asm.op("tover", "y", "y", 0, c(-1), c(7))
    asm.op("dmaclip", "e", "y", "t", c(0), 0)
    asm.op("end")
    run(asm, x, y)
    assert y.tolist() == [9, 1, 2, 3, 4, 5]


def test_a_missing_wait_shows_when_transfers_move_late():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    asm = Assembler()
    asm.pointer("x", dtypes.F32, 1)
    asm.pointer("y", dtypes.F32, 1)
    asm.buffer("row", "L1", dtypes.F32, (4,))
    c = asm.constant
    asm.op("tptr", "x", "x")
    asm.op("tptr", "y", "y")
    asm.op("tbuf", "t", "row", c(0), 0)
    asm.op("dma", "in", "t", "x", c(0), 0)
    asm.op("tadd_s", "t", "t", c(1.0))  # without a wait
    asm.op("dma", "out", "y", "t", c(0), 1)
    asm.op("wait", "out")
    asm.op("end")
    run(asm, x, y)
    assert y.tolist() == [2] * 4
    run(asm, x, y, mode="debug", defer=True)
    assert y.tolist() == [1] * 4


@pytest.mark.parametrize("how", ["after", "channel"])
def test_what_is_chained_moves_in_order(how):
    """The second transfer is waited for; the first comes before it, by its event or its channel."""
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    asm = Assembler()
    asm.pointer("x", dtypes.F32, 1)
    asm.pointer("y", dtypes.F32, 1)
    asm.buffer("row", "L1", dtypes.F32, (4,))
    c = asm.constant
    asm.op("tptr", "x", "x")
    asm.op("tptr", "y", "y")
    asm.op("tbuf", "t", "row", c(0), 0)
    asm.op("dma", "in", "t", "x", c(0), 3)
    asm.op("dma", "out", "y", "t", "in" if how == "after" else c(0), 4 if how == "after" else 3)
    asm.op("wait", "out")
    asm.op("end")
    run(asm, x, y, mode="debug", defer=True)
    assert y.tolist() == [1] * 4


def test_a_late_fault_is_where_the_transfer_was_issued():
    asm = copying((3,), out_shape=(4,))
    asm.op("dma", "e", "y", "t", asm.constant(0), 0)
    asm.op("brk")
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm, np.zeros(3, np.float32), np.zeros(4, np.float32), mode="debug", defer=True)
    assert (caught.value.kind.name, caught.value.pc) == ("shape", 5)


def test_arrays_that_run_backwards_and_across():
    base = np.arange(24, dtype=np.int16).reshape(4, 6)
    x = base[::-1, ::2]
    y = np.zeros((3, 4), np.int16).T
    asm = copying((4, 3), dtype=dtypes.I16)
    store(asm)
    run(asm, x, y)
    assert np.array_equal(x, y)


def test_an_array_that_is_only_loaded_is_not_stored_to():
    asm = copying((3,))
    asm.op("dma", "e", "x", "t", asm.constant(0), 0)
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm, np.zeros(3, np.float32), np.zeros(3, np.float32))
    assert caught.value.kind.name == "space"


def test_prints_come_as_lines():
    asm = copying((2,), dtype=dtypes.I32)
    asm.op("printtile", "t")
    asm.op("print", "t = {}")
    store(asm)
    result = run(asm, np.array([3, 4], np.int32), np.zeros(2, np.int32))
    assert result.output == ["t = [3, 4]"]


def test_vectors():
    x = np.arange(40, dtype=np.float32)
    y = np.zeros(40, np.float32)
    asm = copying((40,))
    c = asm.constant
    asm.op("vld", "a", "t", c(4))
    asm.op("vsplat", "b", c(2.0), "f32")
    asm.op("vmul", "a", "a", "b", "f32")
    asm.op("vst", "t", c(0), "a")
    asm.op("vrsum", "s", "a", "f32")
    asm.op("sts", "t", c(39), c(0), c(0), "s")
    store(asm)
    run(asm, x, y)
    assert y[:32].tolist() == (x[4:36] * 2).tolist()
    assert y[32:39].tolist() == x[32:39].tolist()
    assert y[39] == x[4:36].sum() * 2


def test_without_the_c_engine_there_is_one_warning(monkeypatch):
    from tops_kit.engine.launch import Engines

    engines = Engines()
    monkeypatch.setattr("tops_kit.engine.launch.ENGINES", engines)
    monkeypatch.setattr(engines, "c", lambda: None)
    engines.why_not = "not built"
    asm = Assembler()
    asm.op("end")
    program = asm.finish()
    with pytest.warns(UserWarning, match="oracle") as caught:
        for _ in range(2):
            launch(program, [], grid=(1,), block=(1,))
    assert len(caught) == 1
