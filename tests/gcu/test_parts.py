"""The parts that come with the package, and what-if copies of them."""

from __future__ import annotations

import pytest

from tops_kit import gcu
from tops_kit.gcu.figures import FIELDS


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["i20", "s60", "t20"])
def test_every_figure_has_a_unit_and_a_source(name: str) -> None:
    spec = gcu.load(name)
    figures = spec.figures()
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.unit
        kind, _, why = figure.source.partition(": ")
        assert kind in ("public", "assumption"), figure
        assert len(why) >= 5, figure
        assert str(figure).startswith(f"{figure.name} = ")
    assert 0 < spec.assumed() < len(figures)
    assert spec.heading == f"modelled on {name}: {spec.assumed()} of {len(figures)} figures assumed"


def test_parts_agree_with_what_is_public() -> None:
    s60, i20, t20 = gcu.load("s60"), gcu.load("i20"), gcu.load("t20")
    assert gcu.part_names() == ("i20", "s60", "t20")
    assert [x.architecture for x in (s60, i20, t20)] == ["gcu300", "gcu210", "gcu200"]
    assert [(x.clusters, x.sips_per_cluster, x.sips) for x in (s60, i20, t20)] == [
        (2, 12, 24),
        (2, 12, 24),
        (4, 6, 24),
    ]
    assert [x.l1_bytes for x in (s60, i20, t20)] == [3 << 19, 1 << 20, 1 << 19]
    assert (s60.l2_bytes, s60.l2_reserved_bytes, s60.l2_usable_bytes) == (64 << 20, 4 << 20, 60 << 20)
    assert i20.l2_usable_bytes == 24 << 20
    assert [x.l3_bytes >> 30 for x in (s60, i20, t20)] == [48, 16, 32]
    assert [x.l3_bytes_per_s / 1e9 for x in (s60, i20, t20)] == [672, 819, 1600]
    assert s60.l3_bytes_per_cycle == 480


@pytest.mark.parametrize("name", ["i20", "t20"])
def test_peaks_follow_from_the_clock(name: str) -> None:
    spec = gcu.load(name)
    for dtype, tera in (("f32", 32), ("f16", 128), ("i8", 256)):
        peak = 2 * spec.matrix_rate(dtype) * spec.sips * spec.clock_hz / 1e12
        assert peak == pytest.approx(tera, rel=0.01)


def test_rates_of_types_without_their_own() -> None:
    spec = gcu.load("s60")
    assert spec.vector_rate("u8") == spec.vector_rate("bool") == spec.vector_ops_per_cycle["i8"]
    assert spec.matrix_rate("u8") == spec.macs_per_cycle["i8"]
    assert spec.matrix_rate("i32") == spec.macs_per_cycle["f32"]
    assert spec.nanoseconds(1400) == 1000
    assert spec.nanoseconds(7) == 5


def test_everything_faster_leaves_cycles_as_they_are() -> None:
    spec = gcu.load("s60")
    fast = spec.scaled(everything=3)
    assert fast.clock_hz == 3 * spec.clock_hz
    assert fast.l3_bytes_per_cycle == spec.l3_bytes_per_cycle
    assert fast.dte_latency_cycles == spec.dte_latency_cycles
    assert fast.host_launch_ns * 3 == spec.host_launch_ns
    assert fast.hash != spec.hash


def test_one_resource_scaled() -> None:
    spec = gcu.load("s60")
    more = spec.scaled(l3=2, latency=3, channels=100)
    assert more.l3_bytes_per_s == 2 * spec.l3_bytes_per_s
    assert more.dte_latency_cycles["l3"] == 200
    assert more.dte_channels == 30  # the most there can be
    assert more.clock_hz == spec.clock_hz
    assert more.name == "s60 (l3 x2, latency x3, channels x100)"
    changed = [x for x, y in zip(more.figures(), spec.figures(), strict=True) if x.source != y.source]
    assert {x.name.split(".")[0] for x in changed} == {
        "l3_bytes_per_s", "dte_latency_cycles", "dte_channels", "dte_queue_depth",
    }  # fmt: skip
    assert all(x.source.startswith("what if: ") for x in changed)
    assert spec.scaled(queue=0.001).queue_depth == 1


def test_every_resource_changes_something() -> None:
    spec = gcu.load("t20")
    for resource in gcu.RESOURCES:
        assert spec.scaled(**{resource: 2}).figures() != spec.figures()
    for bad in ({"l9": 2.0}, {"l3": 0.0}, {"l3": -1.0}, {"l3": float("nan")}):
        with pytest.raises(ValueError, match=r"l9|l3"):
            spec.scaled(**bad)


def test_hash_is_of_values_alone() -> None:
    spec = gcu.load("s60")
    assert spec.hash == gcu.load("s60").hash
    assert len(spec.hash) == 16
    assert len({gcu.load(name).hash for name in gcu.part_names()}) == 3
    hashes = {spec.scaled(**{resource: 0.5}).hash for resource in gcu.RESOURCES}
    assert len(hashes) == len(gcu.RESOURCES)
    assert spec.hash not in hashes


def test_fields_are_those_of_the_specification() -> None:
    names = set(gcu.Specification.__dataclass_fields__)
    assert {field.name for field in FIELDS} == names - {"name", "title", "architecture", "sources"}
