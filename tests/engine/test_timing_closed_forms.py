"""The cost model where paper and pencil give the answer, to the cycle; in C and in its twin."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.timing_traces import (
    L1,
    L2,
    L3,
    LOAD,
    MATRIX,
    NONE,
    S60,
    STORE,
    TILE,
    WAIT,
    Thread,
    bare,
    double_buffered,
    replay,
)
from tops_kit import extension
from tops_kit.engine.timing_result import TimingResult

LATENCY = S60.latency[L3]


@pytest.fixture(params=["C", "twin"])
def run(request: pytest.FixtureRequest) -> Any:
    """`run(traces, block_threads, parameters, ...)` of both implementations."""
    pure = request.param == "twin"
    if not pure and extension.load("tops_kit.engine._timing", 1)[0] is None:
        pytest.skip("needs the C extension")

    def times(*arguments: Any, **options: Any) -> TimingResult:
        return replay(*arguments, pure=pure, **options)

    return times


def _one_load(size: int, **more: Any) -> Any:
    t = Thread()
    t.wait(t.dma(size, scalar=0, **more), scalar=0)
    return t.end(scalar=0)


@pytest.mark.smoke
@pytest.mark.parametrize("size", [0, 1, 128, 129, 65536, 1_000_000])
def test_one_transfer_is_latency_and_bytes_by_bandwidth(run: Any, size: int) -> None:
    result = run([_one_load(size)], 1, bare())
    assert result.cycles == LATENCY + math.ceil(size / S60.port)
    assert result.moved[L3, L1] == size
    assert result.moved.sum() == size


@pytest.mark.parametrize(
    ("source", "to", "rate", "memory"),
    [
        (L3, L1, S60.port, L3),
        (L1, L3, S60.port, L3),
        (L2, L1, S60.port, L2),
        (L1, L2, S60.port, L2),
        (L1, L1, S60.port, L1),
        (NONE, L1, S60.port, L1),
        (L3, L2, S60.link, L3),  # past the port
        (L2, L3, S60.link, L3),
        (L3, L3, S60.link / 2, L3),  # there and back
        (L2, L2, S60.l2 / 2, L2),
        (NONE, L3, S60.link, L3),
        (NONE, L2, S60.l2, L2),
    ],
)
def test_every_route_has_its_bandwidth(run: Any, source: int, to: int, rate: float, memory: int) -> None:
    result = run([_one_load(10**6, source=source, to=to)], 1, bare())
    assert result.cycles == S60.latency[memory] + math.ceil(10**6 / rate)
    assert result.moved[source, to] == 10**6


def test_transfers_of_a_channel_follow_one_another(run: Any) -> None:
    t = Thread()
    for size in (1000, 2000, 3000):
        t.dma(size, channel=3, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == sum(LATENCY + math.ceil(size / S60.port) for size in (1000, 2000, 3000))
    assert result.channel[0, 3].tolist() == [3, result.cycles, 6000]


def test_channels_overlap_their_latencies_and_take_the_port_in_turn(run: Any) -> None:
    t = Thread()
    for channel in range(4):
        t.dma(12800, channel=channel, scalar=0)
    result = run([t.wait_all(scalar=0).end(scalar=0)], 1, bare())
    assert result.cycles == LATENCY + 4 * 12800 / S60.port
    assert result.of_sips("dte_busy")[0] == 400
    assert result.of_sips("dma")[0] == result.cycles


@pytest.mark.parametrize("channels", [S60.channels, S60.channels + 3])  # powers of two
def test_channels_are_taken_modulo_those_of_the_part_but_the_blocks_own(run: Any, channels: int) -> None:
    t = Thread()
    for channel in (1, 1 + S60.channels, 255):
        t.dma(128, channel=channel, scalar=0)
    result = run([t.end(scalar=0)], 1, bare(channels=channels))
    assert result.cycles == (LATENCY + 1) + (LATENCY + 1)  # the block's flows between them
    assert result.channel[0, :, 0].tolist() == [0, 2, *[0] * (channels - 2), 1]


def test_a_chained_transfer_starts_when_the_first_is_complete(run: Any) -> None:
    t = Thread()
    first = t.dma(12800, to=L2, channel=0, scalar=0)
    t.dma(12800, L2, L1, channel=1, after=first, scalar=0)
    result = run([t.wait_all(scalar=0).end(scalar=0)], 1, bare())
    assert result.cycles == LATENCY + 12800 / S60.link + S60.latency[L2] + 12800 / S60.port


def test_a_store_waits_for_what_it_stores(run: Any) -> None:
    t = Thread().tile(1000, 0, scalar=0)
    t.dma(1280, L1, L3, read=0, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == S60.vector_startup + 1000 + LATENCY + 10


def test_a_load_waits_for_those_that_read_its_slot(run: Any) -> None:
    t = Thread().matrix(512 * 1000, 1, 0, 0, scalar=0)
    t.dma(1280, written=0, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == S60.matrix_startup + 1000 + LATENCY + 10


def test_a_full_channel_holds_the_scalar_unit(run: Any) -> None:
    t = Thread()
    for _ in range(3):
        t.dma(1280, scalar=0)
    result = run([t.end(scalar=0)], 1, bare(channel_depth=1))
    each = LATENCY + 10
    assert result.of_sips("dma")[0] == 3 * each
    assert result.cycles == 3 * each
    assert result.pc[LOAD].tolist()[:4] == [3, 3 * each, 3 * each, 3840]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("size", "groups"), [(64_000, 100), (64_000, 1000), (64_000, 1088), (64_000, 5000), (0, 1)]
)
def test_double_buffering_is_the_slower_of_both_and_a_ramp(run: Any, size: int, groups: int) -> None:
    steps = 50
    result = run([double_buffered(steps, size, groups)], 1, bare())
    load, compute = LATENCY + math.ceil(size / S60.port), S60.vector_startup + groups
    ramp = load + compute
    overhead = 4 * steps + 1  # scalar instructions
    bound = (steps - 1) * max(load, compute) + ramp
    assert bound <= result.cycles <= bound + overhead
    assert result.of_sips("vector_busy")[0] == steps * compute
    assert result.channel[0, 0].tolist() == [steps, steps * load, steps * size]


@pytest.mark.smoke
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 12, 24])
def test_sips_share_l3_fairly(run: Any, threads: int) -> None:
    blocks, block_threads = (2, threads // 2) if threads > 12 else (1, threads)
    size = 480_000
    result = run([_one_load(size)] * threads, block_threads, bare())
    each = min(S60.port, S60.link * blocks / threads, S60.l3 / threads)
    assert result.cycles == LATENCY + math.ceil(size / each)
    assert set(result.of_sips("dma").tolist()) <= {result.cycles, 0}
    assert result.moved[L3, L1] == threads * size


def test_what_one_does_not_take_the_others_have(run: Any) -> None:
    """Max-min: a cluster's link holds its twelve SIPs; the other cluster's only one has what they leave."""
    traces = [_one_load(240_000)] * 12 + [_one_load(720_000)] + [Thread().end(scalar=0)] * 11
    result = run(traces, 12, bare(link=240.0, l3=300.0))
    # thirteen flows of 300: 23 each, but the link's are held at 20, which leaves 60
    assert result.of_sips("dma").tolist()[:13] == [LATENCY + 12_000] * 13


def test_a_sips_transfers_flow_in_the_order_of_their_issue(run: Any) -> None:
    """The store waits for a unit first; then it goes before the load that was issued after it."""
    t = Thread().tile(88, 0, scalar=0)
    store = t.dma(12_800, L1, L3, read=0, channel=0, scalar=0)
    load = t.dma(25_600, channel=1, scalar=0)
    t.wait(store, scalar=0)
    result = run([t.wait(load, scalar=0).end(scalar=0)], 1, bare(), intervals=True)
    flows = {row["pc"]: (row["start"], row["end"]) for row in result.intervals if row["unit"] == 4}
    assert flows[STORE] == (100, 100 + LATENCY + 100)
    assert flows[LOAD] == (0, LATENCY + 300)


def test_a_later_transfer_has_what_an_earlier_one_leaves(run: Any) -> None:
    t = Thread()
    t.dma(100_000, L3, L1, channel=0, scalar=0)
    t.dma(28_000, L2, L1, channel=1, scalar=0)
    result = run([t.end(scalar=0)], 1, bare(link=100.0, latency=(0, 600, 600, 600)), intervals=True)
    assert [row["end"] for row in result.intervals if row["unit"] == 4] == [LATENCY + 1000] * 2


def test_sips_share_by_their_first_transfers(run: Any) -> None:
    """One with many transfers gets no more than one with one."""
    many = Thread()
    for channel in range(4):
        many.dma(32_000, channel=channel, scalar=0)
    result = run([many.end(scalar=0), _one_load(128_000)], 2, bare(link=200.0))
    assert result.of_sips("dma").tolist()[:2] == [LATENCY + 1280] * 2


def test_l2_traffic_leaves_l3_alone(run: Any) -> None:
    """Each cluster's L2 is its own: the second cluster's threads do not slow the first's."""
    one = run([_one_load(768_000, source=L2)] * 12, 12, bare())
    two = run([_one_load(768_000, source=L2)] * 24, 12, bare())
    assert one.cycles == two.cycles == S60.latency[L2] + math.ceil(768_000 * 12 / S60.l2)


