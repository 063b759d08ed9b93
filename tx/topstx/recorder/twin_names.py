"""The names file of a process, written by the Python twin:

Entries are appended, then `committed_bytes` is stored.
"""

# `pathlib` is too heavy for `import topstx`, and calls spell out what an annotation is made of.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import time
from struct import Struct

from topstx.recorder import layout

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from topstx.recorder.twin_memory import Memory

_FIRST_BYTES = 16 * layout.PAGE
_ENTRY = Struct(layout.ENTRY_FORMAT)
_COMMITTED = layout.NAMES_OFFSET["committed_bytes"] // 8
_NEXT_ID = layout.NAMES_OFFSET["next_id"] // 4
_U32 = Struct("<I")
_2U32 = Struct("<2I")
_3U32 = Struct("<3I")

# Longer texts are cut, as the C recorder cuts them; bytes.
_NAME_BYTES_MAX = 4096
_SHORT_BYTES_MAX = 1024
_COUNTER_BYTES_MAX = 1536
_UNIT_BYTES_MAX = 256
_FILE_BYTES_MAX = 2048
_FACT_BYTES_MAX = 65536


def encoded(text: str) -> bytes:
    """UTF-8; lone surrogates are spelled as escapes."""
    try:
        return str.encode(text)  # whatever a subclass does
    except UnicodeEncodeError:
        return str.encode(text, "utf-8", "backslashreplace")


def fitting(text: str, limit: int) -> bytes:
    """UTF-8 of at most `limit` bytes; a character that the cut would halve goes too."""
    data = encoded(text)
    return data if len(data) <= limit else data[:limit].decode("utf-8", "ignore").encode()


