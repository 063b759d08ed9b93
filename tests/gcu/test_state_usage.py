"""What programs tell of their use, and what power and temperature follow from it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tops_kit.gcu import load
from tops_kit.gcu.state import Device, devices, models, slots, snapshot
from tops_kit.gcu.state import layout as at

SECOND = 1_000_000_000


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return devices({"TOPS_STATE_DIR": str(tmp_path)})[0]


def _recent(device: Device, session_ns: int | None = None) -> slots.Recent:
    """The last second, at a session time (default: the one last told)."""
    words, slot = device.card.state.words, device._claim.slot
    wall = words[slot + at.S_WALL] + (0 if session_ns is None else session_ns - words[slot + at.S_NOW])
    return slots.last_second(words, slot, wall)


@pytest.mark.smoke
def test_a_kernel_is_seen(device: Device) -> None:
    device.usage.note(0, SECOND // 2, 12)
    device.usage.note_pcie(0, SECOND // 2, up_bytes=10, down_bytes=1_000_000)
    device.usage.freeze(SECOND)
    now = device.card.snapshot()
    assert (now.sip_use, now.active) == (pytest.approx(0.25), pytest.approx(0.5))
    assert (now.up_bytes, now.down_bytes) == (10, 1_000_000)
    assert now.down_bytes_per_s == pytest.approx(1_000_000, rel=0.001)
    assert (now.kernels, now.busy_sip_ns) == (1, SECOND // 2 * 12)
    assert device.usage.totals() == (1, SECOND // 2 * 12, 10, 1_000_000)
    assert now.power_w == pytest.approx(0.18 * 300 + 0.25 * 0.82 * 300)
    device.close()
    after = device.card.snapshot()
    assert (after.sip_use, after.kernels, after.busy_sip_ns) == (0, 1, SECOND // 2 * 12)
    assert (after.up_bytes, after.down_bytes) == (10, 1_000_000)


def test_use_ends_with_time(device: Device) -> None:
    device.usage.note(0, SECOND, 24)
    assert _recent(device).busy_sip_ns == pytest.approx(24 * SECOND, rel=1e-3)
    assert _recent(device, SECOND * 3 // 2).active_ns == pytest.approx(SECOND / 2, rel=0.01)
    assert _recent(device, 2 * SECOND + SECOND // 8).active_ns == 0


def test_time_stands_still_while_a_simulation_runs(device: Device) -> None:
    device.usage.note(0, SECOND, 24)
    device.usage.freeze(SECOND)
    words, slot = device.card.state.words, device._claim.slot
    later = time.monotonic_ns() + 3600 * SECOND
    assert slots.last_second(words, slot, later).active_ns == pytest.approx(SECOND, rel=1e-3)
    device.usage.thaw()
    assert slots.last_second(words, slot, later).active_ns == 0


def test_kernels_that_overlap_are_active_once(device: Device) -> None:
    device.usage.note(0, 1000, 12)
    device.usage.note(0, 1000, 12)
    device.usage.note(500, 1500, 6)
    assert _recent(device).active_ns == pytest.approx(1500)
    assert _recent(device).busy_sip_ns == pytest.approx(24 * 1000 + 6000)


@settings(max_examples=50, deadline=None)
@given(
    kernels=st.lists(
        st.tuples(st.integers(0, SECOND), st.integers(1, 3 * SECOND), st.integers(1, 24)), max_size=30
    )
)
def test_the_last_second_is_a_sum_of_intervals(
    tmp_path_factory: pytest.TempPathFactory, kernels: list[tuple[int, int, int]]
) -> None:
    device = devices({"TOPS_STATE_DIR": str(tmp_path_factory.mktemp("s"))})[0]
    now = 5 * SECOND
    intervals = []
    for pause, length, sips in kernels:
        now += pause
        intervals.append((now, now + length, sips))
        device.usage.note(*intervals[-1])
        now += length
    device.usage.freeze(now)
    expected = sum(max(0, end - max(begin, now - SECOND)) * sips for begin, end, sips in intervals)
    # spans of 67 ms: the oldest counts by the share of it that lies in the second
    assert abs(_recent(device).busy_sip_ns - expected) <= 24 * (1 << at.BUCKET_SHIFT) + 30
    assert device.usage.totals()[1] == sum((end - begin) * sips for begin, end, sips in intervals)
    device.close()


def test_what_is_told_late_changes_nothing_newer(device: Device) -> None:
    device.usage.note(10 * SECOND, 10 * SECOND + 100, 24)
    device.usage.note(0, 100, 24)
    assert _recent(device).busy_sip_ns == 2400
    assert device.usage.totals()[0] == 2


def test_models() -> None:
    spec, (high, low) = load("s60"), models.POWER_MODES
    assert models.power_w(spec, high, 1) == 300
    assert models.power_w(spec, low, 1) == 150
    assert models.power_w(spec, high, 0) == models.power_w(spec, low, 0) == 54
    heats = [0.0]
    for _ in range(200):
        heats.append(models.warmed(heats[-1], SECOND, 24 * SECOND, 24))
    assert heats == sorted(heats)
    assert heats[-1] == pytest.approx(1, abs=0.05)
    temperatures = [models.temperature_c(spec, high, heat) for heat in heats]
    assert temperatures == sorted(temperatures)
    assert (temperatures[0], temperatures[-1]) == (pytest.approx(38.1), pytest.approx(75, abs=1))
    assert models.cooled(1, 20 * SECOND) == pytest.approx(1 / 2.718281828)


def test_a_device_stays_warm(device: Device) -> None:
    for second in range(60):
        device.usage.note(second * SECOND, (second + 1) * SECOND, 24)
    device.usage.freeze(60 * SECOND)
    warm = device.card.snapshot().temperature_c
    assert warm > 70
    device.close()
    assert device.card.snapshot().temperature_c == pytest.approx(warm, abs=2)


def test_a_device_that_nobody_used() -> None:
    now = snapshot.take(load("i20"), None)
    assert (now.used_bytes, now.sip_use, now.processes, now.ecc.enabled) == (0, 0, (), True)
    assert now.power_w == pytest.approx(27)
