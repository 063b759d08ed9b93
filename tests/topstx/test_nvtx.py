"""Programs annotated with NVTX are recorded unchanged: C (one plays NVTX itself) and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx import nvtx_injection
from topstx.recorder import layout

FOLDER = Path(nvtx_injection.__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library, built from the present sources."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or "false" in os.environ.get("CC", ""):
        pytest.skip("no C compiler")
    return nvtx_injection.build(tmp_path_factory.mktemp("nvtx"), f"{compiler} -Wall -Wextra -Werror")


@pytest.fixture
def host(
    compile_c: Callable[..., Path], ring_reader: Any, library: str, tmp_path: Path
) -> Callable[..., Any]:
    """Runs nvtx_host.c under a recording with the given options; returns what was recorded."""
    source = Path(__file__).with_name("nvtx_host.c")
    program = compile_c(source, f"-I{FOLDER}", "-ldl")

    def run(what: str, expect: int = 0, **options: Any) -> Any:
        folder = ring_reader.create_session(tmp_path / "session", **options)
        environment = {**os.environ, "NVTX_INJECTION64_PATH": library, "TOPSTX_SESSION": str(folder)}
        environment.pop("TOPSTX_DISABLE", None)
        done = subprocess.run([program, what], env=environment, timeout=60, check=False)
        assert done.returncode == expect
        return ring_reader.read_recording(folder)

    return run


@pytest.fixture
def nvtx_program(program: Any, library: str) -> Callable[..., Any]:
    """Runs Python code that uses the `nvtx` package, under a recording."""
    pytest.importorskip("nvtx")

    def run(code: str, **options: Any) -> Any:
        return program(code, env={"NVTX_INJECTION64_PATH": library}, **options)

    return run


@pytest.mark.smoke
def test_the_calls_of_the_core(host: Callable[..., Any]) -> None:
    process = host("all").only
    assert process.header["backend"] == layout.BACKEND_HEADER
    assert (process.header["exit_known"], process.header["exit_status"]) == (1, 0)
    assert process.thread_names == {process.pid: "main thread"}
    ranges = {record.name: record for record in process.of()}
    assert [ranges[name].depth for name in ("a", "w é€\U0001f600", "ex")] == [0, 1, 2]
    assert ranges["ex"].category == (5, "five") and ranges["ex"].color == 0x80112233
    assert ranges["ex"].payload == str((1 << 64) - 1)
    assert process.unbalanced == 1 and not process.open
    assert ranges["start a"].end_tid not in (None, process.pid)
    assert ranges["start w"].end_tid is None
    assert ranges["start ex"].payload == -3
    assert all(ranges[name].flags & layout.FLAG_START_END for name in ("start a", "start w", "start ex"))
    marks = {record.name: record for record in process.of(layout.KIND_MARK)}
    assert {"mark a", "mark w", "mark ex", ""} <= set(marks)
    assert marks["mark ex"].category == (6, "") and marks["mark ex"].payload == 1.5


def test_the_calls_of_domains_counters_and_payloads(host: Callable[..., Any]) -> None:
    process = host("all").only
    ranges = {record.name: record for record in process.of()}
    assert (ranges["registered"].domain, ranges["registered"].category) == ("io", (1, "one"))
    assert (ranges["registered wide"].domain, ranges["registered wide"].category) == ("wide", (1, "uno"))
    assert ranges["registered"].end < ranges["registered wide"].end
    assert ranges["null domain"].payload == 0.5
    marks = {record.name: record for record in process.of(layout.KIND_MARK)}
    assert marks["binary"].payload == b"\1\2\3\4"
    assert marks["point"].payload == ranges["point"].payload == b"xy"
    samples = process.of(layout.KIND_COUNTER)
    assert [(s.name, s.unit, s.domain, s.value) for s in samples] == [
        ("queue", "items", "io", value) for value in (5, 5.5, 7)
    ]


def test_filtered_domains_and_capture_range(host: Callable[..., Any]) -> None:
    process = host("all", domain_exclude=("io",)).only
    assert "io" not in {record.domain for record in process.records}
    assert "registered wide" in process.names()


def test_an_armed_recording_begins_with_its_range(host: Callable[..., Any]) -> None:
    end = layout.CAPTURE_END_STOP
    process = host(
        "all",
        recording=layout.RECORDING_ARMED,
        capture_name="registered",
        capture_domain="io",
        capture_end=end,
    ).only
    assert process.names() == ["registered", "registered wide"]


def test_a_fork_child_records_as_itself(host: Callable[..., Any]) -> None:
    parent, child = host("fork").processes
    assert parent.names() == ["parent"] and child.names(layout.KIND_MARK) == ["child"]
    assert child.header["parent_serial"] == parent.header["process_serial"]


def test_an_aborted_program_leaves_what_it_published(host: Callable[..., Any]) -> None:
    process = host("abort", expect=-6).only
    assert process.names(layout.KIND_MARK) == ["published"]
    assert [record.name for record in process.open] == ["open"]


@pytest.mark.parametrize("session", [None, "/nowhere"])
def test_without_a_session_nvtx_is_told_to_turn_itself_off(
    compile_c: Callable[..., Path], library: str, session: str | None
) -> None:
    program = compile_c(Path(__file__).with_name("nvtx_host.c"), f"-I{FOLDER}", "-ldl")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    environment |= {"NVTX_INJECTION64_PATH": library} | ({"TOPSTX_SESSION": session} if session else {})
    assert subprocess.run([program], env=environment, timeout=60, check=False).returncode == 4


def test_the_library_needs_no_python(library: str) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    assert " U Py" not in symbols
    defined = [line.split()[-1] for line in symbols.splitlines() if " T " in line]
    assert sorted(defined) == ["InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension"]


# -- the Python package -------------------------------------------------------------------------------------


def test_a_python_program_annotated_with_nvtx(nvtx_program: Callable[..., Any]) -> None:
    process = nvtx_program("""
        import threading, nvtx
        with nvtx.annotate("outer", color="red"):
            with nvtx.annotate("inner", domain="io", category="read", payload=5):
                pass
            nvtx.mark("halfway", payload=2.5)
        @nvtx.annotate()
        def function():
            pass
        function()
        domain = nvtx.get_domain("io")
        attributes = domain.get_event_attributes(message="event", color="blue", payload=7)
        domain.push_range(attributes); domain.pop_range()
        started = nvtx.start_range("started")
        thread = threading.Thread(target=nvtx.end_range, args=(started,))
        thread.start(); thread.join()
        nvtx.push_range("left open")
    """).only
    ranges = {record.name: record for record in process.of()}
    assert list(ranges) == ["inner", "outer", "function", "event", "started"]
    assert ranges["outer"].color == 0xFFFF0000 and ranges["outer"].depth == 0
    assert (ranges["inner"].domain, ranges["inner"].depth, ranges["inner"].payload) == ("io", 1, 5)
    assert ranges["inner"].category[1] == "read"
    assert ranges["event"].domain == "io" and ranges["event"].payload == 7
    assert ranges["started"].end_tid not in (None, ranges["started"].tid)
    assert process.of(layout.KIND_MARK)[0].payload == 2.5
    assert [record.name for record in process.open] == ["left open"]


def test_counters_of_the_python_package(nvtx_program: Callable[..., Any]) -> None:
    import nvtx

    pytest.importorskip("numpy")
    if not hasattr(nvtx.get_domain("any"), "get_counter"):
        pytest.skip("this nvtx has no counters")
    process = nvtx_program("""
        import nvtx
        domain = nvtx.get_domain("io")
        queue = domain.get_counter("queue", int)
        load = domain.get_counter("load", float, semantics=nvtx.CounterSemantics(unit="percent"))
        queue.sample(4); load.sample(2.5)
    """).only
    samples = process.of(layout.KIND_COUNTER)
    assert [(s.name, s.unit, s.domain, s.value) for s in samples] == [
        ("queue", "", "io", 4.0),
        ("load", "percent", "io", 2.5),
    ]


def test_topstx_and_nvtx_in_one_program_are_two_producers(
    nvtx_program: Callable[..., Any],
) -> None:
    recording = nvtx_program("""
        import nvtx, topstx
        with topstx.annotate("ours"):
            with nvtx.annotate("theirs"):
                pass
    """)
    ours, theirs = recording.processes
    assert ours.pid == theirs.pid
    assert ours.header["process_serial"] != theirs.header["process_serial"]
    (outer,), (inner,) = ours.of(), theirs.of()
    assert (outer.name, inner.name) == ("ours", "theirs")
    assert outer.tid == inner.tid
    if ours.header["clock"] == theirs.header["clock"]:
        assert outer.begin <= inner.begin <= inner.end <= outer.end


# -- finding the library ------------------------------------------------------------------------------------


def test_environment_names_library_and_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvtx_injection, "library_path", lambda: "/lib/_nvtx.so")
    expected = {"NVTX_INJECTION64_PATH": "/lib/_nvtx.so", "TOPSTX_SESSION": str(tmp_path)}
    assert nvtx_injection.environment(tmp_path) == expected
    assert nvtx_injection.environment(str(tmp_path), {"NVTX_INJECTION64_PATH": "/lib/_nvtx.so"}) == expected
    assert nvtx_injection.environment(tmp_path, {"NVTX_INJECTION64_PATH": "/other/tool.so"}) == {}
    monkeypatch.setattr(nvtx_injection, "library_path", lambda: None)
    assert nvtx_injection.environment(tmp_path) == {}


def test_library_path_finds_any_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvtx_injection, "_HERE", tmp_path)
    assert nvtx_injection.library_path() is None
    (tmp_path / "_nvtx.cpython-311-x86_64-linux-gnu.so").write_bytes(nvtx_injection._STAMP)
    assert nvtx_injection.library_path() == str(tmp_path / "_nvtx.cpython-311-x86_64-linux-gnu.so")


# -- the ABI, against NVTX's own headers where they are installed -------------------------------------------

_CHECK = """
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#include "nvtx_abi.h"
#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is " #b)
#define PLACE(ours, field, theirs, member) SAME(offsetof(ours, field), offsetof(theirs, member))
"""


def _nvtx_include() -> Path | None:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/usr"]
    places = [Path(home) / "include" for home in homes if home]
    places += sorted(Path("/usr/local").glob("cuda*/include"))
    needed = "nvtx3/nvToolsExtSemanticsCounters.h"
    return next((place for place in places if (place / needed).is_file()), None)


def test_our_declarations_are_those_of_nvtx(tmp_path: Path) -> None:
    include = _nvtx_include()
    if include is None:
        pytest.skip("NVTX's headers are not installed")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    core = (
        "MarkEx MarkA MarkW RangeStartEx RangeStartA RangeStartW RangeEnd RangePushEx RangePushA RangePushW "
    )
    core += "RangePop"
    ours = "MARK_EX MARK_A MARK_W RANGE_START_EX RANGE_START_A RANGE_START_W RANGE_END RANGE_PUSH_EX "
    ours += "RANGE_PUSH_A RANGE_PUSH_W RANGE_POP"
    lines = [f"SAME(ABI_{a}, NVTX_CBID_CORE_{b});" for a, b in zip(ours.split(), core.split(), strict=True)]
    domain = {
        "MARK_EX": "MarkEx",
        "RANGE_START_EX": "RangeStartEx",
        "RANGE_END": "RangeEnd",
        "RANGE_PUSH_EX": "RangePushEx",
        "RANGE_POP": "RangePop",
        "NAME_CATEGORY_A": "NameCategoryA",
        "NAME_CATEGORY_W": "NameCategoryW",
        "REGISTER_STRING_A": "RegisterStringA",
        "REGISTER_STRING_W": "RegisterStringW",
        "CREATE_A": "CreateA",
        "CREATE_W": "CreateW",
        "DESTROY": "Destroy",
    }
    lines += [f"SAME(ABI_DOMAIN_{a}, NVTX_CBID_CORE2_Domain{b});" for a, b in domain.items()]
    lines += [
        f"SAME(ABI_{a}, NVTX_{b});"
        for a, b in {
            "MODULE_CORE": "CB_MODULE_CORE",
            "MODULE_CORE2": "CB_MODULE_CORE2",
            "TABLE_CALLBACKS": "ETID_CALLBACKS",
            "TABLE_VERSION": "ETID_VERSIONINFO",
            "NAME_CATEGORY_A": "CBID_CORE_NameCategoryA",
            "NAME_THREAD_W": "CBID_CORE_NameOsThreadW",
            "COLOR_ARGB": "COLOR_ARGB",
            "MESSAGE_REGISTERED": "MESSAGE_TYPE_REGISTERED",
            "PAYLOAD_UINT64": "PAYLOAD_TYPE_UNSIGNED_INT64",
            "PAYLOAD_FLOAT": "PAYLOAD_TYPE_FLOAT",
            "PAYLOAD_EXTENDED": "PAYLOAD_TYPE_EXT",
            "EXTENSION_PAYLOAD": "EXT_PAYLOAD_MODULEID",
            "EXTENSION_COUNTERS": "EXT_COUNTERS_MODULEID",
            "SEMANTIC_COUNTER": "SEMANTIC_ID_COUNTERS_V1",
            "SCHEMA_HAS_NAME": "PAYLOAD_SCHEMA_ATTR_FIELD_NAME",
            "SCHEMA_HAS_ID": "PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID",
            "SCHEMA_FIRST_DYNAMIC": "PAYLOAD_SCHEMA_ID_DYNAMIC_START",
            "COUNTER_FIRST_DYNAMIC": "COUNTER_ID_DYNAMIC_START",
            "ENTRY_INT": "PAYLOAD_ENTRY_TYPE_INT",
            "ENTRY_INT64": "PAYLOAD_ENTRY_TYPE_INT64",
            "ENTRY_DOUBLE": "PAYLOAD_ENTRY_TYPE_DOUBLE",
            "ENTRY_FLOAT64": "PAYLOAD_ENTRY_TYPE_FLOAT64",
        }.items()
    ]
    lines += [
        f"SAME(ABI_{a}, NVTX3EXT_CBID_nvtx{b});"
        for a, b in {
            "SCHEMA_REGISTER": "PayloadSchemaRegister",
            "RANGE_PUSH_PAYLOAD": "RangePushPayload",
            "RANGE_END_PAYLOAD": "RangeEndPayload",
            "DOMAIN_IS_ENABLED": "DomainIsEnabled",
            "COUNTER_REGISTER": "CounterRegister",
            "COUNTER_SAMPLE_FLOAT64": "CounterSampleFloat64",
            "COUNTER_SAMPLE": "CounterSample",
        }.items()
    ]
    lines += [
        "SAME(sizeof(abi_event), sizeof(nvtxEventAttributes_t));",
        "PLACE(abi_event, category, nvtxEventAttributes_t, category);",
        "PLACE(abi_event, payload, nvtxEventAttributes_t, payload);",
        "PLACE(abi_event, message_type, nvtxEventAttributes_t, messageType);",
        "PLACE(abi_event, message, nvtxEventAttributes_t, message);",
        "SAME(sizeof(abi_callbacks), sizeof(NvtxExportTableCallbacks));",
        "SAME(sizeof(abi_version), sizeof(NvtxExportTableVersionInfo));",
        "SAME(sizeof(abi_binary), sizeof(nvtxPayloadData_t));",
        "SAME(sizeof(abi_schema), sizeof(nvtxPayloadSchemaAttr_t));",
        "PLACE(abi_schema, id, nvtxPayloadSchemaAttr_t, schemaId);",
        "SAME(sizeof(abi_counter), sizeof(nvtxCounterAttr_t));",
        "PLACE(abi_counter, semantics, nvtxCounterAttr_t, semantics);",
        "PLACE(abi_counter_semantic, unit, nvtxSemanticsCounter_t, unit);",
        "SAME(sizeof(abi_extension), sizeof(nvtxExtModuleInfo_t));",
        "SAME(sizeof(abi_segment), sizeof(nvtxExtModuleSegment_t));",
    ]
    source = tmp_path / "check.c"
    source.write_text(_CHECK + "\n".join(lines) + "\n")
    command = [compiler, "-std=gnu11", "-fsyntax-only", f"-I{include}", f"-I{FOLDER}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_c_program_with_nvtx_headers(ring_reader: Any, library: str, tmp_path: Path) -> None:
    include = _nvtx_include()
    if include is None:
        pytest.skip("NVTX's headers are not installed")
    source = tmp_path / "program.c"
    source.write_text(
        textwrap.dedent("""
        #include <nvtx3/nvToolsExt.h>
        int main(void) {
            nvtxDomainHandle_t domain = nvtxDomainCreateA("solver");
            nvtxEventAttributes_t e = {0};
            e.version = NVTX_VERSION;
            e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
            e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
            e.message.registered = nvtxDomainRegisterStringA(domain, "iteration");
            e.payloadType = NVTX_PAYLOAD_TYPE_INT64;
            e.payload.llValue = 3;
            nvtxRangePushA("whole");
            nvtxDomainRangePushEx(domain, &e);
            nvtxDomainRangePop(domain);
            nvtxRangePop();
            return 0;
        }
        """)
    )
    command = [
        shutil.which("gcc") or "cc",
        f"-I{include}",
        str(source),
        "-o",
        str(tmp_path / "program"),
        "-ldl",
    ]
    subprocess.run(command, check=True)
    folder = ring_reader.create_session(tmp_path / "session")
    environment = {**os.environ, "NVTX_INJECTION64_PATH": library, "TOPSTX_SESSION": str(folder)}
    subprocess.run([tmp_path / "program"], env=environment, check=True, timeout=60)
    process = ring_reader.read_recording(folder).only
    assert [(r.name, r.domain, r.depth, r.payload) for r in process.of()] == [
        ("iteration", "solver", 1, 3),
        ("whole", "", 0, None),
    ]
    assert sys.executable not in process.info["executable"]
