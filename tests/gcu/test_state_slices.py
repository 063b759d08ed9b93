"""Configured and visible devices, and their slices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tops_kit.errors import UserError
from tops_kit.gcu import load
from tops_kit.gcu.memory import OutOfDeviceMemory
from tops_kit.gcu.state import (
    DeviceLostError,
    DevicesError,
    SettingError,
    SipsReservedError,
    cards,
    connection,
    devices,
    slices,
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TOPS_STATE_DIR": str(tmp_path / "state"), "TOPS_DEVICES": "2xs60,t20"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["s60"]),
        ("s60", ["s60"]),
        ("2xs60", ["s60", "s60"]),
        (" 3 * t20 , i20", ["t20", "t20", "t20", "i20"]),
        ("none", []),
    ],
)
def test_configured(tmp_path: Path, text: str, names: list[str]) -> None:
    found = devices({"TOPS_STATE_DIR": str(tmp_path), "TOPS_DEVICES": text})
    assert [device.part for device in found] == names
    assert found.count == len(found) == len(names)
    assert len({device.uuid for device in found}) == len(names)


def test_a_part_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[part]\nname = "mine"\nbase = "s60"\n[memory]\nl3_bytes = 1000\n')
    device = devices({"TOPS_STATE_DIR": str(tmp_path), "TOPS_DEVICES": f"s60,{path}"})[1]
    assert device.memory.info() == (1000, 1000)
    with pytest.raises(OutOfDeviceMemory, match="1,001 bytes wanted, 1,000 bytes of 1,000 bytes free"):
        device.memory.allocate(1001)


@pytest.mark.parametrize("text", ["s61", "0xs60", "17xs60", "s60,,t20", "x", "none,s60", "/nowhere.toml"])
def test_what_can_not_be_configured(text: str) -> None:
    with pytest.raises(DevicesError, match=r"^TOPS_DEVICES=") as caught:
        devices({"TOPS_DEVICES": text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("visible", "physical"),
    [
        (None, ["0", "1", "2"]),
        ("0,2", ["0", "2"]),
        ("2, 1", ["2", "1"]),
        ("", []),
        ("-1", []),
    ],
)
def test_visible(environ: dict[str, str], visible: str | None, physical: list[str]) -> None:
    if visible is not None:
        environ["TOPS_VISIBLE_DEVICES"] = visible
    found = devices(environ)
    assert [device.physical for device in found] == physical
    assert [device.index for device in found] == list(range(len(physical)))


def test_visible_by_uuid(environ: dict[str, str]) -> None:
    uuid = devices(environ)[1].uuid
    assert [device.physical for device in devices({**environ, "TOPS_VISIBLE_DEVICES": uuid})] == ["1"]


@pytest.mark.parametrize(
    ("visible", "said"),
    [
        ("3", r"there is no device 3 \(0 to 2; TOPS_DEVICES says which there are\)"),
        ("0,0", "0 stands there twice"),
        ("s60", "'s60' is no device"),
        ("0:1", r"device 0 has no slices \(efsmi -i 0 --create-instance makes some\)"),
        ("0,", "'' is no device"),
    ],
)
def test_what_can_not_be_visible(environ: dict[str, str], visible: str, said: str) -> None:
    with pytest.raises(DevicesError, match=f"^TOPS_VISIBLE_DEVICES={visible}: {said}"):
        devices({**environ, "TOPS_VISIBLE_DEVICES": visible})


def test_connections(environ: dict[str, str]) -> None:
    machine = cards({**environ, "TOPS_DEVICES": "s60,t20,t20"})
    assert [connection(machine[0], other) for other in machine] == ["self", "pcie", "pcie"]
    assert [connection(machine[1], other) for other in machine] == ["pcie", "self", "link"]
    found = devices({**environ, "TOPS_DEVICES": "s60,t20,t20", "TOPS_VISIBLE_DEVICES": "2,1"})
    assert (found.connection(0, 1), found.connection(0, 0)) == ("link", "self")


def test_profiles() -> None:
    spec = load("s60")
    assert [(p.slices, p.clusters, p.sips_per_cluster) for p in slices.profiles(spec)] == [
        (1, 2, 12),
        (2, 1, 12),
        (4, 1, 6),
    ]
    assert [p.slices for p in slices.profiles(load("t20"))] == [1]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_slices_have_no_more_than_the_device_together(count: int) -> None:
    spec = load("s60")
    parts = [slices.slice_specification(spec, number, count) for number in range(count)]
    for name in ("sips", "l3_bytes", "l3_bytes_per_s", "pcie_bytes_per_s", "power_w"):
        assert sum(getattr(part, name) for part in parts) == getattr(spec, name)
    assert (
        sum(part.clusters * part.l2_bytes for part in parts) == max(spec.clusters, count) * parts[0].l2_bytes
    )
    assert parts[0].l1_bytes == spec.l1_bytes
    assert all(
        part.clusters * part.cluster_l3_bytes_per_cycle <= 1.34 * part.l3_bytes_per_cycle for part in parts
    )
    figures = {figure.name: figure for figure in parts[0].figures()}
    if count > 1:
        assert figures["l3_bytes"].source.startswith(f"slice 0 of {count}; public")
        assert figures["l2_bytes_per_cycle"].assumed == (count == 2)


@pytest.mark.smoke
def test_slices_see_nothing_of_each_other(environ: dict[str, str]) -> None:
    card = cards(environ)[1]
    with pytest.raises(SettingError, match=r"slicing of device 1 .* is off: efsmi -i 1 --drs on"):
        card.create_slices(2)
    card.set_drs(True)
    card.create_slices(2)
    assert [device.physical for device in devices(environ)] == ["0", "1:0", "1:1", "2"]
    one, other = devices({**environ, "TOPS_VISIBLE_DEVICES": "1:1,1:0"})
    assert (one.physical, one.name, one.part) == ("1:1", "s60 (slice 1 of 2)", "s60")
    assert one.uuid == f"{card.uuid}/1"
    one.memory.allocate(24 << 30)
    assert one.memory.info() == (0, 24 << 30)
    assert other.memory.info() == (24 << 30, 24 << 30)
    with pytest.raises(OutOfDeviceMemory, match=r"on device 0 \(S60 \(slice 1 of 2\)\)"):
        one.memory.allocate(1)
    assert one.sips.reserve(1, 12).sips == 12
    with pytest.raises(SipsReservedError):
        one.sips.reserve(1, 1)
    assert other.sips.available() == (12,)
    assert other.sips.reserve(1, 12).sips == 12
    now = card.snapshot()
    assert [(part.used_bytes, part.total_bytes, part.sips) for part in now.slices] == [
        (0, 24 << 30, 12),
        (24 << 30, 24 << 30, 12),
    ]
    assert (now.used_bytes, now.sips_reserved) == (24 << 30, 24)
    for change in (card.destroy_slices, lambda: card.set_drs(False), lambda: card.create_slices(4)):
        with pytest.raises(SettingError):
            change()
    one.close()
    other.close()
    card.destroy_slices()
    assert devices(environ)[1].memory.info() == (48 << 30, 48 << 30)


def test_a_device_that_was_divided_meanwhile(environ: dict[str, str]) -> None:
    whole = devices(environ)[0]
    whole.memory.allocate(1)
    card = whole.card
    card.set_drs(True)
    with pytest.raises(SettingError, match=r"device 0 \(S60\) is in use and can't be divided: by process"):
        card.create_slices(2)
    whole.close()
    card.create_slices(2)
    with pytest.raises(DeviceLostError, match="is 2 slices now: it was divided anew"):
        whole.memory.allocate(1)
    card.destroy_slices()


def test_parts_without_virtual_functions(environ: dict[str, str]) -> None:
    card = cards(environ)[2]
    with pytest.raises(SettingError, match="its part has no virtual functions"):
        card.set_drs(True)
    with pytest.raises(SettingError, match="can't have 2 slices: 1 are possible"):
        card.create_slices(2)


def test_reservations(environ: dict[str, str]) -> None:
    device = devices(environ)[0]
    first = device.sips.reserve(1, 8)
    assert (first.clusters, first.sips) == (1, 8)
    second = device.sips.reserve(2, 4)
    assert device.sips.available() == (12, 12)  # all is this process's own, or nobody's
    assert devices(environ)[0].sips.available() == (0, 8)
    with pytest.raises(SipsReservedError, match=r"lacks 2 clusters with 1 free SIPs each: process .* has 16"):
        device.sips.reserve(2, 1)
    device.sips.release(first)
    device.sips.release(first)
    device.sips.release(second)
    assert device.sips.reserve(2, 12).sips == 24
    for clusters, sips in ((0, 1), (3, 1), (1, 0), (1, 13)):
        with pytest.raises(ValueError, match="the device has 2 x 12"):
            device.sips.reserve(clusters, sips)
    device.close()


def test_errors_are_for_people() -> None:
    assert issubclass(DevicesError, UserError)
