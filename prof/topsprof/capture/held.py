"""A program that is forked and held back before its exec: its pid is known while its session is prepared."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from topsprof.capture.program import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Program, ProgramError

_SHELL: Final = "/bin/sh"
_LENGTH_BYTES: Final = 8


class HeldProgram:
    """A child of ours that waits for `release(environment)` and then becomes the program.

    It keeps all that a program run directly would have: terminal, process group, working folder, open files,
    limits, signal mask. Fork while this process has one thread, before any signal is blocked.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        for stream in (sys.stdout, sys.stderr):  # else the child would write it, too
            with contextlib.suppress(OSError):  # nobody reads it: no reason not to run the program
                stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            os.close(self._failure)
            _become(program, gate, failure)
        os.close(gate)
        os.close(failure)

    def release(self, environ: Mapping[str, str]) -> None:
        """Let it run with `environ`. Raises ProgramError when the exec fails; the child is gone then."""
        packed = b"\0".join(os.fsencode(f"{key}={value}") for key, value in environ.items())
        _write_all(self._gate, len(packed).to_bytes(_LENGTH_BYTES, "little") + packed)
        os.close(self._gate)
        code = b""
        while chunk := os.read(self._failure, 64):
            code += chunk
        os.close(self._failure)
        if code:
            _reap(self.pid)
            raise _start_error(self.program, int(code))

    def cancel(self) -> None:
        """End the child before it became the program."""
        os.close(self._gate)
        os.close(self._failure)
        _reap(self.pid)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # where SIGCHLD is ignored nothing is left to wait for
        os.waitpid(pid, 0)


def _become(program: Program, gate: int, failure: int) -> NoReturn:
    """In the child: wait for the environment, then exec. Never returns into the caller's code."""
    try:
        # what this Python set for itself is not what the program was to inherit
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        packed = _read_message(gate)
        if packed is None:  # cancelled
            os._exit(0)
        environ = dict(entry.split(b"=", 1) for entry in packed.split(b"\0") if b"=" in entry)
        try:
            os.execve(program.executable, program.argv, environ)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # a script without `#!`: shells run it by sh
            os.execve(_SHELL, (_SHELL, program.executable, *program.argv[1:]), environ)
    except OSError as error:
        os.write(failure, str(error.errno or errno.EIO).encode())
    finally:
        os._exit(EXIT_NOT_FOUND)


def _read_message(descriptor: int) -> bytes | None:
    """What `release` sent. It has a length, as other children of our parent may hold the pipe open."""
    length = int.from_bytes(
        os.read(descriptor, _LENGTH_BYTES) or b"\xff" * _LENGTH_BYTES, "little", signed=True
    )
    if length < 0:
        return None
    data = b""
    while len(data) < length:
        chunk = os.read(descriptor, min(length - len(data), 65536))
        if not chunk:
            return None
        data += chunk
    return data


def _start_error(program: Program, code: int) -> ProgramError:
    name = program.executable
    if code == errno.ENOENT:
        # the file is there (it was looked up): what is missing is the interpreter it names
        missing = "its interpreter is not found" if Path(name).exists() else "it is not found"
        return ProgramError(f"'{name}' can't be started: {missing}", EXIT_NOT_FOUND)
    return ProgramError(f"'{name}' can't be started: {os.strerror(code)}", EXIT_NOT_EXECUTABLE)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError:
        pass  # a signal ended the child while it waited: the wait for it says so
