"""Names files: what the ids in a process's records mean.

A session-wide `Texts` gives each distinct text one number; a `ProcessNames` maps the ids of one process to
those numbers, as numpy arrays, so that columns are made by one `take`. After fork the ids below
`parent_count` are the parent's.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from topstx.recorder import layout

from tops_kit.collect.arrays import Array
from tops_kit.collect.backend import Loops, load

FOLDER = "names"
UNKNOWN = "?"
_PARENTS_MAX = 256  # a longer chain of forks is a loop in damaged files


class NamesError(Exception):
    """A names file that is missing or can't be one; the message says why."""


class Texts:
    """Distinct texts of a session, numbered from 0 in order of appearance. Number 0 is the empty text."""

    def __init__(self, loops: Loops | None = None) -> None:
        self.loops = load()[0] if loops is None else loops
        self._numbers: dict[str, int] = {"": 0, UNKNOWN: 1}
        self._list = ["", UNKNOWN]
        self._array: pa.Array | None = None
        self._lock = threading.Lock()

    def number(self, text: str) -> int:
        """The number of a text."""
        return self.numbers([text])[0]

    def numbers(self, texts: list[str]) -> list[int]:
        """The numbers of many texts."""
        with self._lock:
            known, listed = self._numbers, self._list
            result = []
            for text in texts:
                number = known.get(text)
                if number is None:
                    number = known[text] = len(listed)
                    listed.append(text)
                result.append(number)
            return result

    def dictionary(self) -> pa.Array:
        """All texts as an Arrow array."""
        with self._lock:
            known = 0 if self._array is None else len(self._array)
            if known != len(self._list):
                fresh = pa.array(self._list[known:], pa.string())
                self._array = fresh if self._array is None else pa.concat_arrays([self._array, fresh])
            return self._array

    def text(self, number: int) -> str:
        """The text of a number."""
        return self._list[number]

    def column(self, numbers: Array) -> pa.DictionaryArray:
        """Numbers (int32; negative: null) as a column of names."""
        mask = numbers < 0
        indices = pa.array(numbers, pa.int32(), mask=mask if mask.any() else None)
        return pa.DictionaryArray.from_arrays(indices, self.dictionary())


