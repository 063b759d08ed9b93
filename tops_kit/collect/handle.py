"""Starting a collector process, and ending it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tops_kit import own_process
from tops_kit.collect.control import Control, open_control
from tops_kit.collect.system import stat
from tops_kit.errors import SessionError

_STOP_S = 60.0  # without any sign of work
_LONGEST_S = 900.0
_LOOK_S = 5.0


class CollectorHandle:
    """A running collector. It ends when `stop` is called, or when the process that holds this handle ends
    (the leash).
    """

    def __init__(self, folder: Path, process: subprocess.Popen[str], leash: int) -> None:
        self.folder = folder
        self.process = process
        self._leash = leash

    def release(self) -> None:
        """Let go of the leash: the collector ends by itself (with `wait="all"` once no recorded process
        lives).
        """
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1

    def stop(self) -> None:
        """Finish the recording and wait for it. SessionError when the session could not be completed;
        stopping twice does nothing.
        """
        if self.process.poll() is None and self._leash >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._leash, b"s")
        elif self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.terminate()
        self.wait()

    @property
    def ended(self) -> bool:
        """Whether the collector has ended, so that nobody writes the session any more."""
        return self.process.poll() is not None

    def wait(self, patience_s: float = _STOP_S) -> None:
        """Wait for the collector's end. SessionError when it failed, or when it shows no sign of work (its
        heartbeat, time on a processor) for `patience_s` seconds: on a busy machine it may take long.
        """
        watch = _Watch(self.folder, self.process.pid)
        begin = time.monotonic()
        try:
            while (code := _code_within(self.process, min(_LOOK_S, patience_s))) is None:
                if watch.idle_s() >= patience_s or time.monotonic() - begin >= max(_LONGEST_S, patience_s):
                    raise SessionError(
                        f"the collector of {self.folder} does not end; "
                        f"kill process {self.process.pid} and run `topsprof recover {self.folder}`"
                    )
        finally:
            self.release()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if code != 0 and not self.folder.exists():
            raise SessionError(f"{self.folder} was removed while it was being recorded: there is no session")
        if code != 0:
            raise SessionError(
                f"the recording in {self.folder} is incomplete (collector ended with {code}); "
                f"run `topsprof recover {self.folder}`"
            )

    def __enter__(self) -> CollectorHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Watch:
    """Looks whether a collector still does something."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._pid = pid
        self._control: Control | None = None
        with contextlib.suppress(SessionError):  # it has taken the file away: the processor time tells
            self._control = open_control(folder)
        self._seen = self._signs()
        self._since = time.monotonic()

    def idle_s(self) -> float:
        """Seconds since the first look that saw what the present one sees."""
        signs = self._signs()
        if signs != self._seen:
            self._seen, self._since = signs, time.monotonic()
        return time.monotonic() - self._since

    def _signs(self) -> tuple[int, int]:
        found = stat(self._pid)
        return self._control.heartbeat if self._control else 0, found.cpu_ticks if found else 0


def start(
    folder: str | Path,
    *,
    command: Sequence[str] = (),
    overwrite: bool = False,
    wait: str = "primary",
    policy: str | None = None,
    program: int | None = None,
) -> CollectorHandle:
    """Start a collector for `folder` and wait until programs may record into it.

    The collector makes the session, and the control file unless there is one already (`control.create`).
    `command` is kept with the session. `wait` is "primary" (end with the leash) or "all" (when the leash is
    gone, end with the last recorded process). With `program`, a process number, the caller ends the
    recording itself: should the caller be killed, the collector records on until that process ends, and says
    so in the ledger. `policy` ("block" or "drop") is that of a new control file.
    SessionError when it can't be recorded there.
    """
    import topstx

    folder = Path(folder).absolute()
    read, write = os.pipe()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    environment = own_process.environment(topstx.__file__, base=inherited)
    environment["TOPSTX_DISABLE"] = "1"  # it records nothing of itself
    arguments = own_process.module_command(
        "tops_kit.collect", str(folder), "--leash", str(read), "--wait", wait
    )
    arguments += ["--program", str(program)] if program is not None else []
    arguments += ["--overwrite"] * overwrite + (["--policy", policy] if policy else [])
    try:
        process = subprocess.Popen(
            [*arguments, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            pass_fds=(read,),
            start_new_session=True,  # Ctrl-C and Ctrl-Z are for the program
        )
    except OSError as error:
        os.close(write)
        raise SessionError(f"cannot start the collector: {error.strerror or error}") from error
    finally:
        os.close(read)
    try:
        line = _first_word(process)
    except BaseException:  # an interrupt: nobody would hold the leash of what we started
        process.kill()
        _end(process, write)
        raise
    if line != "ready":
        code = _end(process, write)
        raise SessionError(line or f"the collector did not start (it ended with {code})")
    return CollectorHandle(folder, process, write)


def _code_within(process: subprocess.Popen[str], timeout_s: float) -> int | None:
    """The collector's exit code, waited for that long; None when it runs on.

    Its output ends with it: Popen.wait with a time limit would look only every 50 ms.
    """
    if process.returncode is None and process.stdout is not None and not process.stdout.closed:
        poller = select.poll()
        poller.register(process.stdout, select.POLLIN)
        if not poller.poll(timeout_s * 1000):
            return process.poll()
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def _first_word(process: subprocess.Popen[str]) -> str:
    """The line `ready`, else the last one that the collector wrote; empty when it wrote none."""
    assert process.stdout is not None
    line = ""
    for text in process.stdout:  # a sitecustomize of the user's may print something first
        line = text.strip()
        if line == "ready":
            break
    return line


def _end(process: subprocess.Popen[str], leash: int) -> int:
    """Wait for a collector that did not become ready; its exit code."""
    assert process.stdout is not None
    os.close(leash)
    process.stdout.close()
    return process.wait()
