"""Ring files of the Python twin: one `Ring` is one file; a `Writer` is a thread's way to write into its
present ring.

Signal handlers and finalizers may record in the midst of a record. CPython looks for them only after calls
and at backward jumps, so the few lines that take slots and publish them make no call between the two, and a
nested record is whole.
"""

# `pathlib` is too heavy for `import topstx`, and calls spell out what an annotation is made of.
# ruff: noqa: PLR0917

from __future__ import annotations

import time
from struct import Struct

from topstx.recorder import layout

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from typing import TypeAlias

    from topstx.recorder.twin_memory import Cell, Mapping, Memory
    from topstx.recorder.twin_process import Process

    # A range that began: its open slot, its begin, the two last words of its record (without the flags), its
    # domain's name, its flags, its payload as MORE data, the stack that holds it, the writer of its open
    # slot. A plain tuple, as it is made and taken apart for every range.
    Open: TypeAlias = tuple[int, int, int, int, str, int, bytes, "Stack", "Writer"]

_HEADER = Struct(layout.RING_FORMAT)
_RECORD_WORDS = Struct("<4Q")
_pack_record = _RECORD_WORDS.pack_into
_now = time.monotonic_ns
# An open slot is written in parts: the middle, then the payload if there is one, then begin_tick.
_pack_open_middle = Struct("<QIIIIHBB").pack_into
_OPEN_PAYLOAD = Struct("<BB14s")
_PAYLOAD_AFTER_BEGIN = layout.OPEN_OFFSET["payload"] - 8
_MORE = Struct(layout.MORE_FORMAT)
_BODY = Struct("<BH")  # tag and length, before the body of a row
_U64 = 0xFFFFFFFFFFFFFFFF

# Places of header fields in 8-byte words.
HEAD = layout.RING_OFFSET["head"] // 8
DROPPED = layout.RING_OFFSET["dropped"] // 8
BLOCKED = layout.RING_OFFSET["blocked_ns"] // 8
UNBALANCED = layout.RING_OFFSET["unbalanced"] // 8
LAST_TICK = layout.RING_OFFSET["last_tick"] // 8
STATE_AND_TID = layout.RING_OFFSET["state"] // 8
TAIL = layout.RING_OFFSET["tail"] // 8

# Slots kept free for records of signal handlers, which may come between a look for room and the taking of it.
_SPARE = 4
_MIN_RECORDS, _MIN_OPEN = 1024, 64
_GROWTH = 4
_RETRY = 256  # after a thread got no ring, each so many records it tries again
_PAUSE_FIRST_S, _PAUSE_LAST_S = 0.0002, 0.005
_HEARTBEAT_LOST_NS = 1_000_000_000
_KIND_SHIFT, _FLAGS_SHIFT, _DEPTH_SHIFT = 48, 56, 32
_RANGE_BITS, _MARK_BITS = layout.KIND_RANGE << _KIND_SHIFT, layout.KIND_MARK << _KIND_SHIFT
_CALL_BITS, _SKIPPED_BITS = layout.KIND_CALL << _KIND_SHIFT, layout.KIND_CALLS_SKIPPED << _KIND_SHIFT
_COUNTER_BITS = layout.KIND_COUNTER << _KIND_SHIFT

HIDDEN = -1  # a pushed range that is not recorded; it only pairs with its pop
UNLISTED = -2  # a range that found no place in an open table; it is recorded if it ends


class Stack(list):  # type: ignore[type-arg]
    """The open ranges of one context in one thread, innermost last. `hidden` of them are not recorded."""

    __slots__ = ("context", "hidden", "task", "tid")

    def __init__(self, context: int, task: int, tid: int) -> None:
        super().__init__()
        self.context, self.task, self.tid, self.hidden = context, task, tid, 0


