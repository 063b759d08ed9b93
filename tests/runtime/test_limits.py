"""Clusters that streams and processes have for themselves: no SIP is ever used twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tops_kit as tops
from tops_kit.gcu.state import layout
from tops_kit.runtime import activity as acts
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.plan import Plan
from tops_kit.runtime.process import RUNTIME

from .programs import PRELUDE, fails_with, floats, run_program, scale, spin

pytestmark = pytest.mark.usefixtures("needs_c")


def most_at_once(kernels: Sequence[acts.KernelActivity]) -> int:
    """The most clusters that kernels have at one time."""
    return max(
        (sum(k.clusters for k in kernels if k.start_ns <= at.start_ns < k.end_ns) for at in kernels),
        default=0,
    )


@pytest.mark.usefixtures("model_clock")
def test_other_streams_have_the_clusters_that_are_left() -> None:
    own, other = tops.Stream(non_blocking=True), tops.Stream(non_blocking=True)
    x, y = tops.zeros(64), tops.zeros(64)
    kernels: list[acts.KernelActivity] = []
    sink = HOOKS.add_sink(lambda _, kernel: kernels.append(kernel), acts.KERNEL)  # type: ignore[arg-type]
    own.set_launch_limit(1, 12)
    spin.options(stream=own)[12](x, 50_000)
    spin.options(stream=other)[24](y, 5_000)
    host = floats(64)
    np.testing.assert_array_equal(scale[24](host.copy(), np.empty_like(host), 2.0)["y"], host * 2)
    own.synchronize()
    own.set_launch_limit(0, 0)
    spin.options(stream=other)[24](y, 5_000)
    tops.synchronize()
    sink.close()
    assert [k.clusters for k in sorted(kernels, key=lambda k: k.grid_id)] == [1, 1, 1, 2]
    assert most_at_once(kernels) == 2
    before, after = [k.end_ns - k.start_ns for k in kernels if k.name == "spin" and k.stream_id == other.id]
    assert before > 1.9 * after - 20_000  # two blocks, one after the other


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["launch", "launch", "launch", "limit", "graph"]),
            st.integers(0, 2),
            st.integers(1, 36),
        ),
        max_size=14,
    )
)
@pytest.mark.usefixtures("model_clock")
def test_no_cluster_is_used_twice(steps: list[tuple[str, int, int]]) -> None:
    RUNTIME.end()
    streams = [tops.Stream(non_blocking=True) for _ in range(3)]
    arrays = [tops.zeros(64) for _ in streams]
    graphs = []
    for stream, x in zip(streams, arrays, strict=True):
        stream.begin_capture()
        spin.options(stream=stream)[24](x, 300)
        graphs.append(stream.end_capture().instantiate())
    kernels: list[acts.KernelActivity] = []
    sink = HOOKS.add_sink(lambda _, kernel: kernels.append(kernel), acts.KERNEL)  # type: ignore[arg-type]
    for what, number, count in steps:
        stream, x = streams[number], arrays[number]
        try:
            if what == "launch":
                spin.options(stream=stream)[count, 6](x, 200)
            elif what == "graph":
                graphs[number].launch(stream)
            else:
                stream.set_launch_limit(count % 3, 6 if count % 2 else 12)
        except tops.TopsError as error:
            assert error.code in (1, 701), error
    tops.synchronize()
    sink.close()
    assert most_at_once(kernels) <= 2


HOLDER = """
import sys
stream = tops.Stream()
for limit in ((1, 12), (2, 12), (2, 6), (0, 0)):
    stream.set_launch_limit(*limit)
    print(limit, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes share devices")
def test_what_a_process_has_reserved_no_other_one_gets(tmp_path: Path) -> None:
    holder = tmp_path / "holder.py"
    holder.write_text(PRELUDE + HOLDER, encoding="utf-8")
    text = f"""
        import subprocess, sys
        from tops_kit.runtime import activity as acts
        from tops_kit.runtime.hooks import HOOKS

        kernels = []
        HOOKS.add_sink(lambda _, kernel: kernels.append(kernel), acts.KERNEL)
        x = tops.zeros(64)
        holder = subprocess.Popen(
            [sys.executable, {str(holder)!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

        def launch(*threads):
            try:
                spin[threads](x, 5000)
                tops.synchronize()
                kernel = kernels.pop()
                print(kernel.clusters, kernel.end_ns - kernel.start_ns)
            except tops.TopsError as error:
                print(error)

        launch(2, 12)
        for _ in range(4):
            holder.stdout.readline()
            launch(2, 12)
            launch(2, 6)
            holder.stdin.write("on\\n")
            holder.stdin.flush()
        holder.wait()
    """
    lines = run_program(text, tmp_path).stdout.splitlines()
    whole, one, _, none, also_none, half, fits, again, _ = lines
    clusters, ns = map(int, whole.split())
    assert clusters == 2
    assert again.split()[0] == "2"
    assert one.split()[0] == "1"
    assert int(one.split()[1]) > 1.8 * ns
    assert (
        "topsErrorLaunchOutOfResources (701): kernel spin: no cluster of device 0 (S60) is left: process"
        in none
    )
    assert also_none == none
    assert "a cluster of s60 has 6 SIPs, as launch limits leave them" in half
    assert fits.split()[0] == "2"


RESET = """
x, p, event, stream = tops.zeros(64), tops.malloc(64), tops.Event(), tops.Stream()
spin[1](x, 10)
tops.synchronize()
import subprocess, sys
subprocess.run([sys.executable, "-m", "tops_kit.efsmi", "-i", "0", "--reset", "--force"], check=True)
calls = {
    "launch": lambda: spin[1](x, 10), "host": lambda: spin[1](np.zeros(64, "f4"), 10), "numpy": x.numpy,
    "synchronize": tops.synchronize, "stream": stream.synchronize, "query": stream.query,
    "event": event.record,
    "info": tops.mem_get_info, "free": lambda: tops.free(p), "malloc": lambda: tops.malloc(8),
    "zeros": lambda: tops.zeros(3), "memset": lambda: tops.memset(p, 0), "new": tops.Stream,
}
for name, call in calls.items():
    try:
        call()
    except tops.TopsError as error:
        print(name, error)
    else:
        print(name, "is not told")
tops.device_reset()
x = tops.zeros(64)
spin[1](x, 10)
print("again", x.numpy().sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes share devices")
@pytest.mark.parametrize("clock", ["virtual", "model"])
def test_who_lost_a_device_is_told_at_any_call(clock: str, tmp_path: Path) -> None:
    lines = run_program(RESET, tmp_path, TOPS_CLOCK=clock).stdout.splitlines()
    told = [line for line in lines if "topsErrorContextIsDestroyed (709): device 0 (S60) was reset" in line]
    assert len(told) == 13, lines
    assert lines[-1] == "again 0.0"


def test_what_is_wrong_with_the_environment_is_an_error_of_the_runtime(tmp_path: Path) -> None:
    for value in ("7", "abc", "0,0"):
        text = "try:\n    tops.device_count()\nexcept tops.TopsError as error:\n    print(error)"
        told = run_program(text, tmp_path, TOPS_VISIBLE_DEVICES=value).stdout
        assert told.startswith("topsErrorInvalidDevice (101): "), told
        assert told.count("\n") == 1
        command = [
            sys.executable,
            "-c",
            "import tops_kit.efsmi.command as c; raise SystemExit(c.main(['-L']))",
        ]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_waiting_copies_are_no_part_of_a_capture() -> None:
    stream = tops.Stream()
    x, host = tops.zeros(64), np.empty(64, np.float32)
    p = tops.malloc(256)
    for call in (
        x.numpy, x[3].item, x.tolist, lambda: np.asarray(x), lambda: tops.memcpy(host, x),
        lambda: tops.memcpy(x, host),
        lambda: tops.memcpy(host, p), lambda: tops.memcpy(host, host),
    ):  # fmt: skip
        stream.begin_capture()
        with stream, fails_with("topsErrorStreamCaptureUnsupported", "as this copy does"):
            call()
        with fails_with("topsErrorStreamCaptureInvalidated", "earlier error"):
            stream.end_capture()
    tops.free(p)


def test_fills_have_a_call() -> None:
    got: list[tuple[int, acts.Activity]] = []
    sink = HOOKS.add_sink(lambda kind, activity: got.append((kind, activity)), acts.API | acts.MEMSET)
    x = tops.zeros(64)
    x.fill(2)
    x[3:7] = 1
    tops.full((2, 2), 3)
    tops.synchronize()
    sink.close()
    calls = {a.correlation_id for kind, a in got if kind == acts.API and a.name == "topsMemsetAsync"}  # type: ignore[attr-defined]
    fills = [a.correlation_id for kind, a in got if kind == acts.MEMSET]  # type: ignore[attr-defined]
    assert len(fills) == 4
    assert set(fills) == calls
    assert 0 not in calls


def test_nothing_is_allocated_for_no_bytes() -> None:
    held = RUNTIME.current().in_use_bytes
    p = tops.malloc(0)
    assert not p
    tops.memset(p, 0)
    assert RUNTIME.current().in_use_bytes == held
    tops.free(p)
    tops.free_async(tops.malloc_async(0))
    q = tops.malloc(16)
    with fails_with("topsErrorInvalidValue", "a fill of 1,048,577 bytes: only 16 are"):
        tops.memset(q, 0, 1_048_577)
    tops.free(q)


def test_a_graphs_error_names_its_launch_and_its_node(tmp_path: Path) -> None:
    text = """
        @tops.kernel
        def wrong(x: tops.ptr(tops.f32)):
            assert x.shape[0] < 10, "too long"

        def nodes(s):
            with s:
                wrong[1](x)

        x, s = tops.zeros(64), tops.Stream()
        s.begin_capture()
        nodes(s)
        run = s.end_capture().instantiate()

        def go():
            run.launch(s)

        go()
        try:
            s.synchronize()
        except tops.TopsError as error:
            again = error.again()
            print(error, again.made_at, again.launched_at, sep="\\n")
        tops.device_reset()
    """
    told, made, launched = run_program(text, tmp_path).stdout.splitlines()
    assert "in go in a graph, its node made at " in told
    assert "in nodes" in told
    assert "in nodes" in made
    assert "in go" in launched


def test_others_see_that_time_stands_still_while_a_kernel_is_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = RUNTIME.current().device
    assert device is not None
    x = tops.zeros(64)
    seen = []
    real = Plan.run

    def frozen() -> bool:
        claim = device._claim
        return bool(claim.state.words[claim.slot + layout.S_FROZEN])

    def run(plan: Plan, values: Sequence[Any]) -> Any:
        seen.append(frozen())
        return real(plan, values)

    monkeypatch.setattr(Plan, "run", run)
    slow = spin.options(mode="sanitized")
    slow[1](x, 1)
    slow[1](np.zeros(64, np.float32), 1)
    assert seen == [True, True]
    assert not frozen()
    spin[1](x, 1)
    spin[1](x, 1)  # in C
    assert not frozen()
