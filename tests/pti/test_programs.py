"""What tools are told of programs that really run: the same times, to the ns, as launches give themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import topspti
from topspti import ActivityKind

import tops_kit as tops

TOOLS = Path(__file__).resolve().parents[2] / "sample_apps" / "pti_tools"
pytestmark = pytest.mark.usefixtures("needs_c")
N = 50_000


@tops.kernel
def scale(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
        j = min(i + 1024, n)
        tops.store(y[i:j], tops.load(x[i:j]) * 2.0)


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    return tops.asarray(np.ones(N, np.float32)), tops.zeros(N, tops.f32)


def traced(work: Callable[[], Any], *kinds: ActivityKind) -> topspti.Trace:
    with topspti.Trace(*kinds) as trace:
        work()
        tops.synchronize()
    return trace


def test_kernel_times_are_those_of_the_launches(arrays: tuple[Any, Any]) -> None:
    x, y = arrays
    launches: list[Any] = []

    def work() -> None:
        for k in range(20):
            launches.append(scale[24](x, y, N - 1000 * k))

    trace = traced(work, ActivityKind.KERNEL, ActivityKind.RUNTIME, ActivityKind.KERNEL_METRIC)
    kernels = trace.of(topspti.KernelRecord)
    assert [kernel.duration_ns for kernel in kernels] == [launch.ns for launch in launches]
    counted = [each.value for each in trace.of(topspti.KernelMetricRecord) if each.metric == "duration_ns"]
    assert sum(counted) == sum(kernel.duration_ns for kernel in kernels)
    calls = {call.correlation_id: call for call in trace.of(topspti.ApiRecord)}
    for kernel in kernels:
        call = calls[kernel.correlation_id]
        assert call.name == "topsLaunchKernel"
        assert call.start_ns == kernel.queued_ns <= kernel.submit_ns <= kernel.start_ns < kernel.end_ns
        assert (kernel.grid_x, kernel.block_x, kernel.name) == (2, 12, "scale")
    assert trace.dropped == 0


def test_streams_that_share_memory_say_how_long_they_shared(arrays: tuple[Any, Any]) -> None:
    streams = [tops.Stream(non_blocking=True) for _ in range(2)]
    launches: list[Any] = []

    def work() -> None:
        for _ in range(5):
            for stream in streams:
                with stream:
                    launches.append(scale[1, 12](*arrays, N))

    kernels = traced(work, ActivityKind.KERNEL).of(topspti.KernelRecord)
    assert len({kernel.stream_id for kernel in kernels}) == 2
    alone = sorted(kernel.duration_ns - kernel.contention_ns for kernel in kernels)
    assert alone == sorted(launch.ns for launch in launches)


def test_copies_and_fills_have_their_bytes(arrays: tuple[Any, Any]) -> None:
    x, _ = arrays

    def work() -> None:
        x.numpy()
        tops.memset(x, 0)

    trace = traced(work, ActivityKind.MEMCPY, ActivityKind.MEMSET, ActivityKind.RUNTIME)
    (copy,) = trace.of(topspti.MemcpyRecord)
    (fill,) = trace.of(topspti.MemsetRecord)
    assert (copy.copy_kind_name, copy.bytes, fill.bytes, fill.value) == ("DtoH", 4 * N, 4 * N, 0)
    names = {call.correlation_id: call.name for call in trace.of(topspti.ApiRecord)}
    assert names[copy.correlation_id].startswith("topsMemcpy") and names[fill.correlation_id].startswith(
        "topsMemset"
    )


def test_memory_comes_and_goes() -> None:
    def work() -> None:
        tops.free(tops.malloc(1 << 20))

    found = traced(work, ActivityKind.MEMORY).of(topspti.MemoryRecord)
    taken, given = [each for each in found if each.bytes == 1 << 20]
    assert (taken.operation_name, given.operation_name) == ("alloc", "free")
    assert (taken.serial, taken.bytes, taken.address) == (given.serial, given.bytes, given.address)
    assert taken.in_use_bytes >= 1 << 20
    assert Path(__file__).name in taken.note


def test_waiting_and_events_are_told(arrays: tuple[Any, Any]) -> None:
    def work() -> None:
        stream = tops.Stream()
        event = tops.Event()
        with stream:
            scale[24](*arrays, N)
            event.record()
        event.synchronize()
        stream.synchronize()

    trace = traced(work, ActivityKind.SYNCHRONIZATION, ActivityKind.GCU_EVENT, ActivityKind.KERNEL)
    waits = [each.sync_kind_name for each in trace.of(topspti.SynchronizationRecord)]
    assert waits == ["event", "stream", "device"]
    (reached,) = trace.of(topspti.GcuEventRecord)
    (kernel,) = trace.of(topspti.KernelRecord)
    assert reached.start_ns >= kernel.end_ns


def test_ids_of_a_framework_are_linked_with_launches(arrays: tuple[Any, Any]) -> None:
    def work() -> None:
        topspti.activity_push_external_correlation_id(topspti.ExternalKind.FRAMEWORK, 17)
        scale[24](*arrays, N)
        topspti.activity_pop_external_correlation_id(topspti.ExternalKind.FRAMEWORK)
        scale[24](*arrays, N)

    trace = traced(work, ActivityKind.EXTERNAL_CORRELATION, ActivityKind.KERNEL)
    (link,) = trace.of(topspti.ExternalCorrelationRecord)
    first, _ = trace.of(topspti.KernelRecord)
    assert (link.external_id, link.correlation_id) == (17, first.correlation_id)


def test_a_callback_sees_the_kernel_and_may_use_the_runtime(arrays: tuple[Any, Any]) -> None:
    seen: list[Any] = []

    def callback(domain: topspti.Domain, cbid: int, data: topspti.CallbackData) -> None:
        seen.append((data.symbol_name, data.callback_site.name, tops.mem_get_info()[1] > 0))

    with topspti.subscribe(callback) as subscriber:
        subscriber.enable(topspti.Domain.RUNTIME_API, topspti.cbid("topsLaunchKernel"))
        scale[24](*arrays, N)
        tops.synchronize()
    assert seen == [("scale", "API_ENTER", True), ("scale", "API_EXIT", True)]


def test_an_error_is_a_status() -> None:
    with topspti.Trace(ActivityKind.RUNTIME) as trace, pytest.raises(tops.TopsError) as error:
        tops.free(12345)
    (call,) = [each for each in trace.of(topspti.ApiRecord) if each.name == "topsFree"]
    assert call.return_value == error.value.code != 0


PROGRAM = """
import sys
import numpy as np
import tops_kit as tops

