"""Memory of devices: malloc and free, copies and fills in all directions, pinned memory, pools, errors."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tops_kit as tops
from tops_kit.runtime import activity as acts
from tops_kit.runtime.hooks import HOOKS

from .programs import floats, run_program, scale


def fails(name: str, match: str = "") -> Any:
    return pytest.raises(tops.TopsError, match=rf"^{name} \(\d+\): [^\n]*{match}[^\n]*$")


def test_copies_go_all_ways() -> None:
    host = np.arange(100, dtype=np.uint8)
    one, other = tops.malloc(100), tops.malloc(100)
    tops.memcpy(one, host)
    tops.memcpy(other, one)
    back = np.zeros(100, np.uint8)
    tops.memcpy(back, other)
    assert np.array_equal(back, host)
    part = bytearray(10)
    tops.memcpy(part, other + 20, 10)
    assert bytes(part) == bytes(range(20, 30))
    tops.memcpy_async(one, b"xyz", 3)
    tops.memcpy(part, one, 5)
    assert bytes(part[:5]) == b"xyz\x03\x04"
    tops.memcpy(back, host[::-1].copy())
    assert back[0] == 99
    tops.free(one)
    tops.free(other)


def test_tensors_and_arrays_are_ends_of_copies() -> None:
    torch = pytest.importorskip("torch")
    x = tops.array(floats(8))
    tensor = torch.zeros(8)
    tops.memcpy(tensor, x)
    assert np.array_equal(tensor.numpy(), x.numpy())
    tops.memcpy(x, torch.ones(8))
    assert x.numpy().tolist() == [1.0] * 8


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([8, 16, 32]), st.integers(0, (1 << 32) - 1), st.integers(1, 3000))
def test_fills_are_as_numpys(bits: int, value: int, count: int) -> None:
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[bits]
    value &= (1 << bits) - 1
    memory = tops.malloc(count * bits // 8)
    tops.memset(memory, value, bits=bits)
    out = np.empty(count, kind)
    tops.memcpy(out, memory)
    tops.free(memory)
    assert np.array_equal(out, np.full(count, value, kind))


def test_wrong_pointers_are_the_vendors_errors() -> None:
    memory = tops.malloc(100)
    with fails("topsErrorInvalidDevicePointer", "16 bytes inside a block: free its beginning"):
        tops.free(memory + 16)
    with fails("topsErrorInvalidDevicePointer", "outside of its block of 100 bytes"):
        memory + 101
    with fails("topsErrorInvalidValue", "a copy of 101 bytes: only 100 are at"):
        tops.memcpy(memory, bytes(101))
    with fails("topsErrorInvalidValue", "only 50 are at"):
        tops.memcpy(memory + 50, bytes(51))
    with fails("topsErrorInvalidValue", "read-only"):
        tops.memcpy(bytes(4), memory, 4)
    with fails("topsErrorInvalidValue", "not float"):
        tops.memcpy(memory, 1.5)
    with fails("topsErrorInvalidDevicePointer", "0x10 is no address of a device"):
        tops.memcpy(0x10, bytes(4))
    with fails("topsErrorInvalidValue", "malloc of -1 bytes"):
        tops.malloc(-1)
    with fails("topsErrorInvalidValue", "number of bytes, not str"):
        tops.malloc("8")  # type: ignore[arg-type]
    with fails("topsErrorInvalidValue", "300 does not fit the 8 bits"):
        tops.memset(memory, 300)
    with fails("topsErrorInvalidValue", "8, 16 or 32 bits"):
        tops.memset(memory, 0, bits=64)
    with fails("topsErrorInvalidDevicePointer", "not the host's"):
        tops.memset(bytearray(4), 0)
    with fails("topsErrorInvalidMemcpyDirection"):
        tops.memcpy_peer(memory, bytes(4))
    tops.free(memory)
    line = "test_memory.py:"
    for use in (
        lambda: tops.free(memory),
        lambda: tops.memcpy(memory, bytes(4)),
        lambda: tops.memset(memory, 0),
        lambda: memory.array(dtype=tops.f32),
    ):
        with fails("topsErrorInvalidDevicePointer", f"{line}[0-9]+.*was freed at .*{line}"):
            use()
    assert "freed" in repr(memory)


def test_addresses_as_numbers_are_looked_up() -> None:
    memory = tops.malloc(64)
    tops.memcpy(int(memory) + 8, b"abcd")
    out = bytearray(4)
    tops.memcpy(out, int(memory) + 8, 4)
    assert out == b"abcd"
    with fails("topsErrorInvalidValue", "a copy of 4 bytes: only 2 are at"):
        tops.memcpy(int(memory) + 62, b"abcd")
    tops.free(int(memory))  # type: ignore[arg-type]
    with fails("topsErrorInvalidDevicePointer"):
        tops.free(int(memory))  # type: ignore[arg-type]


def test_memory_info_counts_what_is_used() -> None:
    gc.collect()
    tops.synchronize()
    free, total = tops.mem_get_info()
    memory = tops.malloc(1 << 20)
    assert tops.mem_get_info() == (free - (1 << 20), total)
    text = tops.memory_summary()
    assert "simulated" in text
    assert re.search(r"test_memory\.py:\d+: 1 x, 1,048,576 bytes not freed", text)
    tops.free(memory)
    assert tops.mem_get_info() == (free, total)


def test_too_much_memory_is_told_with_who_has_it() -> None:
    memory = tops.malloc(1 << 30)
    with fails("topsErrorOutOfMemory", r"60\.00 GiB wanted, .* of 48\.00 GiB free; process .*this one"):
        tops.malloc(60 << 30)
    tops.free(memory)


def test_arrays_give_their_memory_back() -> None:
    gc.collect()
    tops.synchronize()
    free, _ = tops.mem_get_info()
    x = tops.zeros((1000, 1000))
    view = x[10:20].reshape(-1)
    del x
    tops.synchronize()
    assert tops.mem_get_info()[0] < free
    assert view.numpy().sum() == 0
    del view
    tops.synchronize()
    assert tops.mem_get_info()[0] == free


def test_pools_keep_what_is_freed_until_the_host_waits() -> None:
    pool = tops.MemPool()
    with tops.Stream() as stream:
        first = tops.malloc_async(5000, pool=pool)
        address = int(first)
        tops.free_async(first)
        assert pool.used_bytes == 0
        assert pool.reserved_bytes >= 5000
        again = tops.malloc_async(5000, pool=pool)
        assert int(again) == address
        with fails("topsErrorInvalidDevicePointer", "was freed"):
            tops.free_async(first)
        tops.free_async(again)
        stream.synchronize()
    assert pool.reserved_bytes == 0
    keeping = tops.MemPool(release_threshold_bytes=1 << 20)
    tops.free_async(tops.malloc_async(5000, pool=keeping))
    tops.synchronize()
    assert keeping.reserved_bytes >= 5000
    keeping.trim()
    assert keeping.reserved_bytes == 0
    keeping.destroy()
    with fails("topsErrorInvalidHandle", "was destroyed"):
        tops.malloc_async(1, pool=keeping)
    with fails("topsErrorInvalidValue", "default pool"):
        tops.get_pool().destroy()


def test_a_full_device_takes_back_what_pools_hold() -> None:
    pool = tops.MemPool(release_threshold_bytes=1 << 40)
    tops.free_async(tops.malloc_async(30 << 30, pool=pool))
    assert pool.reserved_bytes >= 30 << 30
    tops.free(tops.malloc(40 << 30))
    assert pool.reserved_bytes == 0


def test_a_block_of_another_stream_is_not_taken_while_it_is_used() -> None:
    pool = tops.MemPool()
    one, other = tops.Stream(), tops.Stream()
    memory = tops.malloc_async(1 << 20, one, pool=pool)
    tops.memset_async(memory, 0, stream=one)
    tops.free_async(memory, one)
    assert int(tops.malloc_async(1 << 20, other, pool=pool)) != int(memory)
    assert int(tops.malloc_async(1 << 20, one, pool=pool)) == int(memory)


def test_pinned_memory() -> None:
    memory = tops.host_malloc((4, 8), np.float32)
    assert memory.shape == (4, 8)
    assert not memory.any()
    memory[...] = 3
    x = tops.zeros((4, 8))
    x.assign(memory)
    assert x.numpy().sum() == 96
    tops.host_free(memory)
    with fails("topsErrorInvalidValue"):
        tops.host_free(memory)
    plain = floats(10)
    tops.host_register(plain)
    with fails("topsErrorHostMemoryAlreadyRegistered"):
        tops.host_register(plain[2:4])
    tops.host_unregister(plain)
    with fails("topsErrorHostMemoryNotRegistered"):
        tops.host_unregister(plain)


def test_only_pinned_memory_is_copied_beside_the_host() -> None:
    size = 1 << 12
    pageable, pinned = np.zeros(size, np.uint8), tops.host_malloc(size)
    memory = tops.malloc(size)
    told: list[Any] = []
    sink = HOOKS.add_sink(lambda _, what: told.append(what), acts.MEMCPY | acts.SYNCHRONIZATION)
    with tops.Stream() as stream:
        tops.memcpy_async(memory, pinned)
        tops.memcpy_async(memory, pageable)
        stream.synchronize()
    sink.close()
    copies = [one for one in told if isinstance(one, acts.MemcpyActivity)]
    assert [(one.src_kind, one.flags) for one in copies] == [
        (acts.MEMORY_PINNED, acts.FLAG_ASYNC), (acts.MEMORY_PAGEABLE, 0),
    ]  # fmt: skip
    waits = [one.sync_kind for one in told if isinstance(one, acts.SyncActivity)]
    assert waits == [acts.SYNC_BLOCKING, acts.SYNC_STREAM]
    tops.host_free(pinned)
    tops.free(memory)


def test_memory_is_used_as_an_array() -> None:
    memory = tops.malloc(400)
    y = memory.array(100, tops.f32)
    scale[4](tops.array(floats(100)), y, 3.0)
    assert np.allclose(y.numpy(), floats(100) * 3)
    assert (memory + 40).array(dtype="f32").shape == (90,)
    with fails("topsErrorInvalidValue", "does not hold it"):
        memory.array(101, tops.f32)
    tops.free(memory)
    with fails("topsErrorInvalidDevicePointer", "kernel scale, argument y: .*was freed"):
        scale[4](tops.zeros(100), y)
    with fails("topsErrorInvalidDevicePointer", "was freed"):
        y.numpy()


def test_a_host_without_room_is_out_of_memory(tmp_path: Path) -> None:
    text = """
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    tops.mem_get_info()
    try:
        tops.malloc(8 << 30)
    except tops.TopsError as error:
        print(error)
    """
    out = run_program(text, tmp_path).stdout
    assert "topsErrorOutOfMemory (2): the host can't reserve" in out
