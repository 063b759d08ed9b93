"""The allocator, against a model of it: any order of requests, frees and questions."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tops_kit.gcu import address_space
from tops_kit.gcu.address_space import AddressSpace, HostMemoryError
from tops_kit.gcu.memory import Allocation, DeviceMemory, FreedAddress, OutOfDeviceMemory, UnknownAddress
from tops_kit.gcu.state import Device, devices, place

_TOTAL = 48 << 30
_SIZES = st.one_of(
    st.integers(1, 5000),
    st.integers(1, 1 << 20),
    st.integers(1, _TOTAL),
    st.sampled_from([255, 256, 257, 2048, 16_128, 16_383, 16_384, 16_385, 65_535, 65_536, 1 << 30]),
)


class _Memory(RuleBasedStateMachine):
    blocks = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.device: Device = devices({"TOPS_STATE_DIR": _FOLDER[0]})[0]
        self.memory: DeviceMemory = self.device.memory
        self.model: dict[int, Allocation] = {}
        self.freed: dict[int, Allocation] = {}
        self.peak = 0

    def used(self) -> int:
        return sum(block.size_bytes for block in self.model.values())

    @rule(target=blocks, size=_SIZES)
    def allocate(self, size: int) -> Any:
        free = _TOTAL - self.used()
        if size > free:
            with pytest.raises(OutOfDeviceMemory) as caught:
                self.memory.allocate(size)
            assert caught.value.free_bytes == free
            return None
        block = self.memory.allocate(size, note=f"line {size}")
        assert block.size_bytes == size
        assert block.address % 256 == 0
        for other in self.model.values():
            assert block.address + size < other.address or other.address + other.size_bytes < block.address
        self.memory.view(block.address, 1)[0] = size % 251
        self.memory.view(block.address + size - 1, 1)[0] = size % 251
        self.model[block.address] = block
        self.freed.pop(block.address, None)
        self.peak = max(self.peak, self.used())
        return block

    @rule(block=consumes(blocks))
    def free(self, block: Allocation | None) -> None:
        if block is None:
            return
        assert self.memory.view(block.address + block.size_bytes - 1, 1)[0] == block.size_bytes % 251
        assert self.memory.free(block.address, note="there") == block
        del self.model[block.address]
        self.freed[block.address] = block
        with pytest.raises(FreedAddress) as caught:
            self.memory.free(block.address)
        assert (caught.value.allocation, caught.value.freed_note) == (block, "there")

    @rule(block=blocks, share=st.floats(0, 1), beyond=st.integers(0, 300))
    def inside(self, block: Allocation | None, share: float, beyond: int) -> None:
        if block is None:
            return
        address = min(block.address + int(share * block.size_bytes), block.address + block.size_bytes - 1)
        assert self.memory.find(address) == block
        assert self.memory.resolve(address, 1) == block
        if address > block.address:
            with pytest.raises(UnknownAddress, match="bytes inside block"):
                self.memory.free(address)
        with pytest.raises(UnknownAddress, match="beyond the end"):
            self.memory.resolve(address, block.address + block.size_bytes - address + 1 + beyond)
        assert self.memory.find(block.address + block.size_bytes) is None

    @rule(which=st.integers(0, 1000), share=st.floats(0, 0.999))
    def freed_inside(self, which: int, share: float) -> None:
        if self.freed:
            block = list(self.freed.values())[which % len(self.freed)]
            address = block.address + int(share * block.size_bytes)
            assert self.memory.find(address) is None
            with pytest.raises(FreedAddress) as caught:
                self.memory.resolve(address, 1)
            assert caught.value.allocation == block

    @rule(address=st.integers(-5, (1 << 63) - 1))
    def anywhere(self, address: int) -> None:
        starts = sorted(self.model)
        index = bisect_right(starts, address) - 1
        block = self.model[starts[index]] if index >= 0 else None
        if block is None or address >= block.address + block.size_bytes:
            assert self.memory.find(address) is None
            with pytest.raises(UnknownAddress):
                self.memory.resolve(address, 1)

    @invariant()
    def totals(self) -> None:
        used = self.used()
        assert self.memory.used_bytes == used
        assert self.memory.info() == (_TOTAL - used, _TOTAL)
        assert self.memory.peak_bytes == self.peak
        assert [block.serial for block in self.memory.blocks()] == sorted(
            b.serial for b in self.model.values()
        )

    def teardown(self) -> None:
        self.device.close()


_FOLDER: list[str] = []


def test_any_order(tmp_path_factory: pytest.TempPathFactory) -> None:
    _FOLDER[:] = [str(tmp_path_factory.mktemp("state"))]
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        _Memory, settings=settings(max_examples=40, stateful_step_count=40, deadline=None)
    )


def test_addresses_are_used_again_but_not_soon() -> None:
    space = AddressSpace(0, 1 << 30)
    first = space.take(100)
    space.give(first, 100)
    later = [space.take(100) for _ in range(address_space._WAIT_BLOCKS)]
    assert first not in later
    for address in later:
        space.give(address, 100)
    assert space.take(100) == first


def test_host_memory_stays_bounded() -> None:
    space = AddressSpace(0, 1 << 30)
    seen = set()
    for _ in range(2000):
        address = space.take(1 << 20)
        seen.add(address)
        space.view(address, 1)[0] = 1
        space.give(address, 1 << 20)
    assert len(seen) <= address_space._WAIT_BLOCKS + 1


def test_freed_pages_are_empty() -> None:
    space = AddressSpace(0, 1 << 30)
    address = space.take(100_000)
    view = space.view(address, 100_000)
    view[:] = b"x" * 100_000
    space.give(address, 100_000)
    # a pointer that is still in use reads something, and does not crash
    assert len(bytes(view)) == 100_000


def test_a_host_that_promises_little(monkeypatch: pytest.MonkeyPatch) -> None:
    real = address_space._reserve
    asked: list[int] = []

    def reserve(hint: int, size: int) -> tuple[int, memoryview]:
        asked.append(size)
        if size > 100 << 20:
            raise OSError(12, "no")
        return real(hint, size)

    monkeypatch.setattr(address_space, "_reserve", reserve)
    space = AddressSpace(0, 48 << 30)
    addresses = [space.take(40 << 20) for _ in range(5)]
    assert len({*addresses}) == 5
    for address in addresses:
        space.view(address, 40 << 20)[5] = 5
        assert space.begin_of(address + 5) == address
    with pytest.raises(HostMemoryError, match="the host can't reserve"):
        space.take(200 << 20)
    assert asked[0] == 48 << 30


def test_a_host_without_memory_leaves_the_device_as_it_was(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reserve(hint: int, size: int) -> tuple[int, memoryview]:
        raise OSError(12, "no")

    monkeypatch.setattr(address_space, "_reserve", reserve)
    device = devices({place.VARIABLE: str(tmp_path)})[0]
    with pytest.raises(HostMemoryError):
        device.memory.allocate(1)
    assert device.memory.used_bytes == 0
    device.close()
