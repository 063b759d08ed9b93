"""topstx.h: C and C++ programs write the same records into the same session."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout as L

MODES = {
    "c11": ("c", ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic"]),
    "gnu17 sanitized": ("c", ["-std=gnu17", "-g", "-Wall", "-Wextra", "-fsanitize=address,undefined"]),
    "c++11": ("c++", ["-std=c++11", "-O2", "-Wall", "-Wextra"]),
    "c++17": ("c++", ["-std=c++17", "-O2", "-Wall", "-Wextra"]),
}


def run(program: Path, session: Path | None, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    if session is not None:
        keep["TOPSTX_SESSION"] = str(session)
    return subprocess.run([program, *args], env={**keep, **env}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("mode", MODES)
def test_sample_program(
    compile_c: Callable[..., Path], ring_reader: Any, repo_root: Path, tmp_path: Path, mode: str
) -> None:
    language, flags = MODES[mode]
    program = compile_c(repo_root / "sample_apps" / "c_ranges.c", *flags, language=language)
    folder = ring_reader.create_session(tmp_path / "session")
    plain, recorded = run(program, None), run(program, folder)
    assert plain.returncode == recorded.returncode == 0, recorded.stderr
    assert plain.stdout == recorded.stdout and recorded.stderr == ""
    process = ring_reader.read_recording(folder).only
    assert process.header["backend"] == L.BACKEND_HEADER
    names = process.names()
    assert [names.count(n) for n in ("relax", "step", "set up", "whole run")] == [40, 40, 1, 1]
    steps = [r for r in process.of() if r.name == "step"]
    assert sorted(r.payload for r in steps) == sorted([*range(20)] * 2)
    assert {(r.domain, r.category, r.color) for r in steps} == {("solver", (0, "compute"), 0xFF3366CC)}
    assert sorted(process.thread_names.values()) == ["main", "worker 0", "worker 1"]
    assert {process.thread_names[r.tid] for r in steps} == {"worker 0", "worker 1"}
    assert [r.unit for r in process.of(L.KIND_COUNTER)] == ["steps"] * 40
    assert (process.header["exit_known"], process.header["exit_status"]) == (1, 0)
    assert not process.open and process.unbalanced == 0


def test_disabled(compile_c: Callable[..., Path], ring_reader: Any, repo_root: Path, tmp_path: Path) -> None:
    sample = repo_root / "sample_apps" / "c_ranges.c"
    folder = ring_reader.create_session(tmp_path / "session")
    at_run_time = compile_c(sample, "-O2")
    at_compile_time = compile_c(sample, "-std=c11", "-DTOPSTX_DISABLE", "-O2", "-Wall", "-Wextra")
    assert run(at_run_time, folder, TOPSTX_DISABLE="1").returncode == 0
    assert run(at_compile_time, folder).returncode == 0
    assert not ring_reader.read_recording(folder).processes
    symbols = subprocess.run(["nm", at_compile_time], capture_output=True, text=True, check=True).stdout
    assert "topstxi" not in symbols


CALLS = r"""
#include "topstx.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *ends(void *id) {
    topstx_range_end(*(topstx_range_id *)id);
    topstx_mark("in thread");
    return NULL;
}
int main(int argc, char **argv) {
    (void)argc;
    topstx_attributes a = TOPSTX_ATTRIBUTES("payloads");
    pthread_t thread;
    topstx_range_id id;
    int status, i;
    char text[20001];
    memset(text, 'x', 20000); text[20000] = 0;
    for (i = 0; i < 4; i++) {
        a.payload = i == 0 ? topstx_payload_float(1.5)
                  : i == 1 ? topstx_payload_string("text that is longer than fourteen bytes")
                  : i == 2 ? topstx_payload_json("{\"a\": 1}") : topstx_payload_bytes("\0\1", 2);
        topstx_mark_ex(&a);
        topstx_range_push_ex(&a);
        topstx_range_pop();
    }
    a.payload = topstx_payload_string(text);
    topstx_mark_ex(&a);
    topstx_range_push(NULL); topstx_range_pop();
    topstx_range_pop();
    id = topstx_range_start("crossing");
    pthread_create(&thread, NULL, ends, &id); pthread_join(thread, NULL);
    topstxRangePushA("vendor"); topstxRangePop(); topstxMarkA("vendor");
    for (i = 0; i < 5000; i++) topstx_mark("many");
    topstx_row(17, 1, 5, "row", "body", 4);
    topstx_range_push("open");
    if (!fork()) { topstx_range_pop(); topstx_mark("child"); exit(3); }
    wait(&status);
    if (!strcmp(argv[1], "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(argv[1], "segv")) raise(SIGSEGV);
    return 6;
}
"""


@pytest.mark.parametrize(
    ("death", "code"), [("none", 6), ("kill", -signal.SIGKILL), ("segv", -signal.SIGSEGV)]
)
def test_calls_and_deaths(
    compile_c: Callable[..., Path], ring_reader: Any, tmp_path: Path, death: str, code: int
) -> None:
    program = compile_c(CALLS, "-std=c11", "-O1", "-Wall", "-Wextra")
    folder = ring_reader.create_session(tmp_path / "session")
    assert run(program, folder, death).returncode == code
    parent, child = ring_reader.read_recording(folder).processes
    payloads = [1.5, "text that is longer than fourteen bytes", {"a": 1}, b"\0\1"]
    assert [r.payload for r in parent.of() if r.name == "payloads"] == payloads
    marks = [r for r in parent.of(L.KIND_MARK) if r.name == "payloads"]
    assert [r.payload for r in marks] == [*payloads, "x" * L.PAYLOAD_MAX] and marks[
        -1
    ].flags & L.FLAG_TRUNCATED
    (crossing,) = [r for r in parent.of() if r.name == "crossing"]
    assert crossing.tid == parent.pid and crossing.end_tid not in (None, parent.pid)
    (row,) = parent.of(17)
    assert (row.name, row.begin, row.end, row.payload) == ("row", 1, 5, b"body")
    assert parent.names(L.KIND_MARK).count("many") == 5000 and parent.unbalanced == 1
    assert [r.name for r in parent.open] == ["open"]
    assert child.names(L.KIND_MARK) == ["child"] and not child.open and child.header["exit_status"] == 3
    assert child.header["parent_serial"] == parent.header["process_serial"]
    assert parent.header["exit_known"] == (death == "none")


CPLUSPLUS = r"""
#include <thread>
#include <vector>
#include "topstx.h"
void other_unit();
int main() {
    topstx_domain domain = topstx_domain_create("cpp");
    {
        topstx::range outer("outer", domain);
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; n++) threads.emplace_back([] { topstx::range r("in thread"); });
        for (auto &t : threads) t.join();
        topstx::range attributes(topstx_attributes{"braces", domain, "c", 0, topstx_payload_int(4)});
        other_unit();
    }
}
"""
OTHER_UNIT = '#include "topstx.h"\nvoid other_unit();\nvoid other_unit() { topstx::range r("other unit"); }\n'


def test_units_of_one_program_share_the_recorder(
    compile_c: Callable[..., Path], ring_reader: Any, tmp_path: Path
) -> None:
    (tmp_path / "other.cpp").write_text(OTHER_UNIT)
    program = compile_c(
        CPLUSPLUS, "-std=c++17", "-Wall", "-Wextra", str(tmp_path / "other.cpp"), language="c++"
    )
    folder = ring_reader.create_session(tmp_path / "session")
    assert run(program, folder).returncode == 0
    process = ring_reader.read_recording(folder).only
    assert sorted(process.names()) == ["braces", *["in thread"] * 4, "other unit", "outer"]
    depth = {r.name: r.depth for r in process.of()}
    assert (depth["outer"], depth["braces"], depth["other unit"]) == (0, 1, 2)


def test_late_include_says_what_to_do(tmp_path: Path, repo_root: Path) -> None:
    import shutil

    if shutil.which("gcc") is None or "false" in os.environ.get("CC", ""):
        pytest.skip("no compiler")
    source = tmp_path / "late.c"
    source.write_text('#include <stdio.h>\n#include "topstx.h"\nint main(void) { return 0; }\n')
    include = repo_root / "tx/topstx/recorder/include"
    done = subprocess.run(
        ["gcc", "-std=c11", f"-I{include}", source, "-o", tmp_path / "late"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "include it before any other header" in done.stderr


def test_python_and_c_in_one_process(c_program: Any, compile_c: Callable[..., Path]) -> None:
    """A library with topstx.h, loaded by a recorded Python: two producers of one pid, nothing mixed."""
    library = compile_c(
        '#include "topstx.h"\nvoid work(int n) { for (; n; n--) { TOPSTX_PUSH("in C"); TOPSTX_POP(); } }\n',
        "-shared",
        "-fPIC",
        "-O2",
    )
    recording = c_program(
        """
        import _ctypes, ctypes, os, sys, topstx
        library = ctypes.CDLL(sys.argv[1])
        with topstx.annotate("in Python"): library.work(100)
        if not os.fork():
            with topstx.annotate("child"): library.work(2)
            sys.exit(0)
        os.wait()
        _ctypes.dlclose(library._handle)       # its handlers of exit stay
        """,
        str(library),
    )
    found = sorted(
        (p.header["backend"], p.header["parent_serial"] != 0, len(p.of())) for p in recording.processes
    )
    assert found == [(1, False, 1), (1, True, 1), (3, False, 100), (3, True, 2)]
    assert len({p.pid for p in recording.processes}) == 2
