"""Kineto: which table an event goes to and what its args become."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from topsprof.importers.device_names import collective_of, copy_of, function_of, short_kernel_name
from topsprof.importers.kineto_tables import table_of

from tops_kit.errors import TraceError
from tops_kit.session import Session

Import = Callable[..., Session]

HOST = {"ph": "X", "pid": 100, "tid": 101}
DEVICE = {"ph": "X", "pid": 0, "tid": 7}


def one(session: Session, table: str) -> dict[str, Any]:
    (row,) = session.table(table).to_pylist()
    return {name: value for name, value in row.items() if value is not None}


def op(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {**HOST, "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "args": args}


@pytest.fixture
def kineto(import_events: Import, backend: str) -> Import:
    """Import events as a Kineto trace."""

    def run(*events: dict[str, Any], **more: Any) -> Session:
        return import_events(list(events), importer="kineto", **more)

    return run


@pytest.mark.smoke
def test_kernel(kineto: Import) -> None:
    full = "void at::native::(anonymous namespace)::fill<4, float>(int, float*)"
    args = {
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 55,
        "External id": 9,
        "grid": [8, 2, 1],
        "block": [128, 1, 1],
        "registers per thread": 32,
        "shared memory": 4096,
        "est. achieved occupancy %": 62.5,
        "queued": 0,
    }
    session = kineto(
        op("aten::fill_", 0, 5), {**DEVICE, "cat": "kernel", "name": full, "ts": 2, "dur": 3, "args": args}
    )
    assert one(session, "kernel") == {
        "start_ns": 2000,
        "duration_ns": 3000,
        "end_ns": 5000,
        "name": "at::native::fill",
        "full_name": full,
        "process_id": 100,
        "device_id": 0,
        "context_id": 1,
        "stream_id": 7,
        "correlation_id": 55,
        "external_id": 9,
        "grid_x": 8,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 128,
        "block_y": 1,
        "block_z": 1,
        "registers": 32,
        "shared_bytes": 4096,
        "occupancy": 62.5,
        "args": '{"queued":0}',
    }


def test_device_rows_before_the_first_host_row_get_its_process(kineto: Import) -> None:
    session = kineto({**DEVICE, "cat": "kernel", "name": "k", "ts": 2, "dur": 3}, op("aten::fill_", 0, 5))
    row = one(session, "kernel")
    assert (row["process_id"], row["device_id"], row["stream_id"]) == (100, 0, 7)


def test_device_rows_without_any_host_row(kineto: Import) -> None:
    row = one(kineto({**DEVICE, "cat": "kernel", "name": "k", "ts": 2, "dur": 3}), "kernel")
    assert (row["process_id"], row["device_id"], row["stream_id"]) == (0, 0, 7)


@pytest.mark.parametrize("grid", ["[8, 2, 1]", "8,2,1"])
def test_grid_as_text_and_streams_in_hexadecimal(kineto: Import, grid: str) -> None:
    args = {"grid": grid, "stream": "0x1F", "device": "1"}
    row = one(kineto({**DEVICE, "cat": "kernel", "name": "k", "ts": 2, "dur": 3, "args": args}), "kernel")
    assert (row["grid_x"], row["grid_y"], row["grid_z"], row["stream_id"], row["device_id"]) == (
        8,
        2,
        1,
        31,
        1,
    )


def test_collective_kernel(kineto: Import) -> None:
    args = {
        "Collective name": "_allgather_base",
        "In msg nelems": 1000,
        "dtype": "BFloat16",
        "Process Group Name": "3",
    }
    row = one(
        kineto(
            {
                **DEVICE,
                "cat": "kernel",
                "name": "ncclDevKernel_AllGather_RING_LL(x)",
                "ts": 0,
                "dur": 1,
                "args": args,
            }
        ),
        "kernel",
    )
    assert (row["collective"], row["collective_bytes"], row["group"]) == ("allgather", 2000, "3")


def test_collective_from_the_name_alone(kineto: Import) -> None:
    session = kineto(
        {
            **DEVICE,
            "cat": "kernel",
            "name": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
            "ts": 0,
            "dur": 1,
        },
        {**DEVICE, "cat": "kernel", "name": "gemm", "ts": 2, "dur": 1},
    )
    assert session.table("kernel")["collective"].to_pylist() == ["allreduce", None]


def test_copies_and_fills(kineto: Import) -> None:
    session = kineto(
        {
            **DEVICE,
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Pageable -> Device)",
            "ts": 0,
            "dur": 1,
            "args": {"bytes": 4000, "device": 0, "stream": 7, "memory bandwidth (GB/s)": 1.5},
        },
        {**DEVICE, "cat": "gpu_memset", "name": "Memset (Device)", "ts": 2, "dur": 1, "args": {"bytes": 512}},
        {
            **DEVICE,
            "cat": "cuda_sync",
            "name": "Stream Sync",
            "ts": 4,
            "dur": 1,
            "args": {"cuda_sync_kind": "Stream Sync", "stream": 4294967295},
        },
    )
    copy = one(session, "memcpy")
    assert (copy["copy_kind"], copy["src_kind"], copy["dst_kind"], copy["size_bytes"]) == (
        "HtoD",
        "Pageable",
        "Device",
        4000,
    )
    assert json.loads(copy["args"]) == {"memory bandwidth (GB/s)": 1.5}
    fill = one(session, "memset")
    assert (fill["memory_kind"], fill["size_bytes"]) == ("Device", 512)
    wait = one(session, "sync")
    assert (wait["sync_kind"], wait["stream_id"]) == ("Stream Sync", -1)


def test_operator(kineto: Import) -> None:
    row = one(
        kineto(
            op(
                "aten::mm",
                1,
                2,
                **{
                    "External id": 5,
                    "Input Dims": [[2, 3], []],
                    "Input type": ["float", ""],
                    "Sequence number": 7,
                    "Fwd thread id": 1,
                    "Module Hierarchy": "Net",
                    "Call stack": "a.py(1): f;b.py(2): g",
                    "Ev Idx": 3,
                },
            )
        ),
        "op",
    )
    assert (row["external_id"], row["shapes"], row["types"]) == (5, "[[2,3],[]]", '["float",""]')
    assert (row["sequence_number"], row["forward_thread_id"], row["module"]) == (7, 1, "Net")
    assert (row["stack"], row["scope"], row["args"]) == ("a.py(1): f;b.py(2): g", "cpu_op", '{"Ev Idx":3}')


@pytest.mark.smoke
def test_python_functions_give_operators_their_stack(kineto: Import) -> None:
    def python(name: str, ts: float, dur: float, tid: int = 101) -> dict[str, Any]:
        return {**HOST, "tid": tid, "cat": "python_function", "name": name, "ts": ts, "dur": dur}

    session = kineto(
        python("train.py(10): main", 0, 100),
        python("nn.Module: Linear_0", 10, 20),
        op("aten::linear", 12, 5),
        op("aten::add", 40, 5),
        python("other.py(1): run", 0, 100, tid=102),
        op("aten::late", 200, 5),
    )
    stacks = {row["name"]: row["stack"] for row in session.table("op").to_pylist()}
    assert stacks == {
        "aten::linear": "train.py(10): main;nn.Module: Linear_0",
        "aten::add": "train.py(10): main",
        "aten::late": None,
    }
    found = {
        row["name"]: (row["file"], row["line"], row["module"]) for row in session.table("python").to_pylist()
    }
    assert found["main"] == ("train.py", 10, None)
    assert found["nn.Module: Linear_0"] == (None, None, "Linear_0")


def test_runtime_calls(kineto: Import) -> None:
    session = kineto(
        {
            **HOST,
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": 0,
            "dur": 1,
            "args": {"correlation": 5, "cbid": 211},
        },
        {
            **HOST,
            "cat": "cuda_driver",
            "name": "cuLaunchKernel",
            "ts": 2,
            "dur": 1,
            "args": {"grid": [1, 2, 3]},
        },
    )
    runtime, driver = session.table("api").to_pylist()
    assert (runtime["domain"], runtime["correlation_id"], runtime["args"]) == ("runtime", 5, '{"cbid":211}')
    assert (driver["domain"], driver["args"]) == ("driver", '{"grid":[1,2,3]}')


def test_args_without_a_column_of_the_table_stay(kineto: Import) -> None:
    annotation = {
        **HOST,
        "cat": "user_annotation",
        "name": "a",
        "ts": 0,
        "dur": 1,
        "args": {
            "External id": 5,
            "bytes": 7,
            "grid": [1, 2, 3],
            "kind": 'q"',
            "Input Dims": [[1]],
            "other": None,
            "est. achieved occupancy %": 0.5,
        },
    }
    row = one(kineto(annotation, op("x", 1, 1)), "tx")
    assert row["domain"] == "user_annotation"
    assert json.loads(row["args"]) == annotation["args"]


def test_memory_events(kineto: Import) -> None:
    args = {
        "Total Reserved": 100,
        "Total Allocated": 60,
        "Bytes": -512,
        "Addr": 140000000000000,
        "Device Id": 0,
        "Device Type": 1,
        "Ev Idx": 4,
    }
    row = one(
        kineto(
            op("x", 0, 1),
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "ts": 3,
                "pid": 100,
                "tid": 101,
                "args": args,
            },
        ),
        "memory",
    )
    assert (row["name"], row["size_bytes"], row["device_type"], row["device_id"]) == ("free", -512, "cuda", 0)
    assert (row["allocated_bytes"], row["reserved_bytes"], row["address"]) == (60, 100, 140000000000000)
    assert (row["start_ns"], row["process_id"], row["thread_id"], row["args"]) == (
        3000,
        100,
        101,
        '{"Ev Idx":4}',
    )


def test_steps_and_their_window(kineto: Import) -> None:
    events: list[dict[str, Any]] = []
    for step in range(4):
        base = step * 100
        events += [
            {**HOST, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": base, "dur": 90},
            op("aten::mm", base + 10, 5),
            {
                **HOST,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": base + 12,
                "dur": 1,
                "args": {"correlation": step + 1},
            },
            {
                **DEVICE,
                "cat": "kernel",
                "name": f"k{step}",
                "ts": base + 150,
                "dur": 5,
                "args": {"correlation": step + 1},
            },
        ]
    session = kineto(*events)
    assert [(row["name"], row["step"]) for row in session.table("step").to_pylist()][1] == (
        "ProfilerStep#1",
        1,
    )
    some = kineto(*events, steps=(1, 2))
    assert some.table("kernel")["name"].to_pylist() == ["k1", "k2"]
    assert some.tables()["op"] == 2
    assert some.table("step")["step"].to_pylist() == [1, 2]
    assert [entry.code for entry in some.ledger.entries if entry.kind == "dropped"] == ["step"]
    with pytest.raises(TraceError, match="no step from 9 to 9"):
        kineto(*events, steps=(9, 9))


def test_15_a_kernel_that_starts_before_its_launch_keeps_its_link(kineto: Import) -> None:
    session = kineto(
        {
            **HOST,
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": 10,
            "dur": 5,
            "args": {"correlation": 3},
        },
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": 100, "tid": 101, "ts": 10},
        {
            **DEVICE,
            "cat": "kernel",
            "name": "k",
            "ts": 9,
            "dur": 5,
            "args": {"correlation": 3, "device": 0, "stream": 7},
        },
        {"ph": "f", "bp": "e", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": 9},
    )
    link = one(session, "link")
    assert (link["source_ns"], link["target_ns"], link["target_process_id"]) == (10_000, 9000, 100)
    assert one(session, "api")["correlation_id"] == one(session, "kernel")["correlation_id"] == 3


def test_devices_and_rank(kineto: Import) -> None:
    top = {
        "deviceProperties": [{"id": 0, "name": "A100", "numSms": 108}],
        "distributedInfo": "{'backend': 'nccl', 'rank': 3, 'world_size': 8}",
        "host_name": "node7",
    }
    session = kineto(
        op("x", 0, 1),
        {**DEVICE, "cat": "kernel", "name": "k", "ts": 2, "dur": 3},
        {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "process_labels", "pid": 5, "args": {"labels": "GPU 5"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
        top=top,
    )
    (process,) = session.table("process").to_pylist()
    assert (process["process_id"], process["rank"], process["host"]) == (100, 3, "node7")
    assert json.loads(process["args"])["distributedInfo"]["world_size"] == 8
    device = one(session, "device")
    assert (device["process_id"], device["device_id"], device["name"]) == (100, 0, "A100")
    assert one(session, "stream")["name"] == "stream 7"


@pytest.mark.parametrize("prefix", ["cuda", "hip", "gcu", "xpu", "mtia", "privateuse1", "tops"])
def test_categories_of_other_accelerators(prefix: str) -> None:
    assert [
        table_of(f"{prefix}_{kind}") for kind in ("runtime", "driver", "kernel", "memcpy", "memset", "sync")
    ] == [
        "api",
        "api",
        "kernel",
        "memcpy",
        "memset",
        "sync",
    ]
    assert table_of("loading") is None


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("void cutlass::Kernel<foo<1, (bar)2> >(foo::Params)", "cutlass::Kernel"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 3>(int)",
            "internal::gemvx::kernel",
        ),
        ("void f<4>(int)::{lambda(int)#1}::operator()(int) const", "f"),
        ("at::A::operator()<int>(int)", "at::A::operator()"),
        ("Memcpy HtoD (Host -> Device)", "HtoD"),
    ],
)
def test_short_names(full: str, short: str) -> None:
    if full.startswith("Memcpy"):
        assert copy_of(full).kind == short
    else:
        assert short_kernel_name(full) == short


def test_names_that_say_more() -> None:
    assert collective_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*)") == "reducescatter"
    assert collective_of("rcclGenericKernel") is None
    assert collective_of("reduce_kernel") is None
    assert (
        function_of("<built-in method empty of type object at 0x7f>").name
        == "<built-in method empty of type object at 0x7f>"
    )


class TestCallArguments:
    """Grid, block and bytes that only the call says (AMD)."""

    @staticmethod
    def call(name: str, correlation: int, **args: Any) -> dict[str, Any]:
        more = {"correlation": correlation, **args}
        return {**HOST, "cat": "cuda_runtime", "name": name, "ts": correlation, "dur": 1, "args": more}

    @staticmethod
    def ran(category: str, correlation: int, **args: Any) -> dict[str, Any]:
        more = {"device": 0, "stream": 0, "correlation": correlation, **args}
        return {**DEVICE, "cat": category, "name": "n", "ts": 50 + correlation, "dur": 1, "args": more}

    def test_kernels_and_copies_get_them(self, kineto: Import) -> None:
        launch = {"grid": [3, 2, 1], "block": [128, 1, 1], "shared memory": 64}
        session = kineto(
            self.ran("kernel", 9),  # nothing says its size
            self.call("hipLaunchKernel", 1, **launch),
            self.call("hipMemcpyWithStream", 2, size="2560", kind="1"),
            self.call("hipMemcpyWithStream", 3, size="many"),
            self.ran("kernel", 1),
            self.ran("gpu_memcpy", 2, kind="HtoD"),
            self.ran("gpu_memcpy", 3, kind="HtoD"),
        )
        columns = ["correlation_id", "grid_x", "grid_y", "block_x", "shared_bytes"]
        kernels = session.table("kernel", columns).to_pylist()
        assert [tuple(row.values()) for row in kernels] == [(1, 3, 2, 128, 64), (9, None, None, None, None)]
        copies = session.table("memcpy", ["correlation_id", "size_bytes", "copy_kind"]).to_pylist()
        assert [tuple(row.values()) for row in copies] == [(2, 2560, "HtoD"), (3, None, "HtoD")]
        # the calls keep theirs
        args = [json.loads(text) for text in session.table("api")["args"].to_pylist()]
        assert args == [launch, {"size": "2560", "kind": "1"}, {"size": "many"}]

    def test_what_the_kernel_says_itself_counts(self, kineto: Import) -> None:
        session = kineto(
            self.call("hipLaunchKernel", 1, grid=[9, 9, 9]),
            self.ran("kernel", 1, grid=[4, 1, 1]),
            self.ran("kernel", 2),
            self.ran("kernel", 2, grid=[5, 1, 1]),  # another one of the same graph launch
        )
        assert session.table("kernel")["grid_x"].to_pylist() == [4, None, 5]


class TestDeviceAnnotations:
    """gpu_user_annotation: ranges of the host process on a thread for each stream."""

    @staticmethod
    def seen(stream: int, ts: float, **more: Any) -> dict[str, Any]:
        event = {**DEVICE, "tid": stream, "cat": "gpu_user_annotation", "name": "step", "ts": ts, "dur": 5}
        return {**event, "args": {"device": 0, "stream": stream, "External id": 3}, **more}

    def test_they_have_the_host_process(self, kineto: Import) -> None:
        session = kineto(
            self.seen(7, 1),  # before any row of the host
            op("aten::mm", 0, 5),
            self.seen(20, 2),
            self.seen(7, 9),
        )
        rows = session.table("tx").to_pylist()
        assert {row["process_id"] for row in rows} == {100}
        assert {row["domain"] for row in rows} == {"gpu_user_annotation"}
        assert json.loads(rows[0]["args"]) == {"device": 0, "stream": 7, "External id": 3}
        names = {row["thread_id"]: row["name"] for row in session.table("thread").to_pylist()}
        by_name: dict[str, list[int]] = {}
        for row in sorted(rows, key=lambda row: row["start_ns"]):
            by_name.setdefault(names[row["thread_id"]], []).append(row["start_ns"])
        assert by_name == {
            "device 0 stream 7 annotations": [1000, 9000],
            "device 0 stream 20 annotations": [2000],
        }
        assert not {row["thread_id"] for row in rows} & {7, 20, 101}
        assert [row["process_id"] for row in session.table("process").to_pylist()] == [100]

    def test_no_process_of_the_devices_number_is_left(self, kineto: Import) -> None:
        names = {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}}
        end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9}
        session = kineto(names, self.seen(7, 1), op("aten::mm", 0, 5), end)
        assert [row["process_id"] for row in session.table("process").to_pylist()] == [100]
        assert set(session.table("tx")["process_id"].to_pylist()) == {100}

    def test_the_thread_stays_over_an_export(self, kineto: Import) -> None:
        thread = kineto(op("a", 0, 5), self.seen(7, 1)).table("tx")["thread_id"].to_pylist()[0]
        again = kineto(op("a", 0, 5), self.seen(7, 1, pid=100, tid=thread))
        assert again.table("tx")["thread_id"].to_pylist() == [thread]

    def test_without_a_host_they_stay_where_they_are(self, kineto: Import) -> None:
        assert kineto(self.seen(7, 1)).table("tx")["process_id"].to_pylist() == [0]


def test_ends_of_flows_of_calls_that_start_nothing_are_usual(kineto: Import) -> None:
    def flow(phase: str, ts: int, category: str) -> dict[str, Any]:
        return {"ph": phase, "cat": category, "name": category, "id": ts, "pid": 100, "tid": 101, "ts": ts}

    usual = [flow("f", 1, "ac2g"), flow("f", 2, "async_cpu_to_gpu")]
    assert kineto(op("a", 0, 5), *usual).ledger.clean
    session = kineto(op("a", 0, 5), *usual, flow("f", 3, "fwdbwd"), flow("s", 4, "ac2g"))
    found = {entry.code: entry.count for entry in session.ledger.entries if not entry.clean}
    assert found == {"flow_end_alone": 1, "flow_start_alone": 1}
