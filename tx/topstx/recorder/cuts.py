"""Session time that all processes of a recording share: cuts, jumps, and the file `cuts` they are written to.

Session time follows the raw clock (CLOCK_MONOTONIC), but stands still in a *cut*, in which a process does on
its processor what the device would have done, and *jumps* over waits that took no time. In model mode it is
each process's own, begins at 0 and moves by `advance` alone. See topstx_layout.h for the file.

The locks are record locks of the open file: these go with a process that is killed, processes with and
without the C extension share them, and nobody in this process loses them by closing the file elsewhere.
"""

# `pathlib` is too heavy here: recorded programs import this.
# ruff: noqa: PTH118

from __future__ import annotations

import _thread
import errno
import fcntl
import mmap
import os
import time
from struct import Struct

from topstx.recorder import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Protocol

    from topstx.recorder.interface import Backend

    class TimeBase(Protocol):
        """What both back ends have; that of gcu/clock.py, and where records of the session stand."""

        @property
        def mode(self) -> str: ...
        @property
        def offset_ns(self) -> int: ...
        def now_ns(self) -> int: ...
        def begin_cut(self) -> None: ...
        def end_cut(self) -> None: ...
        def advance(self, ns: int, /) -> None: ...
        def alone(self) -> bool: ...
        def close(self) -> None: ...
        def _after_fork(self) -> None: ...


FILE: Final = "cuts"
MODES: Final = ("virtual", "model")

_AT = layout.CUTS_OFFSET
_WINDOW_BYTES: Final = layout.CUTS_WINDOW * layout.CUT_BYTES
_PAUSE_S: Final = 0.0001
_STUCK_NS: Final = 20_000_000  # nobody takes that long to write a few words, unless stopped or killed
_pack_entry = Struct(layout.CUT_FORMAT).pack_into
_unpack_entry = Struct(layout.CUT_FORMAT).unpack_from
_FLOCK = Struct("@hhqqi4x")  # struct flock of 64-bit Linux
_raw = time.monotonic_ns


def _word(name: str) -> int:
    return _AT[name] // 8


_SEQUENCE, _OPEN_BEGIN, _OPEN_SESSION = _word("sequence"), _word("open_begin"), _word("open_session")
_FROZEN, _SHIFT, _ENTRIES = _word("frozen"), _word("shift"), _word("entries")
_OPEN_PROCESS, _PROCESSES = _word("open_process"), _word("processes")
_SIMULATOR, _JUMPED, _HIDDEN = _word("simulator_ns"), _word("jumped_ns"), _word("hidden_ns")
_LOST = _word("lost_entries")


def create(folder: str, mode: str) -> None:
    """Make the file `cuts` of a session folder. Raises OSError (FileExistsError: there is one)."""
    header = Struct(layout.CUTS_FORMAT).pack(
        layout.CUTS_MAGIC,
        layout.LAYOUT_VERSION,
        MODES.index(mode),
        *(0,) * (len(layout.CUTS_FIELDS) - 4),
        b"",
    )
    descriptor = os.open(os.path.join(folder, FILE), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, header.ljust(layout.PAGE, b"\0"))
    finally:
        os.close(descriptor)


def open_base(backend: Backend, folder: str, *, now_ns: int | None = None) -> TimeBase | None:
    """The time base of the session in `folder`, in C where `backend` is; None when it has none that this
    process can use.

    With `now_ns` its time goes on from there, for a process that already has a session time of its own.
    """
    made: TimeBase
    try:
        in_c = getattr(backend, "SharedTimeBase", None)
        if in_c is not None:
            made = in_c(folder, now_ns)
        else:
            made = SharedTimeBase(folder, backend.process_serial, now_ns=now_ns)
    except (OSError, ValueError):
        return None
    _follow_fork(made)
    return made


