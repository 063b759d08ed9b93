"""Finds the Python in a process: its `_PyRuntime`, its version, and from that where it keeps things."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError
from topsprof.capture import process_table
from topsprof.capture.sampling import extension, layouts
from topsprof.capture.sampling.maps import Mapping, bias, openable, read_maps

_SYMBOLS: Final = ("_PyRuntime", "Py_Version", "PyCode_Type", "PyUnicode_Type", "PyBytes_Type", "PyLong_Type")


class NotPythonError(UserError):
    """A process in which there is no Python (yet), or that has ended."""


class UnsupportedPythonError(UserError):
    """A process with a Python in it that can't be sampled."""


@dataclass(frozen=True)
class Target:
    """A process with a Python in it."""

    pid: int
    version: str
    """As people write it: "3.11.7"."""
    layout: dict[str, int]
    runtime: int
    """Address of `_PyRuntime`."""
    types: tuple[int, int, int, int]
    """Addresses of the types of code, str, bytes and int."""
    interpreter: tuple[tuple[int, int], ...]
    """Where the machine code of the interpreter lies: (start, end) each."""
    file: str
    """The program or library that the interpreter is in."""

    def open(self, depth: int, native: bool) -> extension.Process:
        """A reader and sampler of the process. depth: frames of a stack; native: name native code."""
        return extension.load().Process(
            self.pid, self.layout, self.runtime, self.types, list(self.interpreter), depth, native
        )


def find(pid: int) -> Target:
    """The Python of a process. Raises UserError: one line with what is in the way and what to do."""
    try:
        mappings = read_maps(pid)
    except FileNotFoundError:
        raise NotPythonError(f"there is no process {pid}") from None
    except ProcessLookupError:
        raise NotPythonError(f"process {pid} has ended") from None
    except PermissionError:
        raise UserError(no_rights(pid)) from None
    if not mappings:
        raise NotPythonError(f"process {pid} has no memory: it is a kernel thread, or has ended")
    return _in_mappings(pid, mappings)


def _in_mappings(pid: int, mappings: list[Mapping]) -> Target:
    program = _program(pid)
    tool = extension.load()
    for path, parts in _candidates(program, mappings):
        try:
            symbols, segments, _ = tool.elf_symbols(openable(pid, parts[0]), _SYMBOLS)
        except OSError as error:
            _refuse_ended(pid)
            raise UserError(
                f"'{path}' of process {pid} can't be opened ({error.strerror}): "
                "run topsprof as the process's user, or as root"
            ) from None
        except ValueError as error:
            if "32-bit" in str(error):
                raise UserError(
                    f"process {pid} ({path}) is a 32-bit program: only 64-bit can be sampled"
                ) from None
            continue
        if "_PyRuntime" not in symbols:
            continue
        shift = bias(parts, segments)
        if shift is None:
            _refuse_ended(pid)
            raise UnsupportedPythonError(
                f"'{path}' of process {pid} was replaced since it began: restart the program"
            )
        return _target(pid, path, parts, {name: value + shift for name, value in symbols.items()})
    if any("pypy" in Path(mapping.path).name for mapping in mappings) or "pypy" in Path(program).name:
        raise UnsupportedPythonError(f"process {pid} is PyPy: only CPython can be sampled")
    _refuse_ended(pid)
    raise NotPythonError(f"process {pid} ({program or 'unknown program'}) is no Python")


def _refuse_ended(pid: int) -> None:
    """What fails while a process ends, or executes another program, is not to be blamed on it."""
    if process_table.start_time(pid) is None:
        raise NotPythonError(f"process {pid} has ended")


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def _candidates(program: str, mappings: list[Mapping]) -> Iterator[tuple[str, list[Mapping]]]:
    """Files in which an interpreter can be, the likely ones first, with their mappings."""
    files: dict[str, list[Mapping]] = {}
    for mapping in mappings:
        if mapping.path.startswith("/"):
            files.setdefault(mapping.path, []).append(mapping)
    libraries = [path for path in files if Path(path).name.startswith("libpython")]
    others = [
        path for path in files if path not in libraries and path != program and "python" in Path(path).name
    ]
    for path in [*libraries, *([program] if program in files else []), *others]:
        yield path, files[path]


def _target(pid: int, path: str, parts: list[Mapping], symbols: dict[str, int]) -> Target:
    tool = extension.load()
    if "Py_Version" not in symbols:
        raise UnsupportedPythonError(
            f"process {pid} is a Python older than 3.11 ({path}): 3.11 or later can be sampled"
        )
    version_bytes = tool.read_memory(pid, symbols["Py_Version"], 4)
    head = tool.read_memory(pid, symbols["_PyRuntime"], layouts.OFFSETS_BYTES)
    if version_bytes is None or head is None:
        _refuse_ended(pid)
        raise UserError(no_rights(pid))
    version = int.from_bytes(version_bytes, "little")
    missing = [name for name in _SYMBOLS if name not in symbols]
    if missing:
        raise UnsupportedPythonError(
            f"'{path}' of process {pid} lacks the symbol {missing[0]}: use one that was not stripped"
        )
    try:
        layout = layouts.layout_of(version, head)
    except UserError as error:
        raise UnsupportedPythonError(f"process {pid}: {error}") from None
    code, text, data, number = (symbols[name] for name in _SYMBOLS[2:])
    return Target(
        pid,
        f"{version >> 24}.{version >> 16 & 255}.{version >> 8 & 255}",
        layout,
        symbols["_PyRuntime"],
        (code, text, data, number),
        tuple((part.start, part.end) for part in parts if part.executable),
        path,
    )


def no_rights(pid: int) -> str:
    """Why a process may not be read, and what to do, in one line."""
    owner = _owner(pid)
    if owner is not None and os.geteuid() not in (0, owner):
        return f"process {pid} belongs to user {_name(owner)}: run topsprof as that user, or with sudo"
    scope = _ptrace_scope()
    if scope == 3:
        return f"process {pid} may not be read: kernel.yama.ptrace_scope is 3, which only a reboot can change"
    if scope >= 1 and os.geteuid() != 0:
        return (
            f"process {pid} may not be read (kernel.yama.ptrace_scope is {scope}): start it by 'topsprof "
            "run', use sudo, or 'sysctl kernel.yama.ptrace_scope=0'"
        )
    return (
        f"process {pid} may not be read: run topsprof with sudo; in a container it needs "
        "'--cap-add SYS_PTRACE' (and the process has to be dumpable)"
    )


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _ptrace_scope() -> int:
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
