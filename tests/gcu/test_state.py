"""Devices, their memory and its limits, in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tops_kit.gcu.memory import FreedAddress, OutOfDeviceMemory, UnknownAddress
from tops_kit.gcu.state import Devices, devices


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TOPS_STATE_DIR": str(tmp_path / "state"), "TOPS_DEVICES": "s60,t20"}


@pytest.fixture
def machine(environ: dict[str, str]) -> Iterator[Devices]:
    found = devices(environ)
    yield found
    found.close()


@pytest.mark.smoke
def test_looking_creates_nothing(machine: Devices, tmp_path: Path) -> None:
    assert [device.name for device in machine] == ["s60", "t20"]
    assert machine[0].memory.info() == (48 << 30, 48 << 30)
    assert machine[0].memory.holders() == []
    assert not (tmp_path / "state").exists()


@pytest.mark.smoke
def test_blocks_are_memory(machine: Devices) -> None:
    memory = machine[0].memory
    block = memory.allocate(1000, note="train.py:3")
    assert block.address % 256 == 0
    memory.view(block.address + 10, 4)[:] = b"abcd"
    assert bytes(memory.view(block.address, 16)) == bytes(10) + b"abcd" + bytes(2)
    assert memory.find(block.address) == memory.find(block.address + 999) == block
    assert memory.find(block.address + 1000) is None
    assert memory.find(block.address - 1) is None
    assert machine.find(block.address + 5) == (machine[0], block)
    assert memory.owns(block.address + 5000)
    assert not memory.owns(1234)
    assert not machine[1].memory.owns(block.address)
    assert memory.info() == ((48 << 30) - 1000, 48 << 30)
    assert memory.free(block.address) == block
    assert memory.info() == (48 << 30, 48 << 30)
    assert memory.peak_bytes == 1000


def test_limits_are_exact(machine: Devices) -> None:
    memory = machine[1].memory
    first = memory.allocate(5)
    rest = memory.allocate(memory.info()[0])
    assert memory.info()[0] == 0
    with pytest.raises(OutOfDeviceMemory) as caught:
        memory.allocate(1)
    assert (caught.value.requested_bytes, caught.value.free_bytes) == (1, 0)
    assert [holder.size_bytes for holder in caught.value.holders] == [32 << 30]
    assert "1 bytes wanted, 0 bytes of 32.00 GiB free; process" in str(caught.value)
    memory.free(first.address)
    assert memory.allocate(5)
    memory.free(rest.address)


def test_what_is_wrong_with_a_pointer(machine: Devices) -> None:
    memory = machine[0].memory
    block = memory.allocate(5000, note="a.py:1")
    with pytest.raises(UnknownAddress, match=r"it is 8 bytes inside block 1 \(5,000 bytes, from a.py:1\)"):
        memory.free(block.address + 8)
    with pytest.raises(UnknownAddress, match=r"go 1 bytes beyond the end of block 1"):
        memory.resolve(block.address + 1, 5000)
    with pytest.raises(UnknownAddress, match=r"it is no address of device 0 \(S60\)"):
        memory.free(12345)
    memory.free(block.address, note="a.py:9")
    with pytest.raises(FreedAddress, match=r"was freed already at a.py:9") as caught:
        memory.free(block.address)
    assert (caught.value.allocation, caught.value.freed_note) == (block, "a.py:9")
    with pytest.raises(FreedAddress, match=r"was freed before at a.py:9"):
        memory.resolve(block.address + 4999, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are chosen by the system")
def test_addresses_are_the_same_in_every_run(environ: dict[str, str]) -> None:
    program = (
        "from tops_kit.gcu.state import devices\n"
        "machine = devices()\n"
        "print(*[hex(device.memory.allocate(100).address) for device in machine], *[\n"
        "    hex(machine[0].memory.allocate(size).address) for size in (100, 1 << 20, 1 << 35, 100)])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].split()[:2] == [hex(1 << 44), hex((1 << 44) + (1 << 42))]