def test_a_rate_rises_when_others_are_done(run: Any) -> None:
    t = Thread()
    t.dma(6400, channel=0, scalar=0)
    t.dma(12800, channel=1, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == LATENCY + (6400 + 12800) / S60.port


def test_units_work_beside_one_another(run: Any) -> None:
    t = Thread().tile(500, 0, scalar=0).matrix(512 * 800, 1, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == S60.matrix_startup + 800
    assert result.pc[TILE].tolist()[:2] == [1, S60.vector_startup + 500]
    assert result.of_sips("matrix")[0] == result.cycles


def test_an_operation_waits_for_the_other_unit(run: Any) -> None:
    t = Thread().tile(500, 0, scalar=0).matrix(512 * 800, 1, 0, scalar=0).tile(10, 2, 1, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == 2 * S60.vector_startup + 510 + S60.matrix_startup + 800


def test_vector_registers_need_no_start_up(run: Any) -> None:
    t = Thread()
    for _ in range(100):
        t.vector()
    result = run([t.end()], 1, bare())
    assert result.cycles == 101  # one a cycle, and the end


def test_rates_by_type(run: Any) -> None:
    for dtype, rate in (("f32", 512), ("f16", 2048), ("bf16", 2048), ("i8", 4096), ("i32", 512)):
        result = run([Thread().matrix(4096 * 10 + 1, dtype=dtype, scalar=0).end(scalar=0)], 1, bare())
        assert result.cycles == S60.matrix_startup + math.ceil((4096 * 10 + 1) / rate)


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_a_full_queue_holds_the_scalar_unit(run: Any, depth: int) -> None:
    t = Thread()
    for _ in range(10):
        t.tile(88, scalar=0)
    t.atomic(L3, scalar=0)
    result = run([t.end(scalar=0)], 1, bare(queue_depth=depth))
    assert result.of_sips("queue")[0] == (10 - depth) * 100
    assert result.of_sips("atomic")[0] == S60.atomic[L3]


def test_scalar_cycles_add_up(run: Any) -> None:
    result = run([Thread().sync(scalar=100).end(scalar=11)], 1, bare(scalar_issue=3))
    assert result.cycles == result.of_sips("scalar")[0] == 333


def test_the_scalar_unit_waits_for_a_slot(run: Any) -> None:
    t = Thread().tile(988, 0, scalar=0).sync(1, scalar=0).sync(0, scalar=0).atomic(L1, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == 1000 + S60.atomic[L1]
    assert result.of_sips("vector")[0] == 1000


@pytest.mark.smoke
def test_a_barrier_is_the_last_arrival_and_its_cost(run: Any) -> None:
    early = Thread().barrier(scalar=10).end(scalar=0)
    late = Thread().tile(988, scalar=10).barrier(scalar=0).end(scalar=0)
    result = run([early, late], 2, bare())
    assert result.cycles == 10 + 1000 + S60.barrier
    assert result.of_sips("barrier").tolist()[:2] == [1000 + S60.barrier, S60.barrier]
    assert result.of_sips("vector").tolist()[:2] == [0, 1000]


def test_a_barrier_is_of_one_block(run: Any) -> None:
    slow = Thread().barrier(scalar=5000).end(scalar=0)
    quick = Thread().barrier(scalar=1).end(scalar=0)
    result = run([quick, quick, slow, slow], 2, bare())
    assert result.of_sips("barrier")[:2].tolist() == [S60.barrier] * 2
    assert result.of_sips("tail")[0] == 4999


def test_a_grid_barrier_is_of_all_blocks(run: Any) -> None:
    slow = Thread().grid_barrier(scalar=5000).end(scalar=0)
    quick = Thread().grid_barrier(scalar=1).end(scalar=0)
    result = run([quick, quick, slow, slow], 2, bare())
    assert result.cycles == 5000 + S60.grid_barrier
    assert result.of_sips("tail")[0] == 0


def test_the_end_waits_for_everything(run: Any) -> None:
    t = Thread().tile(100, scalar=0)
    t.dma(128_000, L1, L3, scalar=0)
    result = run([t.end(scalar=0)], 1, bare())
    assert result.cycles == LATENCY + 1000
    assert result.of_sips("vector")[0] == 112
    assert result.of_sips("dma")[0] == LATENCY + 1000 - 112


def test_a_tile_of_atomics_reads_and_writes_its_memory(run: Any) -> None:
    t = Thread().tile(88, 0, scalar=0).tile_atomic(12800, L3, 1, 0, scalar=0)
    result = run([t.end(scalar=0)] * 12, 12, bare())
    assert result.cycles == 100 + S60.atomic[L3] + 12 * 12800 * 2 / S60.link
    assert result.of_sips("atomic")[0] == result.cycles


@pytest.mark.smoke
def test_the_ramp_of_a_launch(run: Any) -> None:
    empty = Thread().end()
    for blocks, last in ((1, 1), (2, 1), (3, 2), (8, 4)):
        result = run([empty] * blocks, 1, S60)
        assert result.cycles == S60.launch + last * S60.dispatch + 1
        assert result.of_sips("launch").max() == S60.launch + last * S60.dispatch


def test_blocks_go_round_robin_over_clusters(run: Any) -> None:
    result = run([Thread().end()] * 6, 2, S60)
    threads = result.of_sips("threads")
    assert threads[:4].tolist() == [1, 1, 1, 1]  # blocks 0 and 2
    assert threads[12:14].tolist() == [1, 1]  # block 1
    assert threads.sum() == 6


def test_blocks_run_in_waves(run: Any) -> None:
    """Five blocks of 12 on two clusters of 12: three in a row on the first."""
    busy = Thread().sync(scalar=1000).end(scalar=0)
    result = run([busy] * 60, 12, S60)
    assert result.cycles == S60.launch + 3 * (S60.dispatch + 1000)
    assert result.of_sips("threads").tolist() == [3] * 12 + [2] * 12
    assert result.of_sips("tail").tolist() == [0] * 12 + [S60.dispatch + 1000] * 12


def test_a_slot_of_a_cluster_is_taken_when_its_block_ends(run: Any) -> None:
    p = replace(bare(), clusters=1, sips_per_cluster=4, dispatch=10)
    long, short = (Thread().sync(scalar=n).end(scalar=0) for n in (1000, 100))
    result = run([long, long, short, short, short, short], 2, p)
    assert result.cycles == 1010
    assert result.of_sips("threads").tolist() == [1, 1, 2, 2]
    assert result.of_sips("launch").tolist() == [10, 10, 30, 30]


def test_waiting_is_blamed_on_what_was_waited_for(run: Any) -> None:
    t = Thread()
    event = t.dma(12800, scalar=0)
    t.wait(event, scalar=0).matrix(512 * 968, 0, scalar=0).sync(0, scalar=0)
    result = run([t.end(scalar=0)], 1, bare(), intervals=True)
    assert result.of_instructions("blamed")[LOAD] == LATENCY + 100
    assert result.of_instructions("dma")[WAIT] == LATENCY + 100
    assert result.of_instructions("blamed")[MATRIX] == 1000
    stalls = result.intervals[result.intervals["unit"] == 1]
    assert stalls[["start", "end", "pc", "waited_pc"]].tolist() == [
        (0, 700, WAIT, LOAD),
        (700, 1700, 8, MATRIX),
    ]


@pytest.mark.parametrize("end", ["wait", "end"])
def test_waiting_for_a_store_is_first_waiting_for_what_it_stores(run: Any, end: str) -> None:
    t = Thread()
    t.matrix(512 * 968, 0, scalar=0)
    event = t.dma(12800, L1, L3, read=0, scalar=0)
    if end == "wait":
        t.wait(event, scalar=0)
    else:
        t.wait_all(scalar=0)
    result = run([t.end(scalar=0)], 1, bare(), intervals=True)
    assert result.cycles == 1000 + LATENCY + 100
    assert result.of_instructions("matrix").sum() == result.of_instructions("blamed")[MATRIX] == 1000
    assert result.of_instructions("dma").sum() == result.of_instructions("blamed")[STORE] == LATENCY + 100
