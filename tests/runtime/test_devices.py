"""Several devices, slices, peers, modules, and what a process begins and ends with."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tests.gcu.simulation.test_waiting import Turns
from tops_kit.gcu import Specification
from tops_kit.gcu.clock import Clock, LocalTimeBase
from tops_kit.isa.binary import save
from tops_kit.runtime.process import RUNTIME

from .programs import PRELUDE, floats, run_program, scale, spin

TIMELINE = """
from tops_kit.runtime import activity as acts
from tops_kit.runtime.hooks import HOOKS
told = []
HOOKS.add_sink(lambda _, what: told.append(what), acts.ALL & ~acts.OVERHEAD)

def timeline():
    tops.synchronize()
    for one in told:
        fields = one._asdict()
        for name in ("thread_id", "launch", "note"):
            fields.pop(name, None)
        for side in ("src", "dst"):
            if fields.get(side + "_device_id") == -1:
                fields.pop(side + "_address")          # the host's
        if type(one) is acts.MemoryActivity and one.memory_kind == acts.MEMORY_PINNED:
            fields.pop("address")
        print(type(one).__name__, *fields.items())
"""


def test_two_runs_in_model_time_are_the_same_to_the_ns(needs_c: None, tmp_path: Path) -> None:
    text = (
        TIMELINE
        + """
x, y = tops.array(np.arange(4096, dtype="f4")), tops.zeros(4096)
streams = [tops.Stream(), tops.Stream(priority=-1)]
pinned = tops.host_malloc(4096, np.float32)
for k in range(20):
    with streams[k % 2]:
        scale[24](x, y, float(k))
        tops.memcpy_async(pinned, y)
        event = streams[k % 2].record()
        streams[1 - k % 2].wait_event(event)
        spin[1](x, 10 * k)
        tops.host_work(3000)
    z = tops.zeros(100 * k + 1)
streams[0].begin_capture()
with streams[0]:
    scale[12](x, y)
    tops.launch_host_func(tops.host_work, 700)
    scale[12](y, x)
