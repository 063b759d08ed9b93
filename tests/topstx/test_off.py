"""topstx without a recording: no-ops, quick to import, and the choice of a back end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

HEAVY = {
    "re", "typing", "dataclasses", "inspect", "json", "asyncio", "functools", "contextlib", "pathlib",
    "subprocess", "ctypes", "threading", "collections",
}  # fmt: skip

CALLS = """
    import topstx
    topstx.push_range("a", color="red", domain="d", category="c", payload={"x": 1}); topstx.pop_range("d")
    topstx.range_push("a"); topstx.range_pop()
    topstx.mark("m")
    topstx.end_range(topstx.start_range("s")); topstx.range_end(topstx.range_start("s"))
    d = topstx.Domain("d")
    d.push_range("x"); d.pop_range(); d.mark("m"); d.end_range(d.start_range("s"))
    d.counter("c", "items").sample(3); topstx.counter("c").sample(1)
    assert d.get_registered_string("s") == "s" and d.get_category_id("c") == 1
    topstx.set_thread_name("t"); topstx.set_process_name("p")
    def f(x): return x
    for g in (topstx.annotate()(f), topstx.annotate("n", "blue")(f), d.annotate("n")(f)):
        assert g(3) == 3
    with topstx.annotate("a", domain="d", payload=3): pass
    with d.annotate("a") as a: pass
    assert not topstx.is_recording()
    print(topstx.backend(), topstx.annotate()(f) is f)
"""


@pytest.mark.smoke
def test_no_session(program: Any) -> None:
    with program.start(CALLS, env={"TOPSTX_SESSION": ""}) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err) == (f"{program.backend} False\n", "")


@pytest.mark.smoke
@pytest.mark.parametrize("value", ["1", "yes"])
def test_disabled(program: Any, value: str) -> None:
    """TOPSTX_DISABLE wins over a session, and decorators return the function itself."""
    program.create()
    with program.start(CALLS, env={"TOPSTX_DISABLE": value}) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("off True\n", "")
    assert not list(program.folder.glob("names/*"))


@pytest.mark.parametrize("value", ["", "0"])
def test_not_disabled(program: Any, value: str) -> None:
    assert program("import topstx; topstx.mark('m')", env={"TOPSTX_DISABLE": value}).only.names(2) == ["m"]


@pytest.mark.smoke
def test_import_is_light(program: Any) -> None:
    code = f"""
        import sys
        before = set(sys.modules)
        import topstx
        print(*(set(sys.modules) - before) & {HEAVY!r})
    """
    for session in ("", str(program.create())):
        with program.start(code, env={"TOPSTX_SESSION": session}, cwd="/") as process:
            out, err = process.communicate(timeout=60)
        allowed = {"ctypes", "threading"} if program.backend == "twin" else set()
        assert err == "" and set(out.split()) <= allowed


def test_every_public_name_is_documented() -> None:
    import topstx

    for name in topstx.__all__:
        value = getattr(topstx, name)
        assert name == "__version__" or value.__doc__, name


def test_the_choice_of_a_back_end(c_program: Any) -> None:
    def run(**env: str) -> tuple[int | None, str, str]:
        with c_program.start(
            "import topstx; print(topstx.backend())", env={"TOPSTX_SESSION": "", **env}
        ) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out.strip(), err.strip()

    hidden = "import sys; sys.modules['topstx.recorder._crec'] = None; import topstx; print(topstx.backend())"
    assert run(TOPSKIT_REQUIRE_C="") == (0, "c", "")
    assert run(TOPSKIT_REQUIRE_C="", TOPSKIT_PURE="1") == (0, "twin", "")
    with c_program.start(hidden, env={"TOPSTX_SESSION": "", "TOPSKIT_REQUIRE_C": ""}) as process:
        assert process.communicate(timeout=60) == ("twin\n", "")
    with c_program.start(hidden, env={"TOPSTX_SESSION": ""}) as process:
        out, err = process.communicate(timeout=60)
        assert (out == "" and "ImportError" in err) or "ModuleNotFoundError" in err
    process = c_program(hidden, env={"TOPSKIT_REQUIRE_C": ""}).only
    assert process.header["backend"] == 2 and process.info["backend_reason"]


def test_free_threaded_python_declines_in_one_line(c_program: Any) -> None:
    c_program.create()
    code = "import sys; sys.abiflags = 't'; import topstx; print(topstx.backend()); topstx.mark('m')"
    with c_program.start(code) as process:
        out, err = process.communicate(timeout=60)
    assert out == "off\n" and err.count("\n") == 1 and "free-threaded" in err


def test_subinterpreters_decline(c_program: Any) -> None:
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    process = c_program(
        f"""
        import topstx, {module} as i
        topstx.mark("before")
        n = i.create()
        i.run_string(n, "import topstx; topstx.mark('inside'); assert topstx.backend() == 'off'")
        i.destroy(n)
        topstx.mark("after")
    """,
        env={"TOPSKIT_REQUIRE_C": ""},
    ).only
    assert process.names(2) == ["before", "after"]
    assert c_program.stderr.count("\n") == 1 and "subinterpreter" in c_program.stderr


def test_attaching_and_leaving(program: Any, tmp_path: Any) -> None:
    """Sessions one after the other in one process; names of the first mean nothing in the next."""
    first, second = tmp_path / "first", tmp_path / "second"
    program.reader.create_session(first)
    program.reader.create_session(second)
    program.create()
    with program.start(
        """
        import sys, threading, topstx
        recorder = topstx._recorder
        d = topstx.get_domain("d")
        @topstx.annotate("decorated", domain="d", category="c", color="red")
        def decorated(): pass
        kept = topstx.annotate("kept")
        counter = topstx.counter("counter")
        go, went = threading.Event(), threading.Event()
        def other():
            for _ in range(3):
                go.wait(); go.clear()
                topstx.mark("other thread"); went.set()
        thread = threading.Thread(target=other); thread.start()
        topstx.push_range("left open")
        for folder in sys.argv[1:]:
            if folder != "-": assert topstx._follower.enter(folder)
            for name in (folder, "same"):
                topstx.push_range(name); topstx.pop_range()
            decorated(); counter.sample(1)
            with kept: d.mark("m", category="c2")
            go.set(); went.wait(); went.clear()
        thread.join()
        open_block = topstx.annotate("open block"); open_block.__enter__()
        recorder.detach()
        open_block.__exit__(None, None, None)
        assert recorder.session() is None and not topstx.is_recording()
        topstx.pop_range(); decorated()
        """,
        "-", str(first), str(second),
    ) as process:  # fmt: skip
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    for folder, label in ((program.folder, "-"), (first, str(first)), (second, str(second))):
        found = program.reader.read_recording(folder).only
        assert found.names() == [label, "same", "decorated", "kept"]
        assert found.names(2) == ["m", "other thread"] and [r.domain for r in found.of(2)] == ["d", ""]
        (decorated,) = [r for r in found.of() if r.name == "decorated"]
        assert (decorated.domain, decorated.category, decorated.color) == ("d", (1, "c"), 0xFFFF0000)
        assert len(found.of(3)) == 1 and found.header["end_tick"]
    assert [r.name for r in program.read().only.open] == ["left open"]


def test_import_time_budget_is_printed(program: Any) -> None:
    """Not timed here (benchmarks do that), but what is imported stays a handful of modules of ours."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import topstx"],
        env={**program.environment(), "TOPSTX_SESSION": ""},
        capture_output=True, text=True, check=True, cwd=os.sep,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "topstx" in line]
    assert len(ours) <= 16
