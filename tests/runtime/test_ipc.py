"""Memory and events of several processes: two real ones, of the same devices."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

import tops_kit as tops

from .programs import PRELUDE, fails_with, floats, scale

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is shared between processes on Linux only"
)

PEER = """
import os, sys, time
def told(): return sys.stdin.readline().strip()
def say(text): print(text, flush=True)
def tried(function, *args):
    try:
        return function(*args)
    except tops.TopsError as error:
        say(f"{error}")
"""


class Peer:
    """A program in another process, which is spoken to by lines."""

    def __init__(self, text: str, file: Path) -> None:
        file.write_text(PRELUDE + PEER + textwrap.dedent(text), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ),
        )  # fmt: skip

    def _pipe(self, pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def tell(self, text: str) -> None:
        self._pipe(self.process.stdin).write(text + "\n")
        self._pipe(self.process.stdin).flush()

    def says(self) -> str:
        return self._pipe(self.process.stdout).readline().strip()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Peer]]:
    out: list[Peer] = []

    def started(text: str) -> Peer:
        out.append(Peer(text, tmp_path / f"peer{len(out)}.py"))
        return out[-1]

    yield started
    for peer in out:
        peer.process.kill()
        peer.process.communicate(timeout=60)


@pytest.mark.parametrize("count", [64, 100_000])  # a part of a page, and many
def test_two_processes_see_the_same_bytes(start: Callable[[str], Peer], count: int) -> None:
    values = floats(count)
    pointer = tops.malloc(4 * count)
    before = tops.malloc(4 * count)  # what lies beside it stays
    x, other = pointer.array((count,), tops.f32), before.array((count,), tops.f32)
    x[...] = values
    other[...] = values + 1
    handle = tops.ipc_get_mem_handle(pointer)
    assert len(handle) == 64
    assert handle == tops.ipc_get_mem_handle(pointer)
    assert np.array_equal(x.numpy(), values)
    assert np.array_equal(other.numpy(), values + 1)
    peer = start(f"""
        p = tops.ipc_open_mem_handle(bytes.fromhex(told()))
        q = tops.ipc_open_mem_handle(bytes.fromhex(told()))
        assert int(p) == int(q)
        x = p.array(({count},), tops.f32)
        say(repr(float(x.numpy().sum())))
        scale[24](x, x, 3.0)
        tops.memcpy(int(p) + 4, np.zeros(1, np.float32))
        tops.synchronize()
        say("scaled")
        told()
        say(repr(float(x[0].item())))
        tried(tops.free, p)
        tops.ipc_close_mem_handle(q)
        x.numpy()
        tops.ipc_close_mem_handle(p)
        tried(x.numpy)
        tried(tops.ipc_close_mem_handle, p)
        tried(tops.memcpy, bytearray(4), int(p), 4)
    """)  # fmt: skip
    peer.tell(handle.hex())
    peer.tell(handle.hex())
    assert float(peer.says()) == pytest.approx(float(values.sum()), rel=1e-4, abs=1e-3)
    assert peer.says() == "scaled"
    expected = values * np.float32(3)
    expected[1] = 0
    assert np.array_equal(x.numpy(), expected)
    x[...] = 7.0
    tops.synchronize()
    peer.tell("")
    assert peer.says() == "7.0"
    assert "tops.ipc_close_mem_handle gives it back" in peer.says()
    assert "was freed" in peer.says()
    assert "was freed" in peer.says()
    assert "is no address of a device" in peer.says()
    tops.free(pointer)
    again = tops.malloc(4 * count)
    tops.free(again)
    tops.free(before)


def test_what_is_freed_can_not_be_opened(start: Callable[[str], Peer]) -> None:
    small, large = tops.malloc(100), tops.malloc(1 << 20)
    handles = [tops.ipc_get_mem_handle(pointer) for pointer in (small, large)]
    tops.free(small)
    tops.free(large)
    peer = start("""
        for _ in range(2):
            tried(tops.ipc_open_mem_handle, bytes.fromhex(told()))
    """)  # fmt: skip
    for handle in handles:
        peer.tell(handle.hex())
    assert "topsErrorInvalidHandle (400): the memory was freed by process" in peer.says()
    assert "has ended or has given it back" in peer.says()


def test_memory_outlives_its_owner_where_it_was_opened(start: Callable[[str], Peer]) -> None:
    peer = start("""
        p = tops.malloc(1 << 20)
        p.array((1 << 18,), tops.f32)[...] = 5.0
        tops.synchronize()
        say(tops.ipc_get_mem_handle(p).hex())
        told()
    """)  # fmt: skip
    handle = bytes.fromhex(peer.says())
    opened = tops.ipc_open_mem_handle(handle)
    peer.process.kill()
    peer.process.wait(60)
    x = opened.array((1 << 18,), tops.f32)
    assert (x.numpy() == 5).all()
    tops.ipc_close_mem_handle(opened)
    with pytest.raises(tops.TopsError, match=r"process \d+, which shared it, has ended"):
        tops.ipc_open_mem_handle(handle)


def test_handles_that_are_none() -> None:
    pointer = tops.malloc(64)
    handle = tops.ipc_get_mem_handle(pointer)
    event = tops.Event(timing=False, interprocess=True)
    with fails_with("topsErrorInvalidContext", "own: use its pointer"):
        tops.ipc_open_mem_handle(handle)
    with fails_with("topsErrorInvalidContext", "own: use it itself"):
        tops.ipc_open_event_handle(tops.ipc_get_event_handle(event))
    with fails_with("topsErrorInvalidHandle", "none of memory"):
        tops.ipc_open_mem_handle(tops.ipc_get_event_handle(event))
    with fails_with("topsErrorInvalidHandle", "is 64 bytes"):
        tops.ipc_open_mem_handle(b"x")
    with fails_with("topsErrorInvalidValue", "no beginning of a block of malloc"):
        tops.ipc_get_mem_handle(pointer + 8)
    with fails_with("topsErrorInvalidValue", "no beginning of a block of malloc"):
        tops.ipc_get_mem_handle(tops.malloc_async(64))
    with fails_with("topsErrorInvalidValue", "not Array"):
        tops.ipc_get_mem_handle(tops.empty(4))  # type: ignore[arg-type]
    with fails_with("topsErrorInvalidValue", "takes what ipc_open_mem_handle gave"):
        tops.ipc_close_mem_handle(pointer)
    with fails_with("topsErrorInvalidHandle", "not for other processes"):
        tops.ipc_get_event_handle(tops.Event())
    with fails_with("topsErrorInvalidValue", "timing=False"):
        tops.Event(interprocess=True)
    tops.free(pointer)


def test_events_of_two_processes(start: Callable[[str], Peer]) -> None:
    peer = start("""
        p = tops.ipc_open_mem_handle(bytes.fromhex(told()))
        ready, done = (tops.ipc_open_event_handle(bytes.fromhex(told())) for _ in range(2))
        x = p.array((1000,), tops.f32)
        with tops.Stream() as stream:
            stream.wait_event(ready)
            scale[24](x, x, 2.0)
            done.record()
        say("recorded")
        told()
    """)  # fmt: skip
    pointer = tops.malloc(4000)
    x = pointer.array((1000,), tops.f32)
    ready, done = (tops.Event(timing=False, interprocess=True) for _ in range(2))
    x[...] = 1.0
    scale[24](x, x, 5.0)
    ready.record()
    peer.tell(tops.ipc_get_mem_handle(pointer).hex())
    for event in (ready, done):
        peer.tell(tops.ipc_get_event_handle(event).hex())
    assert peer.says() == "recorded"
    with tops.Stream() as stream:
        stream.wait_event(done)
        scale[24](x, x, 10.0)
        stream.synchronize()
    done.synchronize()
    assert done.query()
    assert (x.numpy() == 100).all()
    tops.free(pointer)


def test_an_event_whose_process_ended_holds_up_nobody_for_ever(
    start: Callable[[str], Peer], needs_c: None
) -> None:
    peer = start("""
        os.environ["TOPS_CLOCK"] = "model"  # no time goes by between its calls
        event = tops.ipc_open_event_handle(bytes.fromhex(told()))
        with tops.Stream() as stream:
            spin[1](tops.zeros(64), 1_000_000)
            tops.launch_host_func(print)  # what comes after it is not reached by itself
            event.record()
        say("recorded")
        told()
    """)  # fmt: skip
    event = tops.Event(timing=False, interprocess=True)
    peer.tell(tops.ipc_get_event_handle(event).hex())
    assert peer.says() == "recorded"
    assert not event.query()
    peer.process.kill()
    peer.process.wait(60)
    for wait in (event.synchronize, lambda: tops.default_stream().wait_event(event)):
        with fails_with("topsErrorLaunchFailure", "which recorded it, has ended"):
            wait()


def test_a_forked_child_opens_what_its_parent_shared() -> None:
    pointer = tops.malloc(256)
    x = pointer.array((64,), tops.f32)
    x[...] = 3.0
    tops.synchronize()
    handle = tops.ipc_get_mem_handle(pointer)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        out: Any = b"failed"
        try:
            y = tops.ipc_open_mem_handle(handle).array((64,), tops.f32)
            y[...] = y.numpy() + 1
            tops.synchronize()
            out = b"done"
        finally:
            os.write(write, out)
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"done"
    assert (x.numpy() == 4).all()
    tops.free(pointer)
