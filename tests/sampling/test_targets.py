"""Processes that can't be sampled: each is one clear line."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topsprof.capture import process_table
from topsprof.capture.sampling import extension, maps, target

from tops_kit.errors import UserError

PROGRAM = Path("/bin/sleep")


def refused(pid: int, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        target.find(pid)
    assert "\n" not in str(error.value)


@pytest.fixture
def sleeper(tmp_path: Path) -> Any:
    """A program that is no Python, under any name."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> subprocess.Popen[bytes]:
        shutil.copy(PROGRAM.resolve(), tmp_path / name)
        processes.append(subprocess.Popen([str(tmp_path / name), "1000"]))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_no_such_process() -> None:
    refused(2**22 + 1, "there is no process")


def test_not_a_python(sleeper: Any, until: Any) -> None:
    process = sleeper("program")
    until(lambda: Path(f"/proc/{process.pid}/exe").resolve().name == "program")
    refused(process.pid, "is no Python")


def test_pypy(sleeper: Any, until: Any) -> None:
    process = sleeper("pypy3.10")
    until(lambda: Path(f"/proc/{process.pid}/exe").resolve().name == "pypy3.10")
    refused(process.pid, "is PyPy: only CPython")


def test_kernel_threads() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may read the (empty) memory of a kernel thread")
    if Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("no kernel threads are to be seen here")
    refused(2, "has no memory")


def test_old_pythons(start: Any) -> None:
    root = Path(os.environ.get("PYENV_ROOT", Path("~/.pyenv").expanduser()))
    old = sorted(root.glob("versions/3.[789]*/bin/python3")) + sorted(root.glob("versions/3.10*/bin/python3"))
    if not old:
        pytest.skip("no Python older than 3.11 is installed here")
    for python in old:
        program = start("print('ready')\ninput()\n", executable=str(python))
        refused(program.pid, "older than 3.11")


def test_processes_of_other_users(start: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    program = start("print('ready')\ninput()\n")
    code = (
        "import os, sys\nfrom topsprof.capture.sampling import target\nos.setuid(65534)\n"
        f"try:\n    target.find({program.pid})\nexcept target.UserError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "belongs to user" in done.stdout and "sudo" in done.stdout and done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("scope", "message"), [(1, "ptrace_scope is 1.*topsprof"), (3, "reboot"), (0, "SYS_PTRACE")]
)
def test_reasons_for_lack_of_rights(scope: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_ptrace_scope", lambda: scope)
    monkeypatch.setattr(target, "_owner", lambda pid: 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    import re

    text = target.no_rights(1234)
    assert re.search(message, text) and "\n" not in text
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    assert "belongs to user" in target.no_rights(1234)


def test_a_program_whose_file_was_removed(start: Any, python: str, tmp_path: Path) -> None:
    """As after an upgrade: the mapped file can only be opened through the kernel."""
    program = start("print('ready')\ninput()\n")
    parts = [part for part in maps.read_maps(program.pid) if part.path.startswith("/")]
    moved = maps.Mapping(parts[0].start, parts[0].end, True, 0, parts[0].path + " (deleted)")
    assert maps.openable(program.pid, moved).startswith("/proc/")
    assert maps.openable(program.pid, parts[0]) == f"/proc/{program.pid}/root{parts[0].path}"


def test_maps_are_parsed() -> None:
    lines = [
        "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a program\n",
        "7f00-7f10 rw-p 00000000 00:00 0 \n",
        "7f20-7f30 r--p 00000000 08:02 12 /lib/x.so (deleted)\n",
        "broken\n",
    ]
    assert maps.parse(lines) == [
        maps.Mapping(0x400000, 0x452000, True, 0x1000, "/usr/bin/a program"),
        maps.Mapping(0x7F00, 0x7F10, False, 0, ""),
        maps.Mapping(0x7F20, 0x7F30, False, 0, "/lib/x.so (deleted)"),
    ]
    assert maps.bias([maps.Mapping(0x5000, 0x6000, True, 0x1000, "")], [(0x1040, 0x2040, 9)]) == 0x3000
    assert maps.bias([], [(0, 0, 1)]) is None


def test_symbols_of_our_own_interpreter() -> None:
    tool = extension.load()
    file = tool.__file__  # type: ignore[attr-defined]
    symbols, segments, machine = tool.elf_symbols(file, ("PyInit__sampler", "none such"))
    assert set(symbols) == {"PyInit__sampler"} and segments and machine > 0
    assert tool.elf_nearest(file, [symbols["PyInit__sampler"]]) == {
        symbols["PyInit__sampler"]: "PyInit__sampler"
    }


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    tool = extension.load()
    file = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        tool.elf_symbols(str(file), ())
    for content in (b"", b"text" * 100, b"\x7fELF" + bytes(100)):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="no ELF file"):
            tool.elf_symbols(str(file), ())
    file.write_bytes(b"\x7fELF\x01\x01" + bytes(100))
    with pytest.raises(ValueError, match="32-bit"):
        tool.elf_symbols(str(file), ())


@settings(max_examples=200, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), max_size=20),
    cut=st.none() | st.integers(64, 1 << 20),
)
def test_damaged_programs_never_break_us(
    changes: list[tuple[int, bytes]], cut: int | None, tmp_path_factory: Any
) -> None:
    tool = extension.load()
    data = bytearray(Path(tool.__file__).read_bytes())  # type: ignore[attr-defined]
    sections = struct.unpack_from("<Q", data, 40)[0]
    for place, new in changes:
        at = (
            place % 64
            if place % 3 == 0
            else sections + place % (len(data) - sections)
            if place % 3 == 1
            else place
        )
        at %= len(data) - 8
        data[at : at + len(new)] = new
    file = tmp_path_factory.getbasetemp() / "damaged.so"
    file.write_bytes(data[:cut])
    for call in (
        lambda: tool.elf_symbols(str(file), ("_PyRuntime",)),
        lambda: tool.elf_nearest(str(file), [4096, 70000]),
    ):
        try:
            call()
        except ValueError:
            continue


def test_without_the_extension_one_line(monkeypatch: pytest.MonkeyPatch, topsprof: Any) -> None:
    done = topsprof("dump", os.getpid(), env={**os.environ, "TOPSKIT_PURE": "1"})
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "needs topsprof's C extension" in done.stderr


def test_layouts_that_make_no_sense_are_refused() -> None:
    from topsprof.capture.sampling import layouts

    good = layouts.table("3.11")
    for name in ("thread_top", "code_size", "frame_locals", "gil_locked"):
        with pytest.raises(ValueError):
            extension.load().Process(1, {**good, name: 1 << 20}, 0, (0, 0, 0, 0), [], 10, False)
    lacking = {key: value for key, value in good.items() if key != "thread_tid"}
    with pytest.raises(ValueError, match="thread_tid"):
        extension.load().Process(1, lacking, 0, (0, 0, 0, 0), [], 10, False)


def test_a_process_that_ends_while_it_is_looked_at_is_not_blamed(
    sleeper: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of its mappings can't be opened through it any more: not for want of rights."""
    process = sleeper("python")
    until(lambda: any(each.path.endswith("/python") for each in maps.read_maps(process.pid)))
    read = target.read_maps

    def read_and_end(pid: int) -> list[maps.Mapping]:
        mappings = read(pid)
        process.kill()
        until(lambda: process_table.start_time(pid) is None)
        return mappings

    monkeypatch.setattr(target, "read_maps", read_and_end)
    with pytest.raises(target.NotPythonError, match=f"process {process.pid} has ended"):
        target.find(process.pid)
