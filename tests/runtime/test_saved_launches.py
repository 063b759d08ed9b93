"""Launches that a recording saves: launched again they give the same, to the bit and the cycle."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tops_kit as tops
from tests.runtime.test_recording import ROOT, rows, run
from tops_kit import launch_files
from tops_kit.launch_files import LaunchFileError
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.saved_launch import SavedLaunch, saved_launch
from tops_kit.runtime.saving import Request, Saver, read_request
from tops_kit.runtime.topscc_command import main
from tops_kit.session import Session
from tops_kit.session.packing import pack, unpack

pytestmark = pytest.mark.usefixtures("needs_c")


@tops.kernel
def scale(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1), n: tops.i32, by: tops.f32):
    for i in range(tops.thread_id() * 256, n, tops.num_threads() * 256):
        j = min(i + 256, n)
        tops.store(y[i:j], tops.load(x[i:j]) * by + tops.load(y[i:j]))


@tops.kernel
def add(x: tops.ptr(None, 2), y: tops.ptr(None, 2), rows: tops.i32, COLS: tops.constexpr):
    for r in range(tops.thread_id(), rows, tops.num_threads()):
        tops.store(y[r : r + 1, 0:COLS], tops.load(x[r : r + 1, 0:COLS]) + 1)


@tops.kernel
def beyond(x: tops.ptr(tops.f32, 1), n: tops.i32):
    j = min(n, 64)
    tops.store(x[0:j], tops.load(x[0:j]))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A session's folder in which this process saves all launches."""
    yield from saving(tmp_path)


def saving(path: Path, kernels: str = "", count: int = 1000, limit_bytes: int = 1 << 30) -> Iterator[Path]:
    (path / launch_files.FOLDER).mkdir(exist_ok=True)
    RUNTIME.saver = Saver(str(path), Request(re.compile(kernels), count, limit_bytes), lambda: True)
    try:
        yield path
    finally:
        RUNTIME.saver = None


def names(folder: Path) -> list[str]:
    return [path.name.removesuffix(launch_files.SUFFIX) for path in launch_files.in_session(folder)]


def test_a_launch_again_is_the_same(folder: Path) -> None:
    x, y = tops.array(np.arange(4096, dtype=np.float32)), tops.array(np.full(4096, 0.1, np.float32))
    first = scale[2, 4](x, y, 4000, 0.7)
    after_first = y.numpy()
    second = scale[2, 4](x, y, 4000, -0.0)
    assert names(folder) == ["scale-1", "scale-2"]
    with pytest.raises(LaunchFileError, match=r"saved launches scale-1, scale-2: name one"):
        saved_launch(folder, "scale")
    with pytest.raises(LaunchFileError, match=r"no saved launch other-1: there are scale-1"):
        saved_launch(folder, "other-1")
    for name, launch, after in (("scale-1", first, after_first), ("scale-2", second, y.numpy())):
        saved = saved_launch(folder, name)
        replay = saved.replay()
        assert replay.launch["y"].tobytes() == after.tobytes()
        assert replay.launch.cycles == launch.cycles == saved.recorded_cycles
        assert (replay.launch.counts == launch.counts).all() and replay.differences() == []
    assert (saved.kernel, saved.grid, saved.block) == ("scale", (2, 1, 1), (4, 1, 1))
    assert saved.arguments[3].value == 0.0 and np.signbit(saved.arguments[3].value)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dtype=st.sampled_from(["f32", "f16", "bf16", "i32", "i16", "i8", "u8"]),
    rows_=st.integers(1, 6),
    columns=st.integers(1, 70),
    step=st.integers(1, 3),
    where=st.sampled_from(["device", "host", "same", "overlapping"]),
    seed=st.integers(0, 1 << 16),
)
def test_any_arrays(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    rows_: int,
    columns: int,
    step: int,
    where: str,
    seed: int,
) -> None:
    form = tops.array([0], dtype=dtype).dtype.numpy
    bits = np.random.default_rng(seed).integers(0, 100, (2 * rows_ * step, columns + 3)).astype(form)
    bits_dtype = None if dtype == "bf16" else dtype
    if where == "host" and dtype != "bf16":
        whole: Any = bits.copy()
    else:
        whole = tops.empty(bits.shape, dtype)
        whole.assign(bits if bits_dtype else bits.astype(np.float32))
    x = whole[: rows_ * step : step, 1 : columns + 1]
    y = {"same": x, "overlapping": whole[rows_ * step - 1 : 2 * rows_ * step - 1 : step, :columns]}.get(
        where, whole[rows_ * step :: step, 2 : columns + 2]
    )
    for folder in saving(tmp_path_factory.mktemp("case")):
        launch = add[3](x, y, rows_, COLS=columns)
        replay = saved_launch(folder).replay()
        assert replay.differences() == [] and replay.launch.cycles == launch.cycles
        after = y if isinstance(y, np.ndarray) else y.bits()
        assert replay.launch["y"].tobytes() == after.tobytes()


