"""Each API has the vendor's parameters, typed, as the documentation says."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import topspti
from topspti import CallbackSite, Domain

import tops_kit as tops
import tops_kit.runtime
from tops_kit.isa.binary import save
from tops_kit.runtime.api_parameters import KINDS, PARAMETERS, table
from tops_kit.runtime.api_table import RUNTIME_API
from tops_kit.runtime.hooks import HOOKS, ApiPoint

SOURCE = """
@tops.kernel
def one(x: tops.ptr(tops.f32), n: tops.i32):
    tops.store(x[0:64], tops.load(x[0:64]) + 1.0)
"""
# what one process can't do with itself
ELSEWHERE = {"topsIpcOpenMemHandle", "topsIpcOpenEventHandle", "topsIpcCloseMemHandle", "topsDeviceReset"}


def points() -> list[ApiPoint]:
    for module in pkgutil.walk_packages(tops_kit.runtime.__path__, "tops_kit.runtime."):
        if not module.name.endswith("._quick"):
            importlib.import_module(module.name)
    return [p for p in HOOKS._points if p.domain == RUNTIME_API]


def test_every_api_has_its_parameters() -> None:
    assert {p.name for p in points()} == set(PARAMETERS)
    for point in points():
        given = {parameter.given for parameter in PARAMETERS[point.name]}
        missing = set(point.names) - given - {"self", "dtype", "stream", "event", "pool", "launcher", "bits"}
        assert not missing, (point.name, missing)
    assert all(parameter.kind in KINDS for known in PARAMETERS.values() for parameter in known)


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "topspti.md").read_text(encoding="utf-8")
    assert table() in page


@pytest.fixture
def calls() -> Iterator[dict[str, list[dict[str, Any]]]]:
    seen: dict[str, list[dict[str, Any]]] = {}

    def callback(domain: Domain, cbid: int, data: topspti.CallbackData) -> None:
        params = dict(data.function_params)
        repr(params)
        if data.callback_site == CallbackSite.API_ENTER:
            seen.setdefault(data.function_name, []).append(params)

    with topspti.subscribe(callback) as subscriber:
        topspti.enable_domain(True, subscriber, Domain.RUNTIME_API)
        yield seen


def test_all_calls_have_typed_parameters(calls: dict[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    make_all_calls(tmp_path)
    assert set(PARAMETERS) - set(calls) == ELSEWHERE
    for name, made in calls.items():
        for params in made:
            assert list(params) == [parameter.name for parameter in PARAMETERS[name]], name
            for parameter in PARAMETERS[name]:
                value = params[parameter.name]
                allowed = KINDS[parameter.kind]
                if parameter.kind == "callable":
                    assert callable(value)
                elif parameter.kind != "object":
                    assert type(value).__name__ in allowed, (name, parameter, value)
    assert calls["topsMemcpy"][0]["kind"] == "HtoD"
    assert calls["topsMemcpy"][0]["size_bytes"] == 256
    launch = calls["topsLaunchKernel"][0]
    assert (launch["function"], launch["grid"][0], launch["stream"].id) == ("one", 2, 0)


def make_all_calls(tmp_path: Path) -> None:
    module = tops.Module.from_source(SOURCE)
    one: Any = module.function("one")
    tops.device_count(), tops.set_device(0), tops.get_device(), tops.device_properties()
    tops.can_access_peer(0, 0)
    for call in (tops.enable_peer_access, tops.disable_peer_access):
        with pytest.raises(tops.TopsError):
            call(0)
    x, host = tops.zeros(64), np.zeros(64, np.float32)
    p, q = tops.malloc(256), tops.malloc_async(256)
    tops.ipc_get_mem_handle(p)
    pool = tops.MemPool()
    tops.set_pool(tops.get_pool())
    pool.trim(), pool.destroy()
    tops.memcpy(p, host), tops.memcpy_async(q, p), tops.memset(p, 1), tops.memset_async(q, 7, bits=16)
    for call in (tops.memcpy_peer, tops.memcpy_peer_async):
        call(p, q, 16)
    x.fill(1.5), x.assign(host), x.assign(tops.zeros(64)), x.numpy()
    stream, event, late = tops.Stream(priority=-1), tops.Event(), tops.Event()
    shared = tops.Event(timing=False, interprocess=True)
    tops.ipc_get_event_handle(shared)
    shared.destroy()
    one[24](x, 64)
    one.options(cooperative=True)[2](x, 64)
    save([one.compile(host, 64)], tmp_path / "k.topsbin")
    loaded = tops.Module.load(tmp_path / "k.topsbin")
    loaded.function("one")[1](x, 64)
    loaded.unload()
    stream.set_launch_limit(1, 6), stream.set_launch_limit(0, 0)
    event.record(stream), stream.wait_event(event), late.record(stream)
    tops.launch_host_func(threading.get_ident, stream=stream), stream.add_callback(int, 3)
    stream.synchronize(), stream.query(), event.query(), event.synchronize(), event.elapsed_ms(late)
    stream.begin_capture()
    with stream:
        one[1](x, 64)
    captured = stream.end_capture()
    graph = tops.Graph()
    node = graph.add_kernel(one[1], (x, 64))
    copy = graph.add_memcpy(p, q)
    graph.add_memset(p, 0), graph.add_host(int, after=[node]), graph.add_empty()
    graph.add_event_record(event), graph.add_graph(captured)
    graph.add_dependency(node, copy)
    graph.constant("x", x)
    run = graph.instantiate()
    run.launch(stream)
    run.update(graph), run.set_arguments(node, x, 3), run.refit_flag("x")
    run.update_constant("x", host), run.load_constants({"x": host})
    graph.dot(), run.destroy(), graph.destroy()
    tops.synchronize(), event.destroy(), stream.destroy()
    tops.free_async(q), tops.free(p), tops.mem_get_info()
    pinned = tops.host_malloc((4, 4), np.float32)
    tops.host_free(pinned)
    tops.host_register(host), tops.host_unregister(host)
    tops.profiler_start(), tops.profiler_stop()
    tops.error_name(1), tops.error_string(1), tops.last_error()
    module.unload()
