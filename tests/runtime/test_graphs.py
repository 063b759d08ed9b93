"""Graphs: captured or made node by node, they do what the calls would have done, in one launch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tops_kit as tops
from tops_kit.runtime import activity as acts
from tops_kit.runtime.graph.lanes import lanes_of
from tops_kit.runtime.process import RUNTIME

from .programs import add, floats, scale, spin
from .test_streams import told


@pytest.fixture(autouse=True)
def _modelled(model_clock: None) -> None:
    """Times of the model."""


def forked(
    a: tops.Stream, b: tops.Stream, x: tops.Array, y: tops.Array, z: tops.Array, out: tops.Array
) -> None:
    """Two kernels side by side, and one that needs both."""
    fork, join = tops.Event(), tops.Event()
    fork.record(a)
    b.wait_event(fork)
    scale.options(stream=a)[2](x, y, 3.0)
    scale.options(stream=b)[2](x, z, 4.0)
    join.record(b)
    a.wait_event(join)
    add.options(stream=a)[2](y, z, out)


def test_a_captured_graph_does_what_the_calls_do() -> None:
    x, y, z, out = (tops.array(floats(300, seed=k)) for k in range(4))
    a, b = tops.Stream(), tops.Stream()
    forked(a, b, x, y, z, out)
    direct = out.numpy()
    out.fill(0)
    a.begin_capture()
    assert a.is_capturing
    forked(a, b, x, y, z, out)
    graph = a.end_capture()
    assert not (a.is_capturing or b.is_capturing)
    assert not out.numpy().any()
    assert len(graph) == 3
    run = graph.instantiate()
    assert "3 nodes on 2 streams" in repr(run)
    for _ in range(3):
        out.fill(0)
        run.launch(a)
        assert np.array_equal(out.numpy(), direct)


def test_one_launch_replaces_many() -> None:
    x = tops.zeros(64)
    stream = tops.Stream()
    with stream:
        spin[1](x, 1)
        stream.synchronize()
        begin = tops.now_ns()
        for _ in range(20):
            spin[1](x, 1)
        many = tops.now_ns() - begin
        stream.synchronize()
        stream.begin_capture()
        for _ in range(20):
            spin[1](x, 1)
        run = stream.end_capture().instantiate()
        with told(acts.KERNEL | acts.GRAPH | acts.API) as done:
            begin = tops.now_ns()
            run.launch()
            once = tops.now_ns() - begin
    assert once * 10 < many
    kernels = [one for one in done if isinstance(one, acts.KernelActivity)]
    (whole,) = (one for one in done if isinstance(one, acts.GraphActivity))
    calls = [one.name for one in done if isinstance(one, acts.ApiActivity)]
    assert calls == ["topsGraphLaunch", "topsDeviceSynchronize"]
    assert len(kernels) == whole.nodes == 20
    assert [kernel.graph_node_id for kernel in kernels] == list(range(1, 21))
    assert {kernel.correlation_id for kernel in kernels} == {whole.correlation_id}
    assert whole.start_ns == kernels[0].start_ns
    assert whole.end_ns == kernels[-1].end_ns


def test_a_graph_made_node_by_node() -> None:
    x, y, z = tops.array(floats(100)), tops.zeros(100), tops.zeros(100)
    host = tops.host_malloc(100, np.float32)
    seen: list[int] = []
    graph = tops.Graph()
    fill = graph.add_memset(z, 0x3F800000, bits=32)
    first = graph.add_kernel(scale[2], (x, y, 5.0))
    both = graph.add_kernel(add[2], (y, z, z), after=[fill, first])
    copy = graph.add_memcpy(host, z, after=[both])
    call = graph.add_host(seen.append, 7, after=[copy])
    event = tops.Event()
    graph.add_event_record(event, after=[graph.add_empty([call])])
    with pytest.raises(tops.TopsError, match="node 0 can't wait for 4: that would be a circle"):
        graph.add_dependency(call, fill)
    graph.add_dependency(fill, first)
    with pytest.raises(tops.TopsError, match="has no node 99: it has 7"):
        graph.add_empty([99])
    dot = graph.dot()
    assert dot.startswith("digraph graph_")
    assert '"0: memset 400 bytes, 0x3f800000"' in dot
    assert "  n3 -> n4;" in dot
    graph.instantiate().launch()
    event.synchronize()
    assert seen == [7]
    assert np.allclose(host, floats(100) * 5 + 1)
    tops.host_free(host)


def test_graphs_within_graphs() -> None:
    x = tops.array(floats(64))
    inner = tops.Graph()
    inner.add_kernel(scale[1], (x, x, 2.0))
    outer = tops.Graph()
    first = outer.add_graph(inner)
    outer.add_graph(inner, after=[first])
    run = outer.instantiate()
    stream = tops.Stream()
    stream.begin_capture()
    run.launch(stream)
    run.launch(stream)
    stream.end_capture().instantiate().launch(stream)
    assert np.allclose(x.numpy(), floats(64) * 16)


def test_graphs_take_other_arguments() -> None:
    x, y, z = tops.array(floats(64)), tops.zeros(64), tops.zeros(64)
    graph = tops.Graph()
    node = graph.add_kernel(scale[1], (x, y, 2.0))
    run = graph.instantiate()
    run.set_arguments(node, x, z, 3.0)
    run.launch()
    assert not y.numpy().any()
    assert np.allclose(z.numpy(), floats(64) * 3)
    other = tops.Graph()
    other.add_kernel(scale[1], (x, y, 7.0))
    run.update(other)
    run.launch()
    assert np.allclose(y.numpy(), floats(64) * 7)
    other.add_empty()
    with pytest.raises(
        tops.TopsError, match=r"topsErrorGraphExecUpdateFailure \(910\): .*other nodes, edges or devices"
    ):
        run.update(other)
    different = tops.Graph()
    different.add_memset(y, 0)
    with pytest.raises(tops.TopsError, match="node 0 is 'memset 256 bytes, 0x0' now"):
        run.update(different)


def test_constants_are_refitted() -> None:
    weights, x, y = tops.array(floats(64)), tops.array(floats(64, seed=1)), tops.zeros(64)
    graph = tops.Graph()
    graph.add_kernel(add[1], (weights, x, y))
    graph.constant("weights", weights)
    run = graph.instantiate()
    assert run.refit_flag("weights")
    assert not run.refit_flag("bias")
    run.update_constant("weights", np.ones(64, np.float32))
    run.launch()
    assert np.allclose(y.numpy(), floats(64, seed=1) + 1)
    run.load_constants({"weights": np.zeros(64, np.float32)})
    run.launch()
    assert np.allclose(y.numpy(), floats(64, seed=1))
    with pytest.raises(
        tops.TopsError, match=r"topsErrorNotFound \(500\): .* has no constant 'bias': weights"
    ):
        run.update_constant("bias", x)


def _wrong_default(s: tops.Stream, x: tops.Array) -> None:
    spin.options(stream=tops.default_stream())[1](x, 1)


def _wrong_host(s: tops.Stream, x: tops.Array) -> None:
    spin.options(stream=s)[1](np.zeros(64, np.float32), 1)


def _wrong_event(s: tops.Stream, x: tops.Array) -> None:
    event = tops.Stream().record()
    s.wait_event(event)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda s, x: s.synchronize(), "topsErrorStreamCaptureUnsupported"),
        (lambda s, x: s.query(), "topsErrorStreamCaptureUnsupported"),
        (lambda s, x: tops.synchronize(), "topsErrorStreamCaptureUnsupported"),
        (_wrong_default, "topsErrorStreamCaptureImplicit"),
        (_wrong_host, "topsErrorStreamCaptureUnsupported"),
        (_wrong_event, "topsErrorStreamCaptureIsolation"),
    ],
)
def test_what_can_not_be_captured(wrong: Any, name: str) -> None:
    x = tops.zeros(64)
    tops.synchronize()
    stream = tops.Stream()
    stream.begin_capture()
    with pytest.raises(tops.TopsError, match=rf"^{name} "):
        wrong(stream, x)
    with pytest.raises(tops.TopsError, match="topsErrorStreamCaptureInvalidated"):
        stream.end_capture()
    spin.options(stream=stream)[1](x, 1)
    tops.synchronize()


def test_captures_that_do_not_end_as_they_began() -> None:
    x = tops.zeros(64)
    a, b = tops.Stream(), tops.Stream()
    with pytest.raises(tops.TopsError, match="the default stream can't be captured"):
        tops.default_stream().begin_capture()
    with pytest.raises(tops.TopsError, match="is not being captured"):
        a.end_capture()
    a.begin_capture()
    with pytest.raises(tops.TopsError, match="is being captured already"):
        a.begin_capture()
    b.wait_event(a.record())
    spin.options(stream=b)[1](x, 1)
    with pytest.raises(tops.TopsError, match="topsErrorStreamCaptureUnmatched"):
        b.end_capture()
    with pytest.raises(
        tops.TopsError, match=r"topsErrorStreamCaptureUnjoined \(904\): stream \d+ was forked"
    ):
        a.end_capture()
    event = tops.Event()
    a.begin_capture()
    event.record(a)
    with pytest.raises(tops.TopsError, match="topsErrorCapturedEvent"):
        event.synchronize()
    a.end_capture()
    with pytest.raises(tops.TopsError, match="topsErrorCapturedEvent"):
        b.wait_event(event)


def test_destroyed_graphs() -> None:
    graph = tops.Graph()
    graph.add_empty()
    run = graph.instantiate()
    graph.destroy()
    with pytest.raises(tops.TopsError, match="topsErrorInvalidHandle"):
        graph.instantiate()
    run.launch()
    run.destroy()
    with pytest.raises(tops.TopsError, match="was destroyed"):
        run.launch()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_lanes_keep_the_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    after = [
        tuple(sorted(data.draw(st.sets(st.integers(0, k - 1), max_size=3)))) if k else ()
        for k in range(count)
    ]
    devices: list[Any] = [data.draw(st.sampled_from("ab")) for _ in range(count)]
    lane_of, lanes = lanes_of(list(range(count)), after, devices, devices[0])
    assert set(lane_of.values()) == set(range(len(lanes)))
    assert all(lanes[lane_of[k]] == devices[k] for k in range(count))
    ancestors: list[set[int]] = []
    for waits in after:
        ancestors.append(set(waits).union(*(ancestors[k] for k in waits)))
    for lane in range(len(lanes)):
        nodes = [k for k in range(count) if lane_of[k] == lane]
        for before, then in itertools.pairwise(nodes):
            assert before in ancestors[then]


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    RUNTIME.end()
    monkeypatch.setenv("TOPS_CLOCK", "model")
    monkeypatch.setenv("TOPS_DEVICES", "2xs60")
    yield
    RUNTIME.end()


def test_a_capture_goes_over_devices(two_devices: None) -> None:
    x = tops.array(floats(1000))
    expected = x.numpy() * np.float32(2) * np.float32(3)
    with tops.Device(1):
        y, z = tops.zeros(1000), tops.zeros(1000)
        far = tops.Stream()
    near = tops.Stream()
    tops.synchronize(0)
    tops.synchronize(1)
    near.begin_capture()
    with near:
        scale[12](x, x, 2.0)
        tops.memcpy_peer_async(y, x, stream=near)
        far.wait_event(near.record())
        with far:
            scale[12](y, z, 3.0)
        with pytest.raises(tops.TopsError, match="topsErrorStreamCaptureImplicit"), tops.Device(1):
            tops.memset_async(y, 0)
    with pytest.raises(tops.TopsError, match="topsErrorStreamCaptureInvalidated"):
        near.end_capture()
    x[...] = floats(1000)
    tops.synchronize(0)
    near.begin_capture()
    with near:
        scale[12](x, x, 2.0)
        tops.memcpy_peer_async(y, x, stream=near)
        far.wait_event(near.record())
        with far:
            scale[12](y, z, 3.0)
        near.wait_event(far.record())
        tops.memcpy_peer_async(x, z, stream=near)
    run = near.end_capture().instantiate()
    with told(acts.KERNEL) as kernels:
        run.launch(near)
        near.synchronize()
    assert [(k.name, k.device_id, k.graph_node_id) for k in kernels] == [("scale", 0, 1), ("scale", 1, 3)]
    assert kernels[0].end_ns < kernels[1].start_ns
    assert np.array_equal(z.numpy(), expected)
    assert np.array_equal(x.numpy(), expected)
    with pytest.raises(tops.TopsError, match="the graph to 0"):
        run.launch(far)


def test_nodes_of_several_devices(two_devices: None) -> None:
    x = tops.array(floats(1000))
    with tops.Device(1):
        y = tops.zeros(1000)
        far = tops.Stream()
    tops.synchronize(0)
    tops.synchronize(1)
    graph = tops.Graph()
    cleared = graph.add_memset(y, 0)
    copied = graph.add_memcpy(y, x, after=[cleared])
    scaled = graph.add_kernel(scale.options(stream=far)[12], (y, y, 3.0), after=[copied])
    graph.add_memcpy(x, y, after=[scaled])
    expected = x.numpy() * np.float32(3)
    run = graph.instantiate()
    run.launch()
    tops.synchronize()
    assert np.array_equal(x.numpy(), expected)
    run.set_arguments(scaled, y, y, 1.0)
    run.launch()
    tops.synchronize()
    assert np.array_equal(y.numpy(), expected)
    other = tops.Graph()
    for _ in range(4):
        other.add_empty()
    with pytest.raises(tops.TopsError, match="topsErrorGraphExecUpdateFailure"):
        run.update(other)