run = streams[0].end_capture().instantiate()
run.launch()
scale[24](np.ones(100, "f4"), np.ones(100, "f4"))
timeline()
"""
    )
    first, second = (run_program(text, tmp_path, TOPS_CLOCK="model").stdout for _ in range(2))
    assert first == second
    assert first.count("KernelActivity") == 43
    assert first.count("MemcpyActivity") >= 20


def test_a_loader_works_beside_the_device(needs_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that loads for 8 while the device works for 10: 10 a step, after the first batch.

    Raw time is the test's: it moves when both threads wait, to what comes next.
    """
    time = Turns(2)
    RUNTIME.end()
    monkeypatch.setenv("TOPS_CLOCK", "virtual")

    def clock(_: object, spec: Specification, **options: Any) -> Clock:
        return Clock(LocalTimeBase(raw=time), spec, sleep=time.sleep, threads=lambda: time.threads, **options)

    monkeypatch.setattr("tops_kit.runtime.process.Clock", clock)
    steps, loaded, taken, ends = 6, list[int](), list[int](), list[int]()
    try:
        x = tops.zeros(64)
        time.threads = 1
        launch = spin.options(mode="timed")[1](x, 50_000)
        tops.synchronize()
        device_ns, time.threads = launch.ns, 2
        begin_ns = tops.now_ns()

        def load() -> None:
            for step in range(steps):
                tops.host_work(device_ns * 8 // 10)
                time.tell(lambda: loaded.append(step))
                time.wait_for(lambda: len(taken) > step)  # one batch ahead
            time.end()

        loader = threading.Thread(target=load)
        loader.start()
        for step in range(steps):
            time.wait_for(lambda: len(loaded) > step)
            time.tell(lambda: taken.append(step))
            spin[1](x, 50_000)
            tops.synchronize()
            ends.append(tops.now_ns() - begin_ns)
        loader.join()
    finally:
        RUNTIME.end()
    # one after the other it would be 18 a step
    assert ends == [device_ns * 8 // 10 + device_ns * (step + 1) for step in range(steps)]


def test_several_devices(needs_c: None, tmp_path: Path) -> None:
    outcome = run_program(
        """
        print(tops.device_count(), [tops.device_properties(k)["part"] for k in range(3)])
        x = tops.array(np.arange(64, dtype="f4"))
        tops.set_device(1)
        print(tops.get_device(), tops.current_stream().device, scale.part.name)
        y = tops.zeros(64)
        print(x.device, y.device)
        try:
            scale[2](x, y)
        except tops.TopsError as error:
            print(error.name)
        moved = x.to(1)
        scale[2](moved, y)
        print(y.numpy()[:4])
        print(tops.can_access_peer(1, 0), tops.can_access_peer(1, 1))
        tops.enable_peer_access(0)
        scale[2](x, y, 3.0)
        print(y.numpy()[:4])
        tops.disable_peer_access(0)
        with tops.Device(2):
            z = tops.zeros(64)
            tops.memcpy_peer(z, y)
            scale[4](z, z)
            print(z.device, z.numpy()[:4])
        print(tops.get_device())
        tops.set_device(0)
        with tops.Stream(device=2):
            print(tops.get_device(), tops.zeros(3).device)
        """,
        tmp_path,
        TOPS_DEVICES="2xs60,t20",
    )
    assert outcome.stdout.splitlines() == [
        "3 ['s60', 's60', 't20']", "1 1 s60", "0 1", "topsErrorPeerAccessNotEnabled", "[0. 2. 4. 6.]",
        "True False", "[0. 3. 6. 9.]", "2 [ 0.  6. 12. 18.]", "1", "2 2",
    ]  # fmt: skip


def test_peer_copies_take_both_buses(needs_c: None, tmp_path: Path) -> None:
    outcome = run_program(
        TIMELINE
        + """
a, b = tops.zeros(1 << 20), None
tops.set_device(1)
b = tops.zeros(1 << 20)
tops.memcpy_peer(b, a)
copy = [one for one in told if isinstance(one, acts.MemcpyActivity)][-1]
print(copy.copy_kind == acts.COPY_PTOP, copy.src_device_id, copy.dst_device_id, copy.size_bytes)
print(copy.end_ns - copy.start_ns)
""",
        tmp_path,
        TOPS_DEVICES="2xs60",
        TOPS_CLOCK="model",
    )
    first, took = outcome.stdout.splitlines()
    assert first == "True 0 1 4194304"
    assert int(took) == 2000 + -(-4194304 * 10**9 // 63_000_000_000)


def test_visible_devices_and_slices(needs_c: None, tmp_path: Path) -> None:
    text = """
    from tops_kit.gcu.state import cards
    cards()[1].set_drs(True)
    cards()[1].create_slices(2)
    """
    run_program(text, tmp_path, TOPS_DEVICES="2xs60")
    outcome = run_program(
        """
        print(tops.device_count(), tops.device_properties()["sips"], tops.device_properties()["slice"])
        x, y = tops.array(np.arange(64, dtype="f4")), tops.zeros(64)
        launch = scale[12](x, y)
        print(launch.part.name, y.numpy()[:3])
        """,
        tmp_path,
        TOPS_DEVICES="2xs60",
        TOPS_VISIBLE_DEVICES="1:0",
    )
    assert outcome.stdout.splitlines() == ["1 12 0", "s60 (slice 0 of 2) [0. 2. 4.]"]


def test_modules_of_compiled_files(needs_c: None, tmp_path: Path) -> None:
    path = tmp_path / "k.topsbin"
    save([scale.compile(floats(4), floats(4), 2.0)], path)
    module = tops.Module.load(path)
    assert module.functions == ("scale",)
    function = module.function("scale")
    assert isinstance(function, tops.Function)
    assert function.parameters == ("x", "y", "f")
    x, y = tops.array(floats(100)), tops.zeros(100)
    function[4](x, y, 3.0)
    assert np.allclose(y.numpy(), floats(100) * 3)
    host = np.zeros(100, np.float32)
    function[2, 2](x=floats(100), y=host, f=2)
    assert np.allclose(host, floats(100) * 2)
    for args, complaint in (
        ((x, y), "scale: takes 3 arguments .* needs an argument f"),
        ((x, y, 1.0, 2), "4 are given"),
        ((x[None], y, 1.0), "scale: x is f32 with 1 axes, got f32 with 2"),
        ((x, 3, 1.0), "scale: y is an array, got int"),
    ):
        with pytest.raises(tops.LaunchError, match=complaint):
            function[4](*args)
    with pytest.raises(tops.TopsError, match=r"topsErrorNotFound \(500\): .* has no kernel 'no': scale"):
        module.function("no")
    with pytest.raises(tops.TopsError, match=r"topsErrorFileNotFound \(301\)"):
        tops.Module.load(tmp_path / "missing.topsbin")
    (tmp_path / "bad.topsbin").write_bytes(b"nonsense")
    with pytest.raises(tops.TopsError, match=r"topsErrorInvalidImage \(200\): .*not a topsbin file"):
        tops.Module.load(tmp_path / "bad.topsbin")
    graph = tops.Graph()
    graph.add_kernel(function[4], (x, y, 5.0))
    graph.instantiate().launch()
    assert np.allclose(y.numpy(), floats(100) * 5)
    module.unload()
    with pytest.raises(tops.TopsError, match="was unloaded"):
        function[4](x, y, 3.0)
    save([scale.on("t20").compile(floats(4), floats(4), 2.0)], path)
    with pytest.raises(tops.TopsError, match=r"topsErrorNoBinaryForGpu \(209\): scale was compiled for t20"):
        tops.Module.load(path).function("scale")[4](x, y, 3.0)


def test_modules_from_source(needs_c: None) -> None:
    module = tops.Module.from_source(PRELUDE + "\nFACTOR = 3\n", EXTRA=1)
    assert module.functions == ("scale", "spin")
    x, y = tops.array(floats(64)), tops.zeros(64)
    launch = module.function("scale")[2](x, y, 4.0)
    assert np.allclose(y.numpy(), floats(64) * 4)
    assert "tops source" in launch.program.files[0].path
    for text, complaint in (
        ("def f(:", "line 1: invalid syntax"), ("1/0", "ZeroDivisionError"), (3, "source is a text, not int"),
    ):  # fmt: skip
        with pytest.raises(tops.TopsError, match=complaint):
            tops.Module.from_source(text)  # type: ignore[arg-type]
    assert tops.Module.from_source("x = 1").functions == ()


def test_the_end_of_a_process_finishes_and_tells_everything(needs_c: None, tmp_path: Path) -> None:
    outcome = run_program(
        """
        import atexit, json, sys
        from tops_kit.runtime import activity as acts
        from tops_kit.runtime.hooks import HOOKS
        out = []
        HOOKS.add_sink(lambda kind, one: out.append(one), acts.KERNEL | acts.MEMORY)

        @atexit.register
        def report():          # registered before the runtime began: it runs last
            live = {}
            for one in out:
                if isinstance(one, acts.MemoryActivity):
                    if one.operation == acts.MEMORY_ALLOC:
                        live[one.serial] = one.note
                    else:
                        live.pop(one.serial)
            kernels = sum(isinstance(one, acts.KernelActivity) for one in out)
            print(json.dumps([kernels, list(live.values())]))

        kept = tops.zeros(64)
        spin[1](kept, 1000)
        leaked = tops.malloc(100)
        tops.free(tops.malloc(50))
        """,
        tmp_path,
    )
    kernels, leaks = json.loads(outcome.stdout)
    assert kernels == 1
    (leak,) = leaks
    line = next(
        k
        for k, text in enumerate((tmp_path / "program.py").read_text().splitlines(), 1)
        if "leaked =" in text
    )
    assert leak.endswith(f"program.py:{line}")
    assert not outcome.stderr


def test_children_begin_anew(needs_c: None, tmp_path: Path) -> None:
    outcome = run_program(
        """
        import multiprocessing, os, sys
        x = tops.array(np.arange(64, dtype="f4"))

        def work(queue):
            try:
                x.numpy()
                queue.put("the parent's")
            except tops.TopsError as error:
                queue.put(str(error))
            y = tops.zeros(64)
            scale[2](tops.array(np.ones(64, "f4")), y)
            queue.put(float(y.numpy().sum()))

        if __name__ == "__main__":
            scale[2](x, x)
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            child = context.Process(target=work, args=(queue,))
            child.start()
            print(queue.get(timeout=60))
            print(queue.get(timeout=60))
            child.join()
            print(child.exitcode, x.numpy()[:3])
        """,
        tmp_path,
    )
    told, total, last = outcome.stdout.splitlines()
    assert "belongs to the process that this one was forked from" in told
    assert (total, last) == ("128.0", "0 [0. 2. 4.]")


def test_spawned_processes_share_a_device(needs_c: None, tmp_path: Path) -> None:
    outcome = run_program(
        """
        import multiprocessing

        def work(queue, go):
            memory = tops.malloc(40 << 30)
            queue.put(1)
            go.wait(60)

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue, go = context.Queue(), context.Event()
            child = context.Process(target=work, args=(queue, go))
            child.start()
            queue.get(timeout=60)
            try:
                tops.malloc(20 << 30)
            except tops.TopsError as error:
                print(error.name, f"process {child.pid}" in str(error))
            child.kill()
            child.join()
            tops.free(tops.malloc(20 << 30))
            print("freed")
        """,
        tmp_path,
    )
    assert outcome.stdout.splitlines() == ["topsErrorOutOfMemory True", "freed"]


def test_interrupts_reach_a_waiting_program(tmp_path: Path) -> None:
    outcome = run_program(
        """
        import os, signal, threading
        x = tops.zeros(64)
        spin[1](x, 10)
        tops.synchronize()
        stop = threading.Event()
        threading.Thread(target=stop.wait).start()   # so that waits sleep
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tops.launch_host_func(tops.host_work, 60_000_000_000)
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            tops.synchronize()
        except KeyboardInterrupt:
            print("interrupted")
        stop.set()
        """,
        tmp_path,
    )
    assert outcome.stdout == "interrupted\n"