def test_work_that_waits_and_graphs_are_saved_as_they_run(folder: Path) -> None:
    x, y = tops.array(np.ones(64, np.float32)), tops.zeros(64, tops.f32)
    with tops.Stream() as stream:
        tops.launch_host_func(lambda: None)
        scale[1](x, y, 64, 2.0)
        tops.memcpy_async(x, y, x.nbytes)
        scale[1](x, y, 64, 2.0)
        stream.synchronize()
        stream.begin_capture()
        scale[1](x, y, 64, 3.0)
        graph = stream.end_capture()
        graph.instantiate().launch()
        stream.synchronize()
    assert names(folder) == ["scale-1", "scale-2", "scale-3"]
    assert [float(saved_launch(folder, n).replay().launch["x"][0]) for n in names(folder)] == [1, 2, 2]
    assert all(saved_launch(folder, name).replay().differences() == [] for name in names(folder))


def test_a_launch_that_fails_is_there_with_its_fault(folder: Path) -> None:
    with pytest.raises(tops.KernelFault):
        beyond[1](np.zeros(8, np.float32), 9)
    saved = saved_launch(folder)
    assert saved.recorded_cycles is None and "beyond" in str(saved.recorded_fault)
    with pytest.raises(tops.KernelFault, match="beyond"):
        saved.replay()


def test_how_many_and_how_much(tmp_path: Path) -> None:
    x = np.zeros(1024, np.float32)
    for folder in saving(tmp_path, "^scale", count=2):
        for _ in range(4):
            scale[1](x, x, 1024, 1.0)
            beyond[1](x, 8)
        assert names(folder) == ["scale-1", "scale-2"]
    used = sum(path.stat().st_size for path in launch_files.in_session(tmp_path))
    for folder in saving(tmp_path, "^scale", limit_bytes=used + 1000):
        for _ in range(2):
            scale[1](x, x, 1024, 1.0)
        assert names(folder) == ["scale-1", "scale-2"]
    (line,) = (tmp_path / "launches" / launch_files.REFUSED).read_text().splitlines()
    assert json.loads(line)["kernel"] == "scale"
    assert re.search(r"needs [\d,]+ bytes, and of --save-launch-limit [\d,]+ bytes 1,000 are left", line)


def test_a_view_of_much_memory_is_saved_without_the_rest(tmp_path: Path) -> None:
    much = tops.zeros(1 << 20, tops.f32)
    for folder in saving(tmp_path, limit_bytes=1 << 16):
        scale[1](much[100:200], much[300:400], 100, 2.0)
        (path,) = launch_files.in_session(folder)
        assert path.stat().st_size < 1 << 16 and saved_launch(path).replay().differences() == []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_told_in_a_line(sound: tuple[Path, bytes], data: st.DataObject) -> None:
    path, content = sound
    damaged = bytearray(content)
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        damaged = damaged[: data.draw(st.integers(0, len(damaged) - 1))]
    path.write_bytes(damaged)
    try:
        saved = SavedLaunch(launch_files.read(path))
        saved.file.verify()
        assert saved.replay().differences() == []  # only the padding, or the outcome, is gone
    except LaunchFileError as error:
        assert "\n" not in str(error) and str(path) in str(error)


@pytest.fixture
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    for folder in saving(tmp_path_factory.mktemp("case")):
        scale[1](np.ones(64, np.float32), np.zeros(64, np.float32), 64, 2.0)
        (path,) = launch_files.in_session(folder)
    return path, path.read_bytes()


