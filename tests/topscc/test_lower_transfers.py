"""Transfers: when the compiler waits, and that what lands late still lands right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topscc.sketch import Sketch, as_argument, names, part, run
from tops_kit.engine.launch import ENGINES, launch
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program
from tops_kit.topscc.target import Target
from tops_kit.topscc.tree import Channel, Value

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore:kernels run on the Python oracle")]

DTE = ("dma", "dmapad", "dmaclip", "dmaset", "wait", "waitall")


def of_dte(program: Program) -> list[str]:
    """Only transfers, waits, barriers and jumps back."""
    return [name for name in names(program) if name in (*DTE, "barrier", "blt", "mma", "tfill")]


def late(program: Program, *arguments: object, block: int = 1) -> None:
    """Run with transfers that move when they complete; needs the C machine."""
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")
    given = [as_argument(a) for a in arguments]
    launch(program, given, grid=(1,), block=(block,), mode="debug", defer=True, engine="c")


def rows(k: Sketch, base: Value, i: object, count: int = 1) -> Value:
    """base[i : i + count]"""
    return k.index(base, [part(i, k.binary("add", i, count)), part(0, 8)])


def test_a_stored_tile_goes_out_while_the_loop_goes_on() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    i = k.begin_range("i", 0, 6, 1, assigns=[])
    v = k.read(i)
    k.store(rows(k, y, v), k.binary("mul", k.load(rows(k, x, v)), 2.0))
    k.end_range()
    program = k.program()
    # the load is awaited; the store of two rounds ago before its slot is reused, the last two at the end
    assert of_dte(program) == ["dma", "wait", "wait", "dma", "blt", "wait", "wait"]
    assert [(b.slots, b.temporary) for b in program.buffers] == [(2, True), (1, True)]
    x_ = np.arange(48, dtype=np.float32).reshape(6, 8)
    for launch_ in (run, late):
        y_ = np.zeros_like(x_)
        launch_(program, x_, y_)
        np.testing.assert_array_equal(y_, x_ * 2)


def test_a_store_is_awaited_at_once_when_the_kernel_loads_from_there() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 2)
    i = k.begin_range("i", 1, 6, 1, assigns=[])
    v = k.read(i)
    k.store(rows(k, x, v), k.binary("add", k.load(rows(k, x, k.binary("sub", v, 1))), 1.0))
    k.end_range()
    program = k.program()
    assert of_dte(program) == ["dma", "wait", "dma", "wait", "blt"]
    x_ = np.zeros((6, 8), np.float32)
    late(program, x_)
    np.testing.assert_array_equal(x_[:, 0], np.arange(6))


def test_a_named_tile_goes_out_like_one_without_a_name() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    i = k.begin_range("i", 0, 6, 1, assigns=[])
    v = k.read(i)
    t = k.declare("t", k.load(rows(k, x, v)))
    k.store(rows(k, y, v), k.read(t))
    k.end_range()
    program = k.program()
    assert [(b.name, b.slots) for b in program.buffers] == [("t", 2)]
    assert of_dte(program) == ["wait", "dma", "wait", "dma", "blt", "wait", "wait"]
    x_, y_ = np.arange(48, dtype=np.float32).reshape(6, 8), np.zeros((6, 8), np.float32)
    late(program, x_, y_)
    np.testing.assert_array_equal(y_, x_)


def test_a_stored_accumulator_is_awaited_before_it_starts_anew_and_not_in_its_sum() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    acc = k.declare("acc", k.full(F32, (8, 8), 0.0))
    i = k.begin_range("i", 0, 3, 1, assigns=[acc])
    k.assign(acc, k.full(F32, (8, 8), 0.0))
    k.begin_range("j", 0, 2, 1, assigns=[acc])
    k.mma(acc, k.load(rows(k, x, 0, 8)), k.load(rows(k, x, 8, 8)))
    k.assign(acc, k.binary("add", k.read(acc), 1.0))
    k.end_range()
    k.store(rows(k, y, k.binary("mul", k.read(i), 8), 8), k.read(acc))
    k.end_range()
    program = k.program()
    assert of_dte(program) == [
        "tfill",
        "wait",
        "tfill",
        "dma",
        "dma",
        "wait",
        "wait",
        "mma",
        "blt",
        "dma",
        "blt",
        "wait",
    ]
    x_ = np.concatenate([np.eye(8), np.full((8, 8), 3.0)]).astype(np.float32)
    y_ = np.zeros((24, 8), np.float32)
    late(program, x_, y_)
    assert np.all(y_ == 8.0)


def test_changing_a_tile_after_its_store_waits() -> None:
    k = Sketch()
    y = k.pointer("y", F32, 2)
    t = k.declare("t", k.full(F32, (1, 8), 1.0))
    k.begin_range("i", 0, 2, 1, assigns=[t])
    k.store(rows(k, y, 0), k.read(t))
    k.assign(t, k.binary("add", k.read(t), 1.0))
    k.end_range()
    k.store(rows(k, y, 1), k.read(t))
    program = k.program()
    y_ = np.zeros((2, 8), np.float32)
    late(program, y_)
    assert y_[:, 0].tolist() == [2.0, 3.0]


def test_stores_at_two_places_into_one_array_keep_their_order() -> None:
    k = Sketch()
    y = k.pointer("y", F32, 2)
    k.store(rows(k, y, 0), k.full(F32, (1, 8), 1.0))
    k.store(rows(k, y, 0), k.full(F32, (1, 8), 2.0))
    program = k.program()
    assert names(program).count("dma") == 2
    y_ = np.zeros((1, 8), np.float32)
    late(program, y_)
    assert y_[0, 0] == 2.0


def test_stores_are_complete_before_a_barrier_even_when_they_stand_below_it() -> None:
    k = Sketch()
    y = k.pointer("y", F32, 2)
    i = k.begin_range("i", 0, 3, 1, assigns=[])
    k.barrier()
    me = k.binary("add", k.binary("mul", k.read(i), 2), k.special("thread_id"))
    k.store(rows(k, y, me), k.full(F32, (1, 8), 1.0))
    k.end_range()
    kept = names(k.program())
    before = kept[: kept.index("barrier")]
    assert before.count("wait") == 2  # both slots


def test_a_transfer_that_follows_a_store_into_the_same_array_waits_for_it() -> None:
    k = Sketch()
    y = k.pointer("y", F32, 2)
    buffer = k.slot(k.buffer("b", "L1", F32, (1, 8)), 0)
    k.store(rows(k, y, 0), k.full(F32, (1, 8), 1.0))
    k.wait(k.transfer(rows(k, y, 0), buffer))
    program = k.program()
    y_ = np.ones((1, 8), np.float32)
    late(program, y_)
    assert y_[0, 0] == 0.0


def test_loads_in_a_row_overlap() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    a, b = k.load(rows(k, x, 0)), k.load(rows(k, x, 1))
    k.store(rows(k, y, 0), k.binary("sub", a, b))
    program = k.program()
    assert of_dte(program) == ["dma", "dma", "wait", "wait", "dma", "wait"]
    x_, y_ = np.arange(16, dtype=np.float32).reshape(2, 8), np.zeros((1, 8), np.float32)
    late(program, x_, y_)
    assert set(y_[0]) == {-8.0}


def test_tails_keep_to_what_there_is() -> None:
    k = Sketch()
    x, y, n = k.pointer("x", F32, 1), k.pointer("y", F32, 1), k.scalar("n", I32)
    i = k.begin_range("i", k.binary("mul", k.special("thread_id"), 16), k.read(n),
                      k.binary("mul", k.special("num_threads"), 16), assigns=[])  # fmt: skip
    here = part(k.read(i), k.binary("min", k.binary("add", k.read(i), 16), k.read(n)))
    t = k.load(k.index(x, [here]))
    k.store(k.index(y, [here]), k.binary("sub", t, k.reduce("max", t, 0)))
    k.end_range()
    program = k.program()
    for n_ in (1, 16, 37, 100):
        x_, y_ = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
        run(program, x_, y_, n_, grid=2, block=2)
        wanted = np.zeros(100, np.float32)
        for start in range(0, n_, 16):
            stop = min(start + 16, n_)
            wanted[start:stop] = x_[start:stop] - x_[stop - 1]
        np.testing.assert_array_equal(y_, wanted)


def test_padding_and_clipping_transposed_and_repeated() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    window = k.index(x, [part(-1, 3), part(2, 6)], outside=True)
    t = k.load(k.transpose(window), pad=-1.0)
    k.store(k.index(y, [part(4, 8), part(0, 4)], outside=True), t, clip=True)
    wide = k.slot(k.buffer("wide", "L1", F32, (3, 4)), 0)
    k.copy(wide, k.index(x, [part(0, 1), part(0, 4)]))
    k.wait(k.memset(k.index(wide, [1]), 7.0))
    k.copy(k.index(y, [part(0, 3), part(0, 4)]), wide)
    x_, y_ = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros((6, 4), np.float32)
    run(k.program(), x_, y_)
    padded = np.pad(x_, ((1, 1), (0, 3)), constant_values=-1)[0:4, 2:6].T
    np.testing.assert_array_equal(y_[4:], padded[:2])
    np.testing.assert_array_equal(y_[:3], [x_[0, :4], [7] * 4, x_[0, :4]])


def test_double_buffering_with_events_in_variables() -> None:
    k = Sketch()
    x, y, n = k.pointer("x", F32, 2), k.pointer("y", F32, 2), k.read(k.scalar("n", I32))
    buffer = k.buffer("row", "L1", F32, (1, 8), slots=2)
    step = k.special("num_threads")
    slot, i = k.declare("slot", 0), k.declare("i", k.special("thread_id"))
    event = k.declare("event", k.no_event())
    k.begin_if(k.compare("lt", k.read(i), n))
    k.assign(event, k.transfer(k.slot(buffer, 0), rows(k, x, k.read(i))))
    k.end_if()
    k.begin_loop(assigns=[slot, i, event])
    k.loop_condition(k.compare("lt", k.read(i), n))
    following = k.declare("following", k.binary("add", k.read(i), step))
    k.wait(k.read(event))
    k.begin_if(k.compare("lt", k.read(following), n))
    k.assign(
        event, k.transfer(k.slot(buffer, k.binary("sub", 1, k.read(slot))), rows(k, x, k.read(following)))
    )
    k.end_if()
    row = k.slot(buffer, k.read(slot))
    k.store(rows(k, y, k.read(i)), k.binary("sub", row, k.reduce("min", row, 1)))
    k.assign(i, k.read(following))
    k.assign(slot, k.binary("sub", 1, k.read(slot)))
    k.end_loop()
    program = k.program()
    x_ = np.arange(88, dtype=np.float32).reshape(11, 8)
    for launch_ in (run, late):
        y_ = np.zeros_like(x_)
        launch_(program, x_, y_, 11, block=3)
        np.testing.assert_array_equal(y_, x_ - x_.min(1, keepdims=True))


def test_a_tile_sent_by_hand_is_not_changed_before_it_is_out() -> None:
    k = Sketch()
    y = k.pointer("y", F32, 2)
    events = k.declare("events", k.no_event())
    i = k.begin_range("i", 0, 3, 1, assigns=[events])
    t = k.binary("add", k.full(F32, (1, 8), 0.0), k.read(i))
    k.assign(events, k.transfer(rows(k, y, k.read(i)), t, after=k.read(events)))
    k.end_range()
    k.wait_all()
    program = k.program()
    y_ = np.zeros((3, 8), np.float32)
    late(program, y_)
    assert y_[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_chained_transfers_through_shared_memory() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    shared = k.slot(k.buffer("shared", "L2", F32, (4, 8)), 0)
    me = k.special("thread_id")
    first = k.transfer(rows(k, shared, me), rows(k, x, me))
    own = k.slot(k.buffer("own", "L1", F32, (1, 8)), 0)
    k.wait(k.transfer(own, rows(k, shared, me), after=first, channel=3))
    k.barrier()
    other = k.binary("mod", k.binary("add", me, 1), 4)
    k.store(rows(k, y, me), k.binary("add", k.load(rows(k, shared, other)), own))
    program = k.program()
    x_ = np.arange(32, dtype=np.float32).reshape(4, 8)
    for launch_ in (run, late):
        y_ = np.zeros_like(x_)
        launch_(program, x_, y_, block=4)
        np.testing.assert_array_equal(y_, x_ + np.roll(x_, -1, 0))


def test_each_place_has_its_channel() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 2)
    b = k.slot(k.buffer("b", "L1", F32, (1, 8)), 0)
    for _ in range(3):
        k.copy(b, rows(k, x, 0))
    k.copy(b, rows(k, x, 0), channel=255)
    shared = Channel("shared")
    for channel in (shared, None, shared):
        k.copy(b, rows(k, x, 0), channel=channel)
    program = k.program()
    channels = [
        row[-1]
        for name, row in zip(names(program), program.code[:, :6].tolist(), strict=True)
        if name == "dma"
    ]
    assert channels == [0, 1, 2, 255, 3, 4, 3]


def test_where_two_slots_do_not_fit_a_store_waits_for_the_one_before() -> None:
    k = Sketch(target=Target("tiny", 3 << 10, 4096))
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    i = k.begin_range("i", 0, 4, 1, assigns=[])
    v = k.read(i)
    t = k.declare("t", k.load(rows(k, x, k.binary("mul", v, 64), 64)))
    k.store(rows(k, y, k.binary("mul", v, 64), 64), k.read(t))
    k.end_range()
    program = k.program()
    assert [(b.name, b.slots) for b in program.buffers] == [("t", 1)]
    assert of_dte(program) == ["wait", "dma", "wait", "dma", "blt", "wait"]
    x_, y_ = np.arange(2048, dtype=np.float32).reshape(256, 8), np.zeros((256, 8), np.float32)
    late(program, x_, y_)
    np.testing.assert_array_equal(y_, x_)
