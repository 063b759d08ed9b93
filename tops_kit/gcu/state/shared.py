"""A device's state file: mapped by every process that uses the device, changed under one lock.

Whoever dies while he changes totals leaves a mark; the next one counts them anew from the slots. So a process
may be killed at any moment.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tops_kit.gcu.specification import Specification
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import lock, processes
from tops_kit.gcu.state.layout import Layout
from tops_kit.gcu.state.place import Place, StateError

T = TypeVar("T")
Words = (
    Any  # a memoryview of signed 64-bit words; its type parameter differs between versions of mypy's stubs
)

_READ_WAIT_S = 1.0
# of a state file that may be anything by now: a pipe would keep us waiting
_SAFELY = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
_TELL_S = 2.0  # then people are told what is waited for
_WAIT_S = 30.0  # others hold the lock for microseconds: a process that has it so long stands still
_POWER_MODES = 2


def state_path(place: Place, index: int, spec: Specification) -> Path:
    """The file of a device: by its number and by what it is, as other configurations have others."""
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in spec.name)[:40]
    return place.folder / f"device{index}-{safe}-{spec.hash}.v{at.VERSION}"


class SharedState:
    """One device's state, as one process sees it. Nothing is opened or created before `attach`.

    `note` is not empty when something about the file has to be told: it was rebuilt, or is not shared.
    """

    def __init__(self, place: Place, index: int, spec: Specification) -> None:
        self.layout = Layout(spec.sips)
        self.path = state_path(place, index, spec)
        self.note = ""
        self.words: Words = None
        self.floats: Words = None
        self._place = place
        self._spec = spec
        self._mutex = threading.Lock()
        self._descriptor = -1
        self._pid = 0

    # reading, without having attached

    def read(self) -> Words | None:
        """A copy of all words; None when there is no state, or none that can be read (`note` says why)."""
        if self.words is not None:
            return self.locked(lambda: memoryview(bytes(self.words)).cast("q"))
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _flags(*_SAFELY))
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            return None
        except OSError as error:
            self.note = f"{self.path} can't be read: {error.strerror}"
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            self.note = f"{self.path} is no regular file, so no state: remove it"
            return None
        try:
            held = lock.lock_within(descriptor, _READ_WAIT_S)
            pid = None if held else lock.holder(descriptor)
            content = _content(descriptor, self.layout.size_bytes + 1)
        finally:
            lock.unlock(descriptor)
            os.close(descriptor)
        if not held:
            holder = "a process that stands still" if pid is None else processes.shown(pid)
            self.note = f"{self.path} is locked by {holder}: read without the lock"
        words = memoryview(content[: len(content) // 8 * 8]).cast("q")
        wrong = self._wrong(words, len(content))
        if wrong == _RESTARTED or not content:  # somebody is just creating it
            return None
        if wrong:
            self.note = (
                f"{self.path} {wrong}: shown as unused; the next program that uses the device rebuilds it"
            )
            return None
        return words

    def look(self, at_words: Callable[[Words], T]) -> T | None:
        """What a function makes of the words, no copy where they are mapped; None when there is no state."""
        if self.words is not None:
            return self.locked(lambda: at_words(self.words))
        words = self.read()
        return None if words is None else at_words(words)

    # changing

    def attach(self, *, shared: bool = False) -> None:
        """Open the state, or create it.

        Where that can't be, a process has state of its own; but StateError for a folder that the user named,
        and where it has to be `shared`.
        """
        if self.words is not None:
            return
        with self._mutex:
            if self.words is not None:
                return
            try:
                self._open()
            except (OSError, StateError) as error:
                self._close_descriptor()
                if self._place.given or shared:
                    raise _line(self.path, error) from None
                self._private(str(_line(self.path, error)))

    def locked(self, change: Callable[[], T]) -> T:
        """Run a change of this file's words while nobody else can; totals are right before it."""
        if os.getpid() != self._pid:
            self._after_fork()
        with self._mutex:
            words = self.words
            try:
                self._lock()
                if words[at.H_MAGIC] != at.MAGIC:  # somebody wrote into it while it was in use
                    self.note = f"{self.path} {self._wrong(words, self.layout.size_bytes)}: {_REBUILT}"
                    self._fresh()
                if words[at.H_DIRTY]:
                    self.count()
                words[at.H_DIRTY] = 1
                result = change()
                words[at.H_DIRTY] = 0
                return result
            finally:
                # also when Ctrl-C came between taking the lock and here
                if self._descriptor >= 0:
                    lock.unlock(self._descriptor)

    def count(self) -> None:
        """Count the totals anew from the slots (under the lock)."""
        words = self.words
        used = [0] * (at.MOST_SLICES + 1)
        for slot in self.used_slots():
            used[min(max(words[slot + at.S_SHARE], 0), at.MOST_SLICES)] += words[slot + at.S_USED]
        for share, size_bytes in enumerate(used):
            words[at.H_USED + share] = size_bytes
            words[at.H_SHARERS + share] = len(self.sharers(share))

    def used_slots(self) -> list[int]:
        """The first words of the slots in use."""
        words, first = self.words, self.layout.slots
        end = first + min(max(words[at.H_HIGH], 0), at.SLOTS) * at.SLOT_WORDS
        return [slot for slot in range(first, end, at.SLOT_WORDS) if words[slot]]

    def sharers(self, share: int) -> list[int]:
        """The first words of the slots of processes that use a share's time."""
        words = self.words
        return [s for s in self.used_slots() if words[s + at.S_SHARE] == share and words[s + at.S_TIMED]]

    def close(self) -> None:
        """Let go of the file. What is in it stays."""
        with self._mutex:
            self.words = self.floats = None
            self._close_descriptor()

    def _open(self) -> None:
        self._place.make()
        flags = os.O_RDWR | os.O_CREAT | _flags(*_SAFELY)
        try:
            self._descriptor = os.open(self.path, flags, 0o600)
            regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        except IsADirectoryError:
            regular = False
        if not regular:
            self._close_descriptor()
            raise StateError(f"{self.path} is no regular file, so no state: remove it")
        self._pid = os.getpid()
        size_bytes = self.layout.size_bytes
        self._lock()
        try:
            found = os.fstat(self._descriptor).st_size
            if found < size_bytes:
                _allocate(self._descriptor, size_bytes)
            mapping = mmap.mmap(self._descriptor, size_bytes)
            self._map(mapping)
            wrong = self._wrong(self.words, found)
            if wrong:
                if found and wrong != _RESTARTED:
                    self.note = f"{self.path} {wrong}: {_REBUILT}"
                self._fresh()
        except BaseException:
            self.words = self.floats = None
            raise
        finally:
            lock.unlock(self._descriptor)

    def _private(self, why: str) -> None:
        """State of this process alone: programs run where nothing can be written."""
        self._pid = os.getpid()
        self._map(mmap.mmap(-1, self.layout.size_bytes))
        self._fresh()
        self.note = f"{why} (until then this process has the devices for itself, and efsmi does not see it)"

    def _map(self, mapping: mmap.mmap) -> None:
        view = memoryview(mapping)
        self.floats = view.cast("d")
        self.words = view.cast("q")

    def _fresh(self) -> None:
        words = self.words
        words[at.H_MAGIC] = 0  # not whole until the end
        memoryview(words).cast("B")[:] = bytes(self.layout.size_bytes)
        words[at.H_VERSION] = at.VERSION
        words[at.H_WORDS] = self.layout.words
        words[at.H_BOOT] = processes.boot()
        words[at.H_SPEC] = spec_number(self._spec)
        words[at.H_CREATED] = time.time_ns()
        words[at.H_ECC] = 1
        words[at.H_MAGIC] = at.MAGIC

    def _wrong(self, words: Words, size_bytes: int) -> str:
        """What is wrong with a file's content; empty when nothing is."""
        if size_bytes < self.layout.size_bytes:
            return f"has {size_bytes} bytes, not {self.layout.size_bytes}"
        if words[at.H_MAGIC] != at.MAGIC:
            return "is not a device state"
        if words[at.H_VERSION] != at.VERSION or words[at.H_WORDS] != self.layout.words:
            return f"is of another version ({words[at.H_VERSION]}, not {at.VERSION})"
        if words[at.H_SPEC] != spec_number(self._spec):
            return "is of another part"
        if words[at.H_BOOT] != processes.boot():
            return _RESTARTED
        used = words[at.H_USED : at.H_USED + at.MOST_SLICES + 1]
        sound = (
            0 <= words[at.H_HIGH] <= at.SLOTS
            and words[at.H_SLICES] in (0, 1, 2, 4)
            and 0 <= words[at.H_POWER_MODE] < _POWER_MODES
            and all(0 <= share <= self._spec.l3_bytes for share in used)
            and all(
                0 <= words[slot + at.S_SHARE] <= at.MOST_SLICES
                and 0 <= words[slot + at.S_USED] <= self._spec.l3_bytes
                for slot in range(self.layout.slots, self.layout.slot(words[at.H_HIGH]), at.SLOT_WORDS)
            )
        )
        return "" if sound else "is damaged"

    def _after_fork(self) -> None:
        """A forked child: an open of its own, or its lock would be its parent's; no other threads."""
        self._mutex = threading.Lock()
        if self._descriptor >= 0:
            inherited = self._descriptor
            # by the descriptor where the system has that: the path may lead to another file by now
            same = Path(f"/proc/self/fd/{inherited}")
            try:
                self._descriptor = os.open(
                    same if same.exists() else self.path, os.O_RDWR | _flags("O_CLOEXEC", "O_BINARY")
                )
            except OSError as error:
                raise _line(self.path, error) from None
            os.close(inherited)
        self._pid = os.getpid()

    def _lock(self) -> None:
        if self._descriptor < 0 or lock.lock_within(self._descriptor, min(_TELL_S, _WAIT_S)):
            return
        if sys.stderr is not None:
            text = f"waiting up to {_WAIT_S:.0f} s for {self._holder()}: it has the lock of {self.path}"
            print(f"tops_kit: {text}", file=sys.stderr)
        if not lock.lock_within(self._descriptor, max(_WAIT_S - _TELL_S, 0.0)):
            raise StateError(
                f"{self.path} is locked for {_WAIT_S:.0f} s by {self._holder()}: continue it (kill -CONT) or "
                "end it"
            )

    def _holder(self) -> str:
        pid = lock.holder(self._descriptor)
        return "a process that stands still" if pid is None else processes.shown(pid)

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


_REBUILT = "the device's state was rebuilt"
_RESTARTED = "is from before the machine's last start"


def spec_number(spec: Specification) -> int:
    """The part's hash as a positive 63-bit number."""
    return int(spec.hash, 16) >> 1


def _flags(*names: str) -> int:
    found = 0
    for name in names:  # some systems lack some
        found |= getattr(os, name, 0)
    return found


def _allocate(descriptor: int, size_bytes: int) -> None:
    """Room for the whole file: a full disk is an error now, and no SIGBUS later."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # not on this file system
                raise
    os.lseek(descriptor, 0, os.SEEK_END)
    missing = size_bytes - os.fstat(descriptor).st_size
    while missing > 0:
        missing -= os.write(descriptor, bytes(min(missing, 1 << 20)))


def _content(descriptor: int, most_bytes: int) -> bytes:
    parts = []
    while most_bytes > 0 and (part := os.read(descriptor, most_bytes)):
        parts.append(part)
        most_bytes -= len(part)
    return b"".join(parts)


def _line(path: Path, error: Exception) -> StateError:
    if isinstance(error, StateError):
        return error
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StateError(f"{path}: {why}: set TOPS_STATE_DIR to a folder that can be written")