def test_headers_that_make_no_sense_are_refused(sound: tuple[Path, bytes]) -> None:
    path, _ = sound
    file = launch_files.read(path)
    program = file.piece(file.header["program"])
    memory = [(dict(one), file.piece(one)) for one in file.header["memory"]]

    def refused(**changes: Any) -> None:
        made = launch_files.create(path.parent, "other", dict(file.header) | changes, program, memory)
        with pytest.raises(LaunchFileError, match=r"damaged: \w"):
            saved_launch(made).replay()
        made.unlink()

    arguments = file.header["arguments"]
    x, y, n, by = arguments
    refused(arguments=[x | {"at": 1 << 20}, y, n, by])
    refused(arguments=[x | {"at": -4}, y, n, by])
    refused(arguments=[x | {"shape": [65]}, y, n, by])
    refused(arguments=[x | {"strides": [1 << 40]}, y, n, by])
    refused(arguments=[x | {"memory": 7}, y, n, by])
    refused(arguments=[x | {"dtype": "i32"}, y, n, by])
    refused(arguments=[n, y, n, by])
    refused(arguments=[x, y, n | {"value": "0x1p0"} | {"dtype": "f32"}, by])
    refused(arguments=[x, y, n])
    refused(grid=[0])
    refused(block="many")
    refused(specification=None)
    figures = file.header["specification"]["figures"]
    refused(specification=file.header["specification"] | {"figures": figures | {"clusters": [10**9, "me"]}})


def test_a_request_that_makes_no_sense(tmp_path: Path) -> None:
    assert read_request(str(tmp_path)) is None
    (tmp_path / "launches").mkdir()
    (tmp_path / "launches" / "request.json").write_text('{"kernels": "(", "count": 1, "limit_bytes": 1}')
    with pytest.raises(ValueError, match=r"request\.json"):
        read_request(str(tmp_path))


def test_through_a_recording_a_pack_and_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = """
    print(sum(launch.cycles for launch in work(2)))
    """
    out = run(tmp_path, code, "--save-launch", "doub", "--save-launch-count", "2")
    session = tmp_path / "case.topsprof"
    assert names(session) == ["double-1", "double-2"]
    assert sorted(path.name for path in (session / "launches").iterdir()) == [
        "double-1.topslaunch", "double-2.topslaunch",
    ]  # fmt: skip
    cycles = [saved_launch(session, name).replay().launch.cycles for name in names(session)]
    assert sum(cycles) == int(out)
    launched = [k["correlation_id"] for k in rows(tmp_path, "kernel")]
    assert [launch["correlation_id"] for launch in Session.open(session).saved_launches()] == launched
    assert main(["run", f"{session}:double-1", "--sanitize"]) == 0
    shown = capsys.readouterr().out
    assert "double-1: as recorded" in shown and "sanitizer: double: nothing found" in shown
    assert main(["run", f"{session}:double-1", "--arg", "n=3"]) == 2
    assert "leave out --arg" in capsys.readouterr().err

    other = unpack(pack(session), tmp_path / "other.topsprof")
    for name in names(session):
        one, two = (folder / "launches" / f"{name}.topslaunch" for folder in (session, other))
        assert one.read_bytes() == two.read_bytes()
    told = info(other, "--verify")
    assert "double-2" in told.stdout and "x: f32[4096]" in told.stdout and not told.returncode
    path = other / "launches" / "double-2.topslaunch"
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)
    told = info(other, "--verify")
    assert told.returncode == 2 and "double-2.topslaunch is damaged" in told.stdout
    assert main(["run", f"{other}:double-2"]) == 2


def test_only_while_recording_is_on(tmp_path: Path) -> None:
    code = "work(1, 1024)\ntops.profiler_start()\nwork(2, 2048)\ntops.profiler_stop()\nwork(1, 512)\n"
    run(tmp_path, code, "-c", "topsProfilerApi", "--save-launch", "double", "--save-launch-count", "9")
    session = Session.open(tmp_path / "case.topsprof")
    assert [launch["arguments"][0]["shape"] for launch in session.saved_launches()] == [[2048], [2048]]


def test_what_is_too_much_is_in_the_ledger(tmp_path: Path) -> None:
    run(tmp_path, "work(1)", "--save-launch", "double", "--save-launch-limit", "10K")
    session = Session.open(tmp_path / "case.topsprof")
    assert session.saved_launches() == [] and not (session.path / "launches").exists()
    (entry,) = [e for e in session.ledger.entries if e.stream == "launch:double"]
    assert (entry.kind, entry.code) == ("dropped", "not_saved") and "--save-launch-limit" in entry.note


def info(session: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys; from topsprof.cli import main; sys.exit(main(sys.argv[1:]))",
         "info", str(session), *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
