"""Which allocations a session knows: what it was told of, and their frees, whenever they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from topstx.recorder import layout, rows

from tops_kit.runtime import activity as acts

if TYPE_CHECKING:
    from topstx.recorder.rows import RowWriter

_KIND: Final = rows.KINDS[rows.KIND_MEMORY]


class ToldMemory:
    """Allocations that were told to a session. Their frees belong to it, too: without them memory that was
    freed while recording was off would look like a leak.
    """

    def __init__(self, writer: RowWriter, shift_ns: int) -> None:
        """`shift_ns`: of the process's time, against the session's."""
        self._writer = writer
        self._shift_ns = shift_ns
        self._held: set[tuple[int, int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._held)

    def note(self, told: acts.MemoryActivity) -> None:
        """An allocation or a free. A free in a break, of memory that the session knows, gets its row here."""
        key = (told.memory_kind, told.context_id, told.serial)
        on = self._writer.wanted(_KIND.number)
        if told.operation == acts.MEMORY_ALLOC:
            if on:
                self._held.add(key)
            return
        if key not in self._held:
            return
        self._held.discard(key)
        if on:
            return
        now_ns = told.end_ns - self._shift_ns
        note = self._writer.intern(told.note) if told.note else 0
        body = _KIND.body.pack(
            told.address, told.size_bytes, told.in_use_bytes, told.serial, told.pool_id, told.stream_id,
            told.context_id, told.device_id, 0, note, told.operation, told.memory_kind,
        )  # fmt: skip
        name = rows.MEMORY_OPERATIONS[told.operation]
        self._writer.write(_KIND.number | layout.ROW_LATE, now_ns, now_ns, name, body, told.correlation_id)