class Ring:
    """One ring file: its mapping, where things lie in it, and what its producer knows of it."""

    __slots__ = (
        "capacity",
        "free",
        "head",
        "mapping",
        "open_capacity",
        "open_offset",
        "record_offset",
        "serial",
    )

    def __init__(
        self,
        memory: Memory,
        path: str,
        *,
        process_serial: int,
        serial: int,
        pid: int,
        shared: bool,
        predecessor: int,
        capacity: int,
        open_capacity: int,
    ) -> None:
        """Create the file, in state BUILDING. Raises OSError."""
        self.serial, self.capacity, self.open_capacity = serial, capacity, open_capacity
        self.open_offset = layout.PAGE
        self.record_offset = layout.PAGE + open_capacity * layout.OPEN_BYTES
        size = ring_bytes(capacity, open_capacity)
        self.mapping: Mapping = memory.create_file(path, size)
        _HEADER.pack_into(
            self.mapping.bytes,
            0,
            layout.RING_MAGIC,
            layout.LAYOUT_VERSION,
            layout.CLOCK_MONOTONIC,
            process_serial,
            serial,
            predecessor,
            pid,
            shared,
            self.open_offset,
            open_capacity,
            self.record_offset,
            capacity,
            size,
            *(0,) * 8,
        )
        self.head = 0
        self.free = list(range(open_capacity - 1, -1, -1))

    def announce(self, tid: int, kind: int = layout.KIND_THREAD, state: int = layout.RING_LIVE) -> bool:
        """Say whose the following records are (THREAD), or that its thread ended. False: no room for that."""
        words = self.mapping.words
        if self.head - words[TAIL] >= self.capacity:
            return False
        now = _now()
        place = self.record_offset + (self.head & (self.capacity - 1)) * layout.RECORD_BYTES
        _pack_record(self.mapping.bytes, place, now, now, tid << 32, kind << _KIND_SHIFT)
        self.head += 1
        words[HEAD] = self.head
        words[STATE_AND_TID] = state | tid << 32
        return True

    def set_state(self, state: int) -> None:
        """Store the state, and the producer's id beside it as it is."""
        words = self.mapping.words
        words[STATE_AND_TID] = words[STATE_AND_TID] & ~0xFFFFFFFF | state


def ring_bytes(capacity: int, open_capacity: int) -> int:
    """Size of a ring file with so many record slots and open slots, in whole pages."""
    size = layout.PAGE + open_capacity * layout.OPEN_BYTES + capacity * layout.RECORD_BYTES
    return (size + layout.PAGE - 1) & ~(layout.PAGE - 1)


