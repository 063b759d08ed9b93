"""The recording of one process by the Python twin:

Control, names, rings, threads. A fork child gets an object of its own.
"""

# `pathlib` is too heavy for `import topstx`, and calls spell out what an annotation is made of.
# ruff: noqa: PTH110, PTH118

from __future__ import annotations

import _thread
import os
import time
from itertools import count
from struct import Struct

from topstx.recorder import layout, twin_values, values
from topstx.recorder.twin_memory import ContextFinder, Memory
from topstx.recorder.twin_names import NamesFile
from topstx.recorder.twin_ring import Ring, Stack, Writer, first_capacities, ring_bytes

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from topstx.recorder.twin_memory import Mapping
    from topstx.recorder.twin_ring import Open

_CONTROL = layout.CONTROL_OFFSET
_U32 = Struct("<I")
_COLLECTOR_GONE_NS = 10_000_000_000  # without a heartbeat for so long nobody will take records again
EXCLUDED = -1  # attr of a domain that the tool filtered out

_ERROR, _MORE_END_TID = layout.FLAG_ERROR, layout.MORE_END_TID


class Process:
    """What one process writes into one session. Raises OSError or ValueError from its constructor alone."""

    def __init__(self, folder: str, *, memory: Memory | None = None, parent: Process | None = None) -> None:
        """Attach to the session in `folder`;

        `parent` is the recording of the process that forked this one.
        """
        self.folder = folder
        self.memory = memory if memory is not None else Memory()
        self.lock, self.shared_lock = _thread.RLock(), _thread.RLock()
        self.contexts: ContextFinder = (
            parent.contexts if parent is not None else ContextFinder(self.memory.native)
        )
        self._control = self._open_control()
        self._ints = self._control.bytes.cast("I")
        # The one switch that every call reads: item 0 of a view of its four bytes.
        start = _CONTROL["recording"]
        self.recording = self._control.bytes[start : start + 4].cast("I")
        control = dict(
            zip(
                layout.CONTROL_FIELDS,
                Struct(layout.CONTROL_FORMAT).unpack_from(self._control.bytes),
                strict=True,
            )
        )
        self._initial_bytes: int = control["ring_initial_bytes"]
        self.ring_max_records: int = control["ring_max_records"]
        self._max_bytes: int = control["process_max_bytes"]
        self._capture_end: int = control["capture_end"]
        self._capture_repeats: int = control["capture_repeats"]
        self._capture_name = _c_text(control["capture_name"])
        self._capture_domain = _c_text(control["capture_domain"])
        self._include = _listed(control["domain_include"])
        self._exclude = _listed(control["domain_exclude"])
        self.serial = int.from_bytes(os.urandom(8), "little") or 1
        try:
            self.names_file: NamesFile = NamesFile(
                self.memory,
                folder,
                self.serial,
                parent=parent.names_file if parent is not None else None,
                parent_pid=os.getppid(),
            )
            self._check_owner()
        except OSError:
            if parent is None:
                self.lose_process()
            raise
        # Ids are good in a fork child as well: its file goes on where the parent's stopped. What the parent
        # had in memory is the child's own by now.
        self.names: dict[object, int] = parent.names if parent is not None else {}
        self.attrs: dict[object, int] = parent.attrs if parent is not None else {}
        self._domains: dict[str, int] = parent._domains if parent is not None else {}
        self._entries: dict[tuple[object, ...], int] = parent._entries if parent is not None else {}
        self.default_attr = 0 if self.allowed("") else EXCLUDED
        self.closed = False
        self.local = _thread._local()
        self.live_words: list[memoryview] = []  # of all rings but superseded ones
        self._idle: list[Ring] = []
        self._superseded: list[tuple[str, int]] = []
        self._ring_total = 0
        self._ring_serials = count(1)
        self._writers: set[Writer] = set()
        self.shared = Writer(self, 0, (0,), shared=True)
        # Numbers run on in a fork child, so that the parent's are unknown there and end nothing.
        self._first_start: int = parent._next_start if parent is not None else 1
        self._next_start: int = self._first_start
        self.starts: dict[int, Open] = {}

    def _open_control(self) -> Mapping:
        mapping = self.memory.open_file(
            os.path.join(self.folder, "control"), layout.CONTROL_BYTES, allocate=False
        )
        magic = bytes(mapping.bytes[:8])
        version = mapping.bytes[8:12].cast("I")[0]
        if magic != layout.CONTROL_MAGIC or version != layout.LAYOUT_VERSION:
            raise ValueError("not the control file of a recording, or of another version")
        return mapping

    def _check_owner(self) -> None:
        """Raise OSError where the collector can't read what this process makes: it runs as the owner of the
        session, who is another user than a program's under sudo.

        Then the rings would fill, and it would wait for ever. The uid of a process says nothing where a file
        system gives all files to one user.
        """
        owner = os.stat(os.path.join(self.folder, "control")).st_uid  # noqa: PTH116
        if owner not in (0, os.stat(self.names_file.path).st_uid):  # noqa: PTH116
            os.unlink(self.names_file.path)  # noqa: PTH108
            raise PermissionError("the session is another user's")

    def lose_process(self) -> None:
        """Count a fork child that could not make its files; nothing else tells the collector of it."""
        self._ints[_CONTROL["lost_processes"] // 4] += 1

    # -- facts of the control file --------------------------------------------------------------------------

    def policy(self) -> int:
        """What to do when a ring is full and can't grow; a tool may change it at any time."""
        return self._ints[_CONTROL["policy"] // 4]

    def heartbeat_ns(self) -> int:
        """Time of the collector's last sign of life; this process's start counts as one."""
        beat: int = self._control.words[_CONTROL["heartbeat_ns"] // 8]
        return max(beat, self.names_file.start_ns)

    def allowed(self, domain: str) -> bool:
        name = domain or "default"
        return name not in self._exclude and (not self._include or name in self._include)

    def wants_row(self, kind: int) -> bool:
        """Whether rows of this kind of table are to be recorded, while recording is on."""
        kind &= ~layout.ROW_LATE
        off: int = self._control.words[_CONTROL["rows_off"] // 8]
        return layout.KIND_TABLE_FIRST <= kind < 64 and not off >> kind & 1

    def begins_capture(self, message: object, domain: str) -> bool:
        """Switch recording on when it is armed and this range is the one that it waits for."""
        if self.recording[0] != layout.RECORDING_ARMED or not self._capture_name:
            return False
        if twin_values.text(message) != self._capture_name or domain != self._capture_domain:
            return False
        if self._ints[_CONTROL["capture_skip"] // 4]:
            self._ints[_CONTROL["capture_skip"] // 4] -= 1
            return False
        self.recording[0] = layout.RECORDING_ON
        return True

    def end_capture(self) -> None:
        """The captured range ended: do what the control file says."""
        if self._capture_end == layout.CAPTURE_END_NONE:
            self._captured()
            return
        more = self._captured()
        self.recording[0] = layout.RECORDING_ARMED if more else layout.RECORDING_OFF

    def profiler_start(self) -> None:
        """See `interface.Backend`."""
        beat = self._control.words[_CONTROL["heartbeat_ns"] // 8]
        if (
            self.recording[0] == layout.RECORDING_OFF
            and not self._capture_name
            and not self._ints[_CONTROL["shutdown_request"] // 4]
            and self._captures_left(self._ints[_CONTROL["capture_count"] // 4])
            and (not beat or time.monotonic_ns() - beat <= _COLLECTOR_GONE_NS)
        ):
            self.recording[0] = layout.RECORDING_ON

    def profiler_stop(self) -> None:
        """See `interface.Backend`."""
        if self.recording[0] == layout.RECORDING_ON and not self._capture_name:
            self.recording[0] = layout.RECORDING_OFF
            self._captured()

    def _captures_left(self, done: int) -> bool:
        """Whether another capture may begin."""
        if self._capture_end == layout.CAPTURE_END_REPEAT:
            return not self._capture_repeats or done < self._capture_repeats
        return self._capture_end == layout.CAPTURE_END_NONE or not done

    def _captured(self) -> bool:
        """Count a capture, and ask for the session's end where that is wanted. Whether another may come."""
        done = self._ints[_CONTROL["capture_count"] // 4] + 1
        self._ints[_CONTROL["capture_count"] // 4] = done
        if self._capture_end == layout.CAPTURE_END_STOP_SHUTDOWN:
            self._ints[_CONTROL["shutdown_request"] // 4] = 1
        return self._captures_left(done)

    # -- names ----------------------------------------------------------------------------------------------

    def name(self, message: object) -> int:
        """Id of a message that is not in `names` yet."""
        text = twin_values.text(message)
        with self.lock:
            found = self.names.get(text)
            if found is None:
                found = self.names_file.name(text)
                if found != layout.NAME_TOO_MANY:
                    self.names[text] = found
        return found

    def attr(self, domain: str, category: object, color: object) -> int:
        """Id of an ATTR entry, 0 for nothing special, EXCLUDED when the domain is filtered out."""
        if not self.allowed(domain):
            return EXCLUDED
        shade = values.color_argb(color) if color is not None else 0
        with self.lock:
            domain_id = self._domain(domain)
            category_id = self._category(domain_id, domain, category) if category is not None else 0
            if not (domain_id or category_id or shade):
                return 0
            key = ("attr", domain_id, category_id, shade)
            found = self._entries.get(key)
            if found is None:
                found = self._entries[key] = self.names_file.attr(domain_id, category_id, shade)
        return found

    def _domain(self, name: str) -> int:
        if not name:
            return 0
        found = self._domains.get(name)
        if found is None:
            found = self._domains[name] = self.names_file.domain(name)
        return found

    def _category(self, domain_id: int, domain: str, category: object) -> int:
        if isinstance(category, int):
            number = twin_values.integer(category)
            text = categories_of(domain).name(number)
        else:
            text = twin_values.text(category)
            number = categories_of(domain).number(text)
        key = ("category", domain_id, number, text)
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = self.names_file.category(domain_id, number, text)
        return found

    def counter(self, domain: str, name: str, unit: str) -> int:
        """Id of a COUNTER entry."""
        with self.lock:
            key = ("counter", domain, name, unit)
            found = self._entries.get(key)
            if found is None:
                found = self.names_file.counter(self._domain(domain), name, unit)
                self._entries[key] = found
        return found

    def code(self, line: int, file: str, module: str) -> int:
        """Id of a CODE entry; 0 when it can't be written."""
        with self.lock:
            key = ("code", line, file, module)
            found = self._entries.get(key)
            if found is None:
                found = self._entries[key] = self.names_file.code(line, file, module)
        return found

    def overhead_name(self) -> int:
        return self.names.get("waiting for room in the ring") or self.name("waiting for room in the ring")

    def lost_record(self) -> None:
        with self.lock:
            self.names_file.count("lost_records")

    def count_bad(self, field: str) -> None:
        """Count a call that had nothing to record."""
        with self.lock:
            self.names_file.count(field)

    # -- rings ----------------------------------------------------------------------------------------------

    def new_ring(self, capacity: int, open_capacity: int, *, predecessor: int, shared: bool) -> Ring | None:
        """A new ring file, or None:

        The process has as many bytes as it may, or the file can't be had. Under `lock`.
        """
        size = ring_bytes(capacity, open_capacity)
        if self._ring_total + size > self._max_bytes:
            self._forget_superseded()
            if self._ring_total + size > self._max_bytes:
                return None
        serial = next(self._ring_serials)
        try:
            ring = Ring(
                self.memory,
                self._ring_path(serial),
                process_serial=self.serial,
                serial=serial,
                pid=os.getpid(),
                shared=shared,
                predecessor=predecessor,
                capacity=capacity,
                open_capacity=open_capacity,
            )
        except OSError:
            return None
        self._ring_total += size
        self.live_words.append(ring.mapping.words)
        return ring

    def acquire_ring(self, tid: int, *, shared: bool, retry: bool) -> Ring | None:
        """A ring for a thread: an idle one with room, or a new one. None: lost, and counted."""
        with self.lock:
            if self.closed:
                return None
            for index in range(0 if shared else len(self._idle)):
                if self._idle[index].announce(tid):
                    return self._idle.pop(index)
            capacity, opens = first_capacities(self._initial_bytes, self.ring_max_records)
            ring = self.new_ring(capacity, opens, predecessor=0, shared=shared)
            if ring is not None:
                ring.announce(tid)
            elif not retry:
                self.names_file.count("lost_threads")
            return ring

    def superseded(self, ring: Ring) -> None:
        """`ring` was moved to a larger one; the collector deletes its file. Under `lock`."""
        self.live_words[:] = [words for words in self.live_words if words is not ring.mapping.words]
        self._superseded.append((self._ring_path(ring.serial), ring.mapping.size))

    def _forget_superseded(self) -> None:
        left = []
        for path, size in self._superseded:
            if os.path.exists(path):
                left.append((path, size))
            else:
                self._ring_total -= size
        self._superseded = left

    def _ring_path(self, serial: int) -> str:
        return os.path.join(self.folder, "rings", layout.ring_file_name(self.serial, serial))

    # -- threads --------------------------------------------------------------------------------------------

    def new_writer(self) -> Writer:
        """The writer of the calling thread, which has none yet."""
        writer = Writer(self, _thread.get_native_id(), self.contexts.for_this_thread())
        self.local.writer = writer
        self.local.guard = _ThreadEnd(writer)
        self._writers.add(writer)
        return writer

    def thread_ended(self, writer: Writer) -> None:
        self._writers.discard(writer)
        if self.closed or self.pid_changed():
            return
        ring = writer.leave(layout.RING_IDLE)
        if ring is not None:
            self._idle.append(ring)

    def pid_changed(self) -> bool:
        """True in a fork child, where this object is the parent's."""
        return self.names_file.pid != os.getpid()

    # -- ranges across threads ------------------------------------------------------------------------------

    def start(self, name: int, attr: int, domain: str, flags: int, payload: bytes) -> int:
        """Begin a range that any thread may end; returns its number."""
        writer = getattr(self.local, "writer", None) or self.new_writer()
        task, tid = writer.stack().task, writer.tid
        with self.shared_lock:
            shared = self.shared
            if shared.ring is None:
                shared.tid = tid
            opened = shared.place(
                Stack(0, task, tid), name, attr, 0, domain, flags | layout.FLAG_START_END, payload
            )
            number = self._next_start
            self._next_start = number + 1
            self.starts[number] = opened
        return number

    def end_start(self, number: int) -> None:
        """End a range by its number. One of the process that forked this one belongs to that process."""
        with self.shared_lock:
            opened = self.starts.pop(number, None)
            if opened is None:
                known = 0 < number < self._first_start  # to the process that forked this one
                if not known and self.recording[0] == layout.RECORDING_ON:
                    self.shared.unbalanced()
                return
            self._put_shared(opened, opened[5] & ~layout.FLAG_CAPTURE, opened[6])
            self.shared.release(opened[0])
        if opened[5] & layout.FLAG_CAPTURE:
            self.end_capture()

    def end_elsewhere(self, opened: Open, flags: int, more: bytes) -> None:
        """Record, in the shared ring, a range that another thread began; its open slot is that thread's."""
        with self.shared_lock:
            self._put_shared(opened, flags, more)
            with self.lock:
                opened[8].release(opened[0])

    def _put_shared(self, opened: Open, flags: int, more: bytes) -> None:
        now = time.monotonic_ns()
        shared, stack = self.shared, opened[7]
        if shared.record_tid != stack.tid:
            shared.tid = stack.tid
            shared.put_thread(stack.tid)
        tid = _thread.get_native_id()
        if tid != stack.tid:
            more += twin_values.tagged(_MORE_END_TID, _U32.pack(tid))
        shared.put(opened[1], now, opened[2], opened[3] | flags << 56, more)

    def note_exit(self, known: int, status: int) -> None:
        """Store what is known of the process's end, and when it was."""
        with self.lock:
            self.names_file.set("exit_status", status)
            self.names_file.set("end_tick", time.monotonic_ns() if known else 0)
            self.names_file.set("exit_known", known)

    # -- end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the session in order. Open ranges stay open."""
        # A thread that waits for room may hold a lock; the end of a program does not wait for it.
        held = [lock for lock in (self.shared_lock, self.lock) if lock.acquire(timeout=1)]
        try:
            if self.closed:
                return
            self.closed = True
            for writer in (*self._writers, self.shared):
                writer.leave(layout.RING_RETIRED)
            for ring in self._idle:
                ring.set_state(layout.RING_RETIRED)
            self.names_file.set("end_tick", time.monotonic_ns())
        finally:
            for lock in held:
                lock.release()


class _ThreadEnd:
    """Lives in a thread's locals alone, so it goes when the thread ends."""

    __slots__ = ("writer",)

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __del__(self) -> None:
        self.writer.process.thread_ended(self.writer)


class Categories:
    """Numbers of a domain's categories: 1, 2, ... in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._numbers) + 1
            self._names[found] = name
        return found

    def name(self, number: int) -> str:
        return self._names.get(number, "")


_categories: dict[str, Categories] = {}


def categories_of(domain: str) -> Categories:
    """The categories of a domain.

    Numbers that a program got stay good over a change of session, hence they live here.
    """
    found = _categories.get(domain)
    if found is None:
        found = _categories[domain] = Categories()
    return found


def _c_text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _listed(data: bytes) -> frozenset[str]:
    return frozenset(
        name.decode("utf-8", "replace") for name in data.partition(b"\0\0")[0].split(b"\0") if name
    )