@tops.kernel
def soft(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
        j = min(i + 1024, n)
        tops.store(y[i:j], tops.exp(tops.load(x[i:j])))

@tops.kernel
def other(x: tops.ptr(tops.f32)):
    tops.store(x[0:8], 1.0)

x = tops.asarray(np.ones(10_000, np.float32))
y = tops.empty_like(x)
for _ in range(3):
    soft[24](x, y, 10_000)
other[1](x)
kept = tops.malloc(4096)
tops.free(tops.malloc(64))
print("out", sys.argv[1:])
sys.exit(int(sys.argv[1]))
"""


def run_tool(name: str, tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(TOOLS / name), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)


def test_the_launch_tracer(tmp_path: Path) -> None:
    done = run_tool("launch_tracer.py", tmp_path, "program.py", "5", "-x")
    assert (done.returncode, done.stdout) == (5, "out ['5', '-x']\n")
    assert [line.split()[5] for line in done.stderr.splitlines()[1:-1]] == ["soft"] * 3 + ["other"]
    assert done.stderr.splitlines()[-1].startswith("4 launches, ")


def test_the_memory_leak_finder(tmp_path: Path) -> None:
    done = run_tool("memory_leak_finder.py", tmp_path, "program.py", "0")
    assert done.returncode == 1  # it leaks
    head, *places = done.stderr.splitlines()
    assert "4,096 bytes never freed" in head
    (place,) = places
    assert "program.py:21" in place


def test_the_kernel_filter(tmp_path: Path) -> None:
    done = run_tool("kernel_filter.py", tmp_path, "-k", "so.t", "program.py", "0")
    assert done.returncode == 0
    assert done.stderr.startswith("soft: 3 launches, ")
    assert "other" not in done.stderr
    assert "SIP/BUSY" in done.stderr and "program.py:10" in done.stderr


@pytest.mark.parametrize("name", ["launch_tracer.py", "memory_leak_finder.py", "kernel_filter.py"])
def test_tools_refuse_in_one_line(name: str, tmp_path: Path) -> None:
    done = run_tool(name, tmp_path, "absent.py")
    assert done.returncode == 2
    assert f"{name}: no program absent.py" in done.stderr and "Traceback" not in done.stderr
    assert len((TOOLS / name).read_text().splitlines()) < 80


def test_a_programs_own_error_is_its_own(tmp_path: Path) -> None:
    done = run_tool("launch_tracer.py", tmp_path, "program.py", "x")
    assert done.returncode == 1
    assert "ValueError" in done.stderr and "runpy" not in done.stderr and "running.py" not in done.stderr


def test_kernels_on_the_hosts_arrays_are_told_with_their_copies() -> None:
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    launches: list[Any] = []
    kinds = (ActivityKind.KERNEL, ActivityKind.MEMCPY, ActivityKind.KERNEL_METRIC)
    trace = traced(lambda: launches.append(scale[24](x, y, N)), *kinds)
    (kernel,) = trace.of(topspti.KernelRecord)
    assert kernel.duration_ns == launches[0].ns
    assert [copy.copy_kind_name for copy in trace.of(topspti.MemcpyRecord)] == ["HtoD", "DtoH"]
    assert "cycles" in {each.metric for each in trace.of(topspti.KernelMetricRecord)}


def test_nodes_of_a_graph_have_its_number(arrays: tuple[Any, Any]) -> None:
    def work() -> None:
        stream = tops.Stream()
        with stream:
            stream.begin_capture()
            for _ in range(3):
                scale[24](*arrays, N)
            graph = stream.end_capture().instantiate()
        graph.launch(stream)
        graph.launch(stream)

    trace = traced(work, ActivityKind.GRAPH, ActivityKind.KERNEL, ActivityKind.RUNTIME)
    graphs = trace.of(topspti.GraphRecord)
    kernels = trace.of(topspti.KernelRecord)
    assert [graph.nodes for graph in graphs] == [3, 3]
    assert len(kernels) == 6
    assert {kernel.graph_id for kernel in kernels} == {graphs[0].graph_id} != {0}
    assert len({kernel.graph_node_id for kernel in kernels}) == 3
    for graph in graphs:
        nodes = [kernel for kernel in kernels if kernel.correlation_id == graph.correlation_id]
        assert graph.start_ns == min(kernel.start_ns for kernel in nodes)
        assert graph.end_ns == max(kernel.end_ns for kernel in nodes)
    launched = [call for call in trace.of(topspti.ApiRecord) if call.name == "topsGraphLaunch"]
    assert [call.correlation_id for call in launched] == [graph.correlation_id for graph in graphs]


MODEL = """
import numpy as np
import topspti
import tops_kit as tops
from topspti import ActivityKind as K

@tops.kernel
def scale(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
        j = min(i + 1024, n)
        tops.store(y[i:j], tops.load(x[i:j]) * 2.0)

kinds = [kind for kind in K if kind not in (K.INVALID, K.OVERHEAD)]
with topspti.Trace(*kinds) as trace:
    x = tops.asarray(np.ones(50_000, np.float32))
    y = tops.empty_like(x)
    for stream in [tops.Stream(), tops.Stream()] * 3:
        with stream:
            scale[1, 12](x, y, 50_000)
        tops.host_work(3_000)
    y.numpy()
    tops.synchronize()
own = ("process_id", "thread_id", "address", "src_address", "dst_address")
for record in trace:
    names = [name for kind in type(record).__mro__ for name in getattr(kind, "__slots__", ())]
    print(type(record).__name__, [(name, getattr(record, name)) for name in names if name not in own])
"""


def test_in_model_time_two_runs_are_told_alike(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MODEL)
    outputs = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "program.py"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "TOPS_CLOCK": "model", "PYTHONHASHSEED": seed},
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("KernelRecord") == 6


def test_the_driver_is_told_under_the_call_that_needs_it(arrays: tuple[Any, Any]) -> None:
    @tops.kernel
    def fresh(x: tops.ptr(tops.f32)):
        tops.store(x[0:8], 3.0)

    def work() -> None:
        pointer = tops.malloc(4096)
        fresh[1](arrays[0])
        tops.synchronize()
        tops.free(pointer)

    names: list[str] = []
    with topspti.subscribe(lambda domain, cbid, data: names.append(data.function_name)) as subscriber:
        subscriber.enable_domain(topspti.Domain.DRIVER_API)
        trace = traced(work, ActivityKind.DRIVER, ActivityKind.RUNTIME)
    calls = trace.of(topspti.ApiRecord)
    runtime = {call.correlation_id: call.name for call in calls if call.kind == ActivityKind.RUNTIME}
    under = {
        (call.name, runtime.get(call.correlation_id)) for call in calls if call.kind == ActivityKind.DRIVER
    }
    assert under >= {
        ("memoryMap", "topsMalloc"),
        ("programLoad", None),  # it is made ready before the launch
        ("queueSubmit", "topsLaunchKernel"),
        ("queueWait", "topsDeviceSynchronize"),
        ("memoryUnmap", "topsFree"),
    }
    assert {name for name, _ in under} == set(names)