class NamesFile:
    """Appends entries under the caller's lock.

    What can't be written is counted in the header and gets id 1 or 0.
    """

    def __init__(
        self, memory: Memory, folder: str, serial: int, *, parent: NamesFile | None, parent_pid: int
    ) -> None:
        """Create the file. `parent` is the names file of the process that forked this one. Raises OSError."""
        self._memory = memory
        self.path = os.path.join(folder, "names", layout.names_file_name(serial))
        self.serial, self.pid = serial, os.getpid()
        self.parent_count: int = parent.next_id if parent is not None else 0
        self.next_id: int = max(self.parent_count, 1)
        self._used = 0
        self._map = memory.create_file(self.path, _FIRST_BYTES)
        self._ints = self._map.bytes.cast("I")
        self.start_ns = time.monotonic_ns()
        Struct(layout.NAMES_FORMAT).pack_into(
            self._map.bytes,
            0,
            b"",  # the magic comes last: a file without it is none
            layout.LAYOUT_VERSION,
            layout.BACKEND_TWIN,
            serial,
            parent.serial if parent is not None else 0,
            self.parent_count,
            self.pid,
            parent_pid,
            layout.CLOCK_MONOTONIC,
            self.start_ns,
            self.start_ns,
            time.time_ns(),
            _process_start(),
            0,
            self.next_id,
            *bytes(10),
        )
        self._map.words[0] = int.from_bytes(layout.NAMES_MAGIC, "little")
        if parent is None:
            self.add(layout.ENTRY_NAME, b"(too many names)")

    def add(self, kind: int, body: bytes) -> int:
        """Append one entry and return its id, or 0 when the disk is full or the folder gone (counted as
        lost_names).
        """
        size = (layout.ENTRY_BYTES + len(body) + 7) & ~7
        while True:
            used, entry_id = self._used, self.next_id
            begin = layout.NAMES_ENTRIES_OFFSET + used
            if begin + size > self._map.size and not self._grow(begin + size):
                self.count("lost_names")
                return 0
            data = _ENTRY.pack(size, kind, 0, entry_id, len(body)) + body
            end = begin + len(data)
            # Handlers of signals run where a function is called and at a loop's turn: from here on nowhere.
            if self._used == used:
                self._map.bytes[begin:end] = data
                self._used = used + size
                self.next_id = entry_id + 1
                self._map.words[_COMMITTED] = used + size
                self._ints[_NEXT_ID] = entry_id + 1
                return entry_id
            # one ran meanwhile, and added entries of its own

    def name(self, text: str) -> int:
        """Id of a NAME entry for `text`: a new one, or NAME_TOO_MANY past the limit or without room."""
        if self.next_id > layout.NAMES_MAX:
            self.count("too_many")
            return layout.NAME_TOO_MANY
        return self._add_text(layout.ENTRY_NAME, b"", text, _NAME_BYTES_MAX) or layout.NAME_TOO_MANY

    def domain(self, text: str) -> int:
        return self._add_text(layout.ENTRY_DOMAIN, b"", text, _NAME_BYTES_MAX)

    def category(self, domain: int, number: int, text: str) -> int:
        head = _2U32.pack(domain, number & 0xFFFFFFFF)
        return self._add_text(layout.ENTRY_CATEGORY, head, text, _SHORT_BYTES_MAX)

    def attr(self, domain: int, category: int, color: int) -> int:
        return self.add(layout.ENTRY_ATTR, _3U32.pack(domain, category, color))

    def thread(self, tid: int, text: str) -> int:
        return self._add_text(layout.ENTRY_THREAD, _U32.pack(tid & 0xFFFFFFFF), text, _SHORT_BYTES_MAX)

    def counter(self, domain: int, name: str, unit: str) -> int:
        text = fitting(name, _COUNTER_BYTES_MAX)
        cut = len(text) < len(encoded(name))
        head = _2U32.pack(domain, len(text)) + text
        return self._add_text(layout.ENTRY_COUNTER, head, unit, _UNIT_BYTES_MAX, cut=cut)

    def code(self, line: int, file: str, module: str) -> int:
        """Id of a CODE entry: where a function is defined."""
        path = fitting(file, _FILE_BYTES_MAX)
        cut = len(path) < len(encoded(file))
        head = _2U32.pack(line, len(path)) + path
        return self._add_text(layout.ENTRY_CODE, head, module, _SHORT_BYTES_MAX, cut=cut)

    def process(self, key: str, value: str) -> int:
        head = encoded(key) + b"\0"
        return self.add(layout.ENTRY_PROCESS, head + fitting(value, _FACT_BYTES_MAX - len(head)))

    def _add_text(self, kind: int, head: bytes, text: str, limit: int, *, cut: bool = False) -> int:
        """Append an entry that ends in a text; one that had to be `cut` is counted, once."""
        whole = encoded(text)
        kept = whole if len(whole) <= limit else fitting(text, limit)
        number = self.add(kind, head + kept)
        if number and (cut or len(kept) < len(whole)):
            self.count("cut_names")
        return number

    def count(self, field: str, amount: int = 1) -> None:
        """Add to one of the header's counts (32 or 64 bits wide)."""
        offset = layout.NAMES_OFFSET[field]
        if field == "too_many":
            self._ints[offset // 4] += amount
        else:
            self._map.words[offset // 8] += amount

    def set(self, field: str, value: int) -> None:
        """Store one of the header's fields."""
        offset = layout.NAMES_OFFSET[field]
        if field == "end_tick":
            self._map.words[offset // 8] = value
        else:
            self._ints[offset // 4] = value & 0xFFFFFFFF

    def _grow(self, needed: int) -> bool:
        size = self._map.size
        while size < needed:
            size *= 2
        try:
            larger = self._memory.open_file(self.path, size)
        except OSError:
            return False
        if larger.size <= self._map.size:
            return True  # a handler of a signal got there first
        self._map = larger
        self._ints = larger.bytes.cast("I")
        return True


def _process_start() -> int:
    """Field 22 of /proc/self/stat, or 0 where there is none."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib is too heavy for `import topstx`
            # The second field is the command in parentheses and may hold anything.
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