def first_capacities(file_bytes: int, most_records: int) -> tuple[int, int]:
    """(record slots, open slots) of a ring file of `file_bytes`, and in any case room for the longest
    payload.
    """
    capacity = _MIN_RECORDS
    least = layout.PAGE + _MIN_OPEN * layout.OPEN_BYTES
    while least + 2 * capacity * layout.RECORD_BYTES <= file_bytes and 2 * capacity <= most_records:
        capacity *= 2
    room = file_bytes - layout.PAGE - capacity * layout.RECORD_BYTES
    return capacity, max(room // layout.OPEN_BYTES, _MIN_OPEN)


class Writer:
    """Writes one thread's records (or, under the process's lock, those of the shared ring).

    It gets a ring when it needs one.
    """

    __slots__ = (
        "_open_words",
        "_record_offset",
        "cell",
        "first_context",
        "free",
        "head",
        "limit",
        "lost",
        "mask",
        "moving",
        "process",
        "raw",
        "record_tid",
        "ring",
        "shared",
        "stacks",
        "tid",
        "words",
    )

    def __init__(self, process: Process, tid: int, cell: Cell, *, shared: bool = False) -> None:
        self.process, self.tid, self.cell, self.shared = process, tid, cell, shared
        self.stacks: dict[int, Stack] = {}
        self.first_context = 0
        self.lost = 0  # records lost in a row, as there is no ring
        self.moving = False
        self.record_tid = 0
        self.ring: Ring | None = None
        self.head, self.limit, self.mask = 0, 0, 0
        self.free: list[int] = []
        self.words = self.raw = memoryview(b"")
        self._open_words = self._record_offset = 0

    # -- ranges ---------------------------------------------------------------------------------------------

    def stack(self) -> Stack:
        """The stack of the current context."""
        context = self.cell[0]
        found = self.stacks.get(context)
        return found if found is not None else self._new_stack(context)

    def _new_stack(self, context: int) -> Stack:
        if len(self.stacks) > 1024:
            self.stacks = {key: stack for key, stack in self.stacks.items() if stack}
        if context and not self.process.contexts.entered(context):
            # The thread's own, made when it first used a context variable.
            self.stacks[context] = own = self.stacks.get(0) or self._new_stack(0)
            return own
        if not self.first_context:
            self.first_context = context
        task = 0 if context in (0, self.first_context) else (context >> 4) & 0xFFFFFFFF or 1
        made = self.stacks[context] = Stack(context, task, self.tid)
        return made

    def begin(self, name: int, attr: int, domain: str, flags: int, payload: bytes) -> Open:
        """Open a range in the current context. `payload` is in the form of MORE data."""
        context = self.cell[0]
        stack = self.stacks.get(context)
        if stack is None:
            stack = self._new_stack(context)
        depth = len(stack) - stack.hidden
        if depth > 0xFFFF:  # noqa: PLR1730 - cheaper than min()
            depth = 0xFFFF
        if payload or not self.free:
            opened = self.place(stack, name, attr, depth, domain, flags, payload)
        else:  # place(), spelled out for the usual case
            slot = self.free.pop()
            place = self._open_words + (slot << 3)
            task = stack.task
            _pack_open_middle(
                self.raw, (place << 3) + 8, context, name, attr, stack.tid, task, depth, 1, flags
            )
            self.words[place] = begin = _now()
            tail = attr | depth << 32 | _RANGE_BITS
            opened = (slot, begin, name | task << 32, tail, domain, flags, payload, stack, self)
        stack.append(opened)
        return opened

    def place(
        self, stack: Stack, name: int, attr: int, depth: int, domain: str, flags: int, payload: bytes
    ) -> Open:
        """Note an open range in the open table, where a reader finds it if the process dies."""
        task = stack.task
        if not self.free and not self._more_open_slots():
            slot, begin = UNLISTED, time.monotonic_ns()
        else:
            slot = self.free.pop()
            place = self._open_words + (slot << 3)
            at = (place << 3) + 8
            # The slot's last fields are ours and unused, and its payload is empty unless there is one.
            kind = layout.KIND_RANGE
            _pack_open_middle(self.raw, at, stack.context, name, attr, stack.tid, task, depth, kind, flags)
            if payload:
                _OPEN_PAYLOAD.pack_into(self.raw, at + _PAYLOAD_AFTER_BEGIN, *_payload_begin(payload))
            begin = time.monotonic_ns()
            self.words[place] = begin
        tail = attr | depth << _DEPTH_SHIFT | _RANGE_BITS
        return slot, begin, name | task << 32, tail, domain, flags, payload, stack, self

    def end(self, opened: Open, flags: int, more: bytes) -> None:
        """Record a range that this writer opened and whose stack no longer holds it."""
        now = _now()
        slot, begin, name_task, tail, _, _, payload, _, _ = opened
        if more:
            self.put(begin, now, name_task, tail | flags << _FLAGS_SHIFT, more)
        elif self.head < self.limit or self._room(1):
            head = self.head
            self.head = head + 1
            _pack_record(
                self.raw,
                self._record_offset + ((head & self.mask) << 5),
                begin,
                now,
                name_task,
                tail | flags << _FLAGS_SHIFT,
            )
            self.words[HEAD] = self.head
            self.words[LAST_TICK] = now
        if slot < 0:
            return
        if payload:
            self.release(slot)
        else:
            self.words[self._open_words + (slot << 3)] = 0
            self.free.append(slot)

    def release(self, slot: int) -> None:
        """Free an open slot, after its record is out: a kill in between shows the range twice, not never."""
        if slot >= 0:
            place = self._open_words + (slot << 3)
            self.words[place] = 0
            _OPEN_PAYLOAD.pack_into(self.raw, (place << 3) + 8 + _PAYLOAD_AFTER_BEGIN, 0, 0, b"")
            self.free.append(slot)

    # -- calls ----------------------------------------------------------------------------------------------

    def begin_call(self, name: int, attr: int, task: int, depth: int, flags: int) -> tuple[int, int]:
        """Note a call in the open table: its slot, or UNLISTED, and its begin."""
        if not self.free and not self._more_open_slots():
            return UNLISTED, _now()
        slot = self.free.pop()
        place = self._open_words + (slot << 3)
        _pack_open_middle(
            self.raw, (place << 3) + 8, 0, name, attr, self.tid, task, depth, layout.KIND_CALL, flags
        )
        self.words[place] = begin = _now()
        return slot, begin

    def end_call(self, slot: int, begin: int, name_task: int, tail: int) -> None:
        """Record a call. `tail` is the last word of its record, all but the kind."""
        now = _now()
        if self.head < self.limit or self._room(1):
            self._put_plain(begin, now, name_task, tail | _CALL_BITS)
            self.words[LAST_TICK] = now
        self.forget_call(slot)

    def forget_call(self, slot: int) -> None:
        """Free the slot of a call."""
        if slot >= 0:
            self.words[self._open_words + (slot << 3)] = 0
            self.free.append(slot)

    def skipped_calls(self, begin: int, name: int, attr: int, count: int) -> None:
        """Record that calls of a function were only counted."""
        if self.head < self.limit or self._room(1):
            self._put_plain(begin, _now(), name | count << 32, attr | _SKIPPED_BITS)

    # -- records --------------------------------------------------------------------------------------------

    def put(
        self, begin: int, end: int, name_task: int, tail: int, more: bytes = b"", tick: int | None = None
    ) -> bool:
        """Write a record, with MORE slots when there is `more`. False: dropped and counted.

        `tick` is the present time where `end` isn't on the recording's clock.
        """
        count = 1 + (len(more) + layout.MORE_DATA - 1) // layout.MORE_DATA
        if self.head + count > self.limit and not self._room(count):
            return False
        if more:
            tail |= layout.FLAG_MORE << _FLAGS_SHIFT
        blob = _RECORD_WORDS.pack(begin, end, name_task, tail) + _more_slots(more)
        first = self._record_offset + ((self.head & self.mask) << 5)
        before_wrap = ((self.mask + 1) << 5) - ((self.head & self.mask) << 5)
        raw, front, back = self.raw, blob[:before_wrap], blob[before_wrap:]
        self.head += count
        raw[first : first + len(front)] = front
        if back:
            raw[self._record_offset : self._record_offset + len(back)] = back
        self.words[HEAD] = self.head
        self.words[LAST_TICK] = end if tick is None else tick
        return True

    def row(self, kind: int, begin: int, end: int, name_task: int, body: bytes) -> bool:
        """Write a row of another table. False: dropped and counted."""
        stack = self.stack()
        tail = min(len(stack) - stack.hidden, 0xFFFF) << _DEPTH_SHIFT | kind << _KIND_SHIFT
        if stack and stack[-1][0] != HIDDEN:
            tail |= stack[-1][2] & 0xFFFFFFFF  # the name of the innermost open range
        more = _BODY.pack(layout.MORE_BODY, len(body)) + body
        return self.put(begin & _U64, end & _U64, name_task, tail, more, _now())

    def put_thread(self, tid: int) -> None:
        """Say, in the shared ring, whose the following records are."""
        now = _now()
        if self.put(now, now, tid << 32, layout.KIND_THREAD << _KIND_SHIFT):
            self.record_tid = tid

    def mark(self, name: int, attr: int, payload: bytes, flags: int) -> None:
        stack = self.stack()
        depth = min(len(stack) - stack.hidden, 0xFFFF)
        now = _now()
        tail = attr | depth << _DEPTH_SHIFT | _MARK_BITS | flags << _FLAGS_SHIFT
        if payload:
            self.put(now, now, name | stack.task << 32, tail, payload)
        elif self.head < self.limit or self._room(1):
            self._put_plain(now, now, name | stack.task << 32, tail)

    def sample(self, counter: int, bits: int) -> None:
        """Record a counter's value, as the bits of a double."""
        task = self.stack().task
        if self.head < self.limit or self._room(1):
            self._put_plain(_now(), bits, counter | task << 32, _COUNTER_BITS)

    def _put_plain(self, begin: int, end: int, name_task: int, tail: int) -> None:
        """Write a record without MORE slots, for which there is room."""
        head = self.head
        self.head = head + 1
        _pack_record(self.raw, self._record_offset + ((head & self.mask) << 5), begin, end, name_task, tail)
        self.words[HEAD] = self.head
        self.words[LAST_TICK] = begin

    def unbalanced(self) -> None:
        if self._ready():
            self.words[UNBALANCED] += 1

    # -- room -----------------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        """Whether there is a ring; gets one if need be."""
        if self.ring is not None:
            return True
        if self.moving:
            return False
        if self.lost:
            self.lost += 1
            if self.lost % _RETRY:
                return False
        self.moving = True  # what records meanwhile, nested, is dropped
        try:
            ring = self.process.acquire_ring(self.tid, shared=self.shared, retry=self.lost > 0)
            if ring is None:
                self.lost += 1
                return False
            self.lost = 0
            self.record_tid = self.tid
            self._load(ring)
        finally:
            self.moving = False
        return True

    def _load(self, ring: Ring) -> None:
        self.ring = ring
        self.raw, self.words = ring.mapping.bytes, ring.mapping.words
        self.head, self.mask, self.free = ring.head, ring.capacity - 1, ring.free
        self._open_words = ring.open_offset // 8
        self._record_offset = ring.record_offset
        self.limit = self.words[TAIL] + ring.capacity - _SPARE

    def leave(self, state: int) -> Ring | None:
        """Give up the ring, at the end of the thread (IDLE) or of the recording (RETIRED)."""
        ring = self.ring
        if ring is None:
            return None
        ring.head = self.head
        if state == layout.RING_IDLE:
            ring.announce(self.tid, layout.KIND_THREAD_END, state)
        ring.set_state(state)
        return ring

    def _room(self, count: int) -> bool:
        """Make room for `count` slots: look at the tail, grow, wait or drop, as the policy says."""
        if not self._ready():
            self.process.lost_record()
            return False
        if self._look(count) or self._grow(records=count):
            return True
        if (
            self.process.policy() == layout.POLICY_BLOCK
            and count + _SPARE <= self.mask + 1
            and self._wait(count)
        ):
            return True
        self.words[DROPPED] += 1
        return False

    def _look(self, count: int) -> bool:
        self.limit = self.words[TAIL] + self.mask + 1 - _SPARE
        return self.head + count <= self.limit

    def _wait(self, count: int) -> bool:
        """Wait, with the GIL released, until the collector made room or was not heard of for a second."""
        start = now = time.monotonic_ns()
        pause = _PAUSE_FIRST_S
        try:
            while not self._look(count):
                if now - self.process.heartbeat_ns() > _HEARTBEAT_LOST_NS:
                    return False
                time.sleep(pause)
                pause = min(pause * 2, _PAUSE_LAST_S)
                now = time.monotonic_ns()
        except BaseException:  # a signal handler of the program raised in our sleep
            self.words[DROPPED] += 1
            raise
        finally:
            self.words[BLOCKED] += now - start
        if self._look(count + 1):
            name = self.process.overhead_name()
            self.put(start, now, name, layout.KIND_OVERHEAD << _KIND_SHIFT)
        return self._look(count)

    def _more_open_slots(self) -> bool:
        if not self._ready():
            return False
        return bool(self.free) or self._grow(records=0)

    def _grow(self, *, records: int) -> bool:
        """Move to a ring with more slots for `records`, or (0) more open slots. False: it can't be had."""
        old = self.ring
        if old is None or self.moving:
            return False
        capacity, opens = old.capacity, old.open_capacity
        if not records:
            opens *= 2
        elif capacity * 2 > self.process.ring_max_records:
            return False
        else:
            capacity *= _GROWTH
            while capacity > self.process.ring_max_records:
                capacity //= 2
        self.moving = True
        try:
            # The lock keeps another thread, where a range ends, from clearing a slot while they are copied.
            with self.process.lock:
                new = self.process.new_ring(capacity, opens, predecessor=old.serial, shared=self.shared)
                while new is None and records and capacity > 2 * old.capacity:
                    capacity //= 2
                    new = self.process.new_ring(capacity, opens, predecessor=old.serial, shared=self.shared)
                if new is None:
                    return False
                table = old.open_capacity * layout.OPEN_BYTES
                new.mapping.bytes[layout.PAGE : layout.PAGE + table] = old.mapping.bytes[
                    layout.PAGE : layout.PAGE + table
                ]
                new.free = list(range(opens - 1, old.open_capacity - 1, -1)) + old.free
                new.announce(self.record_tid)  # which makes it LIVE
                self._load(new)
                old.set_state(layout.RING_SUPERSEDED)
                self.process.superseded(old)
        finally:
            self.moving = False
        return True


def _payload_begin(more: bytes) -> tuple[int, int, bytes]:
    """The fields of topstx_open.payload, {tag, bytes, up to 14 bytes}, from {tag, u16 length, bytes}."""
    data = more[3:17]
    return more[0], len(data), data


def _more_slots(more: bytes) -> bytes:
    slots = []
    for begin in range(0, len(more), layout.MORE_DATA):
        data = more[begin : begin + layout.MORE_DATA]
        used = len(data)
        if begin + layout.MORE_DATA < len(more):
            used |= layout.MORE_CONTINUES
        slots.append(_MORE.pack(data, layout.KIND_MORE, used))
    return b"".join(slots)