class ProcessNames:
    """The ids of one process. All arrays are indexed by id; negative numbers mean that there is none.

    `text` is the text of a NAME, DOMAIN, CATEGORY or COUNTER entry; `domain`, `category` and `color` are
    those of an ATTR entry, `domain` and `unit` those of a COUNTER entry. `file`, `module` and `line` are
    those of a CODE entry; the three have as many elements as there are up to the last such entry.
    """

    def __init__(self, path: Path, texts: Texts) -> None:
        self.path = path
        self._texts = texts
        self.header: dict[str, Any] = {}
        self.count = 0
        self.text = np.full(64, -1, np.int32)
        self.domain = np.zeros(64, np.int32)
        self.category = np.full(64, -1, np.int32)
        self.unit = np.full(64, -1, np.int32)
        self.color = np.zeros(64, np.uint32)
        self.file = np.full(1, -1, np.int32)
        self.module = np.full(1, -1, np.int32)
        self.line = np.full(1, -1, np.int64)
        self.process: dict[str, str] = {}
        self.threads: dict[int, str] = {}
        self.damaged = False
        self._read = 0
        self._lock = (
            threading.Lock()
        )  # the drain loop reads what a child inherits, the writing thread the rest

    @property
    def serial(self) -> int:
        return int(self.header["process_serial"])

    def open(self, parents: dict[int, ProcessNames]) -> None:
        """Read the header, and after a fork what the parent (one of `parents`, by serial) had. NamesError."""
        self.read_header()
        parent_count = int(self.header["parent_count"])
        if parent_count > layout.NAMES_MAX + 1:
            raise NamesError("its header makes no sense")
        self._grow(max(parent_count, 1))
        self.count = max(parent_count, 1)
        parent = parents.get(int(self.header["parent_serial"]))
        if parent_count and parent is not None:
            parent.refresh()
            known = min(parent_count, parent.count)
            for mine, theirs in zip(self._arrays(), parent._arrays(), strict=True):
                mine[:known] = theirs[:known]
            self.file, self.module, self.line = parent.file.copy(), parent.module.copy(), parent.line.copy()
        self.refresh()

    def _arrays(self) -> tuple[Array, ...]:
        return self.text, self.domain, self.category, self.unit, self.color

    def read_header(self) -> None:
        """Read the header again. NamesError."""
        try:
            with self.path.open("rb") as file:
                data = file.read(layout.NAMES_HEADER_BYTES)
        except OSError as error:
            raise NamesError(
                "is missing" if isinstance(error, FileNotFoundError) else str(error.strerror)
            ) from error
        if len(data) < layout.NAMES_HEADER_BYTES:
            raise NamesError("is too short")
        header = dict(zip(layout.NAMES_FIELDS, struct.unpack(layout.NAMES_FORMAT, data), strict=True))
        if header["magic"] != layout.NAMES_MAGIC:
            raise NamesError("is no names file")
        if header["layout_version"] != layout.LAYOUT_VERSION:
            raise NamesError(
                f"has layout version {header['layout_version']}, this version reads {layout.LAYOUT_VERSION}"
            )
        if self.path.name != layout.names_file_name(header["process_serial"]):
            raise NamesError("has a header that names another process")
        self.header = header

    def refresh(self) -> None:
        """Read the header and the entries committed since the last time. NamesError when the file is gone."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        self.read_header()
        committed = int(self.header["committed_bytes"])
        if committed <= self._read or self.damaged:
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            data = os.pread(descriptor, committed - self._read, layout.NAMES_ENTRIES_OFFSET + self._read)
        finally:
            os.close(descriptor)
        used, damaged, ids, names, others = self._texts.loops.entries(data, layout.NAMES_MAX + 64)
        if ids:
            at = np.array(ids, np.int64)
            self._grow(int(at.max()) + 1)
            self.count = max(self.count, int(at.max()) + 1)
            self.text[at] = self._texts.numbers(names)
        for kind, id_, body in others:
            self._enter(kind, id_, body)
        # Nothing after damage can be trusted; the records keep their times, without names.
        self.damaged = damaged
        self._read += used

    def _grow(self, count: int) -> None:
        if count <= len(self.text):
            return
        size = max(count, 2 * len(self.text))
        extra = size - len(self.text)
        self.text = np.concatenate([self.text, np.full(extra, -1, np.int32)])
        self.domain = np.concatenate([self.domain, np.zeros(extra, np.int32)])
        self.category = np.concatenate([self.category, np.full(extra, -1, np.int32)])
        self.unit = np.concatenate([self.unit, np.full(extra, -1, np.int32)])
        self.color = np.concatenate([self.color, np.zeros(extra, np.uint32)])

    def _enter_code(self, id_: int, body: bytes) -> None:
        if id_ >= len(self.file):
            extra = max(id_ + 1, 2 * len(self.file)) - len(self.file)
            self.file = np.concatenate([self.file, np.full(extra, -1, np.int32)])
            self.module = np.concatenate([self.module, np.full(extra, -1, np.int32)])
            self.line = np.concatenate([self.line, np.full(extra, -1, np.int64)])
        line, length = struct.unpack_from("<II", body)
        if length:
            self.file[id_], self.line[id_] = self._number(body[8 : 8 + length]), line
        if len(body) > 8 + length:
            self.module[id_] = self._number(body[8 + length :])

    def code(self, ids: Array) -> tuple[Array, Array, Array]:
        """(file, module, line) of ids of CODE entries: numbers of texts, and lines; negative: unknown."""
        known = ids < len(self.file)
        at = np.where(known, ids, 0)
        return self.file[at], self.module[at], self.line[at]

    def _enter(self, kind: int, id_: int, body: bytes) -> None:
        self._grow(id_ + 1)
        self.count = max(self.count, id_ + 1)
        if kind == layout.ENTRY_DOMAIN:
            self.text[id_] = self._number(body)
        elif kind == layout.ENTRY_CATEGORY and len(body) >= 8:
            # A category without a name is shown by its number, as the vendor's tools do.
            number = struct.unpack_from("<I", body, 4)[0]
            self.text[id_] = self._number(body[8:]) if len(body) > 8 else self._texts.number(str(number))
        elif kind == layout.ENTRY_ATTR and len(body) >= 12:
            domain, category, color = struct.unpack_from("<III", body)
            self.domain[id_] = self._text_of(domain, 0)
            self.category[id_] = self._text_of(category, -1)
            self.color[id_] = color
        elif kind == layout.ENTRY_COUNTER and len(body) >= 8:
            domain, length = struct.unpack_from("<II", body)
            self.domain[id_] = self._text_of(domain, 0)
            self.text[id_] = self._number(body[8 : 8 + length])
            self.unit[id_] = self._number(body[8 + length :]) if len(body) > 8 + length else -1
        elif kind == layout.ENTRY_CODE and len(body) >= 8:
            self._enter_code(id_, body)
        elif kind == layout.ENTRY_THREAD and len(body) >= 4:
            self.threads[struct.unpack_from("<I", body)[0]] = body[4:].decode("utf-8", "replace")
        elif kind == layout.ENTRY_PROCESS:
            key, _, value = body.partition(b"\0")
            self.process[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")

    def _number(self, body: bytes) -> int:
        return self._texts.number(body.decode("utf-8", "replace"))

    def _text_of(self, id_: int, none: int) -> int:
        if id_ == 0:
            return none
        return int(self.text[id_]) if id_ < self.count and self.text[id_] >= 0 else none

    def take_text(self, ids: Array) -> tuple[Array, int]:
        """(numbers of the texts of these ids, how many ids are unknown). Unknown ones become the text "?"."""
        if self.count == 0 or (len(ids) and int(ids.max()) >= self.count):
            inside = ids < self.count
            numbers = np.where(inside, self.text[np.where(inside, ids, 0)], -1).astype(np.int32)
        else:
            numbers = self.text[ids]
        unknown = numbers < 0
        missing = int(np.count_nonzero(unknown))
        if missing:
            numbers[unknown] = 1
        return numbers, missing

    def clip(self, ids: Array) -> Array:
        """Ids of ATTR entries, with unknown ones made 0 (no attributes)."""
        return np.where(ids < self.count, ids, 0) if len(ids) and int(ids.max()) >= self.count else ids


def missing_names(path: Path, texts: Texts, serial: int, pid: int) -> ProcessNames:
    """Stands for the names of a process whose file is missing or damaged: every id is unknown."""
    names = ProcessNames(path, texts)
    names.header = dict.fromkeys(layout.NAMES_FIELDS, 0) | {"process_serial": serial, "pid": pid}
    names.damaged = True
    names.count = 1
    return names


def fork_order(files: dict[int, ProcessNames]) -> list[ProcessNames]:
    """Files with headers read, parents before children."""
    done: dict[int, ProcessNames] = {}

    def visit(names: ProcessNames, depth: int) -> None:
        if names.serial in done:
            return
        parent = files.get(int(names.header["parent_serial"]))
        if parent is not None and parent is not names and depth < _PARENTS_MAX:
            visit(parent, depth + 1)
        done[names.serial] = names

    for names in files.values():
        visit(names, 0)
    return list(done.values())