class SharedTimeBase:
    """A process's view of the session's time. Its methods are those of a time base of gcu/clock.py.

    `offset_ns` is what `now_ns` is ahead of the times that records of the session have.
    """

    def __init__(self, folder: str, process_serial: Callable[[], int], *, now_ns: int | None = None) -> None:
        """Raises OSError or ValueError when there is no such file, or of another version."""
        self._serial = process_serial
        self._file = os.open(os.path.join(folder, FILE), os.O_RDWR | os.O_CLOEXEC)
        try:
            self._header = mmap.mmap(self._file, layout.PAGE)
            magic, version, mode = Struct("<8sII").unpack_from(self._header)
            if magic != layout.CUTS_MAGIC or version != layout.LAYOUT_VERSION or mode >= len(MODES):
                raise ValueError("not the cuts of a recording, or of another version")
        except BaseException:
            os.close(self._file)
            raise
        self.mode = MODES[mode]
        self._model = mode == layout.CUTS_MODEL
        self._words = memoryview(self._header).cast("q")
        pids = _AT["pids"]
        self._pids = memoryview(self._header)[pids : pids + 4 * layout.CUTS_PIDS].cast("I")
        self._order = memoryview(self._header)[_AT["order_measured"] :][:4].cast("I")
        self._window: mmap.mmap | None = None
        self._window_at = -1
        self.offset_ns = 0
        self._traditional = False  # locks of the process, where the system has none of open files
        self._enter()
        if now_ns is not None:
            self.offset_ns = now_ns - self.now_ns()

    def _enter(self) -> None:
        """Become one of the processes that use the file; also of a fork child, whose time is its own."""
        self._lock = _thread.RLock()
        self._depth = 0
        self._cut_raw = 0
        self._session = 0  # model mode: this process's time
        self._thread = 0
        self._cpu: tuple[int, int, dict[int, int]] | None = None
        self._pid = os.getpid()
        words = self._words
        with self._lock:
            self._alone = False
            self._lock_byte(fcntl.F_WRLCK, layout.CUTS_LOCK_BYTE)
            try:
                words[_PROCESSES] += 1
                # The one that was alone before takes no lock yet: its cut ends first, or it has ended itself.
                while self._unfinished() and not self._nobody_else():
                    time.sleep(_PAUSE_S)
                if self._unfinished():
                    self._repair()
                for place in range(layout.CUTS_PIDS):
                    if self._pids[place] in (0, self._pid) or not _exists(self._pids[place]):
                        self._pids[place] = self._pid
                        break
                self._lock_byte(fcntl.F_RDLCK, layout.CUTS_PRESENCE_BYTE)
            finally:
                self._release()
            self._alone = words[_PROCESSES] == 1

    def _after_fork(self) -> None:
        if self._file < 0:
            return
        self.offset_ns = 0 if self._model else self.offset_ns
        try:
            # The file opened anew: locks of the old one are the parent's.
            file = os.open(f"/proc/self/fd/{self._file}", os.O_RDWR | os.O_CLOEXEC)
            os.dup2(file, self._file, inheritable=False)
            os.close(file)
            self._enter()
        except OSError:
            return  # out of locks: then this process goes unseen by others' `alone`

    def close(self) -> None:
        """Leave the session's time. The object is of no use afterwards."""
        if self._file < 0:
            return
        for place in range(layout.CUTS_PIDS):
            if self._pids[place] == self._pid:
                self._pids[place] = 0
        os.close(self._file)
        self._file = -1

    # ---- time

    def now_ns(self) -> int:
        """Session time; it stands still while any process of the session is in a cut."""
        if self._model:
            return self._session + self.offset_ns
        words = self._words
        while True:
            sequence = words[_SEQUENCE]
            if sequence & 1:
                self._wait_for_writer(sequence)
                continue
            if words[_OPEN_BEGIN]:
                now = words[_FROZEN]
                if not self._depth and self._orphaned():
                    continue
            else:
                now = words[_SHIFT]
                now += _raw()
            if words[_SEQUENCE] == sequence:
                return now + self.offset_ns

    def begin_cut(self) -> None:
        """From here to `end_cut` no session time passes; waits until no other thread or process is in one."""
        self._lock.acquire()
        if self._depth:
            self._depth += 1
            return
        if not self._model:
            try:
                self._begin_change()
            except BaseException:  # a signal handler raised while we waited
                self._lock.release()
                raise
            words = self._words
            raw = _raw()
            words[_FROZEN] = words[_OPEN_SESSION] = raw + words[_SHIFT]
            words[_OPEN_PROCESS] = _signed(self._serial())
            words[_OPEN_BEGIN] = raw
            words[_SEQUENCE] += 1
            self._cut_raw = raw
        else:
            self._cut_raw = _raw()
        self._depth = 1
        self._cpu = self._cpu_of_others()

    def end_cut(self) -> None:
        """The end of the innermost cut of this thread. RuntimeError without a begin."""
        if not self._depth:
            raise RuntimeError("end_cut without begin_cut")
        if self._depth > 1:
            self._depth -= 1
            self._lock.release()
            return
        hidden = self._hidden()
        words = self._words
        if self._model:
            self._begin_change()
            words[_SIMULATOR] += _raw() - self._cut_raw
        else:
            words[_SEQUENCE] |= 1
            self._close_cut(_raw())
        words[_HIDDEN] += hidden
        self._end_change()
        self._depth = 0
        self._lock.release()

    def advance(self, ns: int) -> None:
        """Session time moves ahead at once."""
        words = self._words
        with self._lock:
            if self._model:
                thread = _thread.get_ident()
                if thread != self._thread:
                    if self._thread:
                        self._order[0] = 1
                    self._thread = thread
                self._begin_change()
                raw, at = _raw(), self._session
                self._session = at + ns
                self._append(raw, raw, at, at + ns, self._serial())
                words[_JUMPED] += ns
                self._end_change()
            elif self._depth:
                words[_SEQUENCE] |= 1
                words[_FROZEN] += ns
                words[_JUMPED] += ns
                words[_SEQUENCE] += 1
            else:
                self._begin_change()
                raw = _raw()
                at = raw + words[_SHIFT]
                self._append(raw, raw, at, at + ns, 0)
                words[_SHIFT] += ns
                words[_JUMPED] += ns
                self._end_change()

    def alone(self) -> bool:
        """Whether no other process uses this base."""
        return self._words[_PROCESSES] == 1 or self._nobody_else()

    def _nobody_else(self) -> bool:
        """The same, asked of the system."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, layout.CUTS_PRESENCE_BYTE, 1, 0)
        told = self._lock_call(fcntl.F_OFD_GETLK, fcntl.F_GETLK, asked)
        return bool(_FLOCK.unpack(told)[0] == fcntl.F_UNLCK)

    def _lock_byte(self, kind: int, at: int, *, wait: bool = True) -> None:
        """Take or give back one of the locks of the file's bytes. OSError: another process has it."""
        asked = _FLOCK.pack(kind, os.SEEK_SET, at, 1, 0)
        if wait:
            self._lock_call(fcntl.F_OFD_SETLKW, fcntl.F_SETLKW, asked)
        else:
            self._lock_call(fcntl.F_OFD_SETLK, fcntl.F_SETLK, asked)

    def _lock_call(self, of_file: int, of_process: int, asked: bytes) -> bytes:
        if not self._traditional:
            try:
                return fcntl.fcntl(self._file, of_file, asked)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
            self._traditional = True
        return fcntl.fcntl(self._file, of_process, asked)

    # ---- the file

    def _begin_change(self) -> None:
        """Begin to change the file: `sequence` is odd then, and no other process changes it.

        As long as no other process ever used the file there is no lock to take: the change is announced
        before we look whether one has come.
        """
        words = self._words
        if self._alone:
            words[_SEQUENCE] |= 1
            if words[_PROCESSES] == 1:
                return
            words[_SEQUENCE] += 1
            self._alone = False
        self._lock_byte(fcntl.F_WRLCK, layout.CUTS_LOCK_BYTE)
        if self._unfinished():  # its writer was killed
            self._repair()
        words[_SEQUENCE] |= 1

    def _end_change(self) -> None:
        self._words[_SEQUENCE] += 1
        if not self._alone:
            self._release()

    def _unfinished(self) -> bool:
        """Whether somebody is in a cut or in a change, or was killed in one."""
        return bool(self._words[_SEQUENCE] & 1 or self._words[_OPEN_BEGIN])

    def _release(self) -> None:
        self._lock_byte(fcntl.F_UNLCK, layout.CUTS_LOCK_BYTE)

    def _repair(self) -> None:
        """A holder was killed: the entries say how far it came; its cut ends now. Under the file's lock."""
        words = self._words
        words[_SEQUENCE] |= 1
        if not self._model:
            last = self._last_entry()
            if words[_OPEN_BEGIN] and (last is None or last[0] != words[_OPEN_BEGIN]):
                self._close_cut(_raw())
            else:
                words[_OPEN_BEGIN] = 0
                words[_SHIFT] = last[3] - last[1] if last is not None else 0
        words[_SEQUENCE] += 1

    def _close_cut(self, raw: int) -> None:
        words = self._words
        begin, frozen = words[_OPEN_BEGIN], words[_FROZEN]
        self._append(begin, raw, words[_OPEN_SESSION], frozen, 0)
        words[_SIMULATOR] += raw - begin
        words[_SHIFT] = frozen - raw
        words[_OPEN_BEGIN] = 0

    def _append(self, begin: int, end: int, session_begin: int, session_end: int, serial: int) -> None:
        """Add an entry; it counts only once `entries` is stored."""
        count = self._words[_ENTRIES]
        window, place = divmod(count, layout.CUTS_WINDOW)
        if window != self._window_at and not self._move_window(window):
            self._words[_LOST] += 1
            return
        assert self._window is not None
        _pack_entry(self._window, place * layout.CUT_BYTES, begin, end, session_begin, session_end, serial)
        self._words[_ENTRIES] = count + 1

    def _last_entry(self) -> tuple[int, int, int, int, int] | None:
        count = self._words[_ENTRIES]
        if not count:
            return None
        at = layout.CUTS_ENTRIES_OFFSET + (count - 1) * layout.CUT_BYTES
        begin, end, session_begin, session_end, serial = _unpack_entry(
            os.pread(self._file, layout.CUT_BYTES, at)
        )
        return begin, end, session_begin, session_end, serial

    def _move_window(self, window: int) -> bool:
        """Map another part of the entries, allocated first: a full disk is no SIGBUS. False: it is full."""
        offset = layout.CUTS_ENTRIES_OFFSET + window * _WINDOW_BYTES
        try:
            os.posix_fallocate(self._file, offset, _WINDOW_BYTES)
            mapped = mmap.mmap(self._file, _WINDOW_BYTES, offset=offset)
        except (OSError, ValueError):
            return False
        if self._window is not None:
            self._window.close()
        self._window, self._window_at = mapped, window
        return True

    def _wait_for_writer(self, sequence: int) -> None:
        """Until `sequence`, which is odd, has changed; a writer that is no more is finished for it."""
        until = _raw() + _STUCK_NS
        while self._words[_SEQUENCE] == sequence:
            time.sleep(0)
            if _raw() > until and self._orphaned():
                return

    def _orphaned(self) -> bool:
        """Whether a cut or a change was left by a killed process; then it is finished now."""
        if self._alone:
            return False
        with self._lock:
            if self._depth:
                return False
            try:
                self._lock_byte(fcntl.F_WRLCK, layout.CUTS_LOCK_BYTE, wait=False)
            except OSError:
                return False  # somebody has it
            try:
                if self._unfinished():
                    self._repair()
            finally:
                self._release()
        return True

    # ---- processor time of others within cuts

    def _cpu_of_others(self) -> tuple[int, int, dict[int, int]] | None:
        """(processor time of this process, of this thread, of each other process), None: there is nobody
        else.
        """
        others = {} if self.alone() else self._others()
        if not others and not _thread._count():
            return None
        return time.process_time_ns(), time.thread_time_ns(), others

    def _others(self) -> dict[int, int]:
        found = {}
        for pid in self._pids:
            if pid and pid != self._pid:
                used = _cpu_of(pid)
                if used is not None:
                    found[pid] = used
        return found

    def _hidden(self) -> int:
        """Processor time that others used in the cut that ends now, ns."""
        before, self._cpu = self._cpu, None
        if before is None:
            return 0
        process, thread, others = before
        hidden = max(time.process_time_ns() - process - (time.thread_time_ns() - thread), 0)
        for pid, used in others.items():
            now = _cpu_of(pid)
            if now is not None:
                hidden += max(now - used, 0)
        return hidden


def _follow_fork(base: TimeBase) -> None:
    from weakref import ref

    known = ref(base)

    def in_child() -> None:
        found = known()
        if found is not None:
            found._after_fork()

    os.register_at_fork(after_in_child=in_child)


def _signed(serial: int) -> int:
    """A 64-bit number as a word of a signed view."""
    return serial - (1 << 64) if serial >> 63 else serial


def _cpu_of(pid: int) -> int | None:
    """Processor time of another process, ns; None when it can't be had."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)  # the clock of a process, as clock_getcpuclockid gives it
    except (OSError, OverflowError):
        return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
