"""Files by which a sampler hands its samples over: `samples/NUMBER.chunk` of a session that is recorded.

A chunk is what one process's sampler saw in a while. It explains itself: functions, native code and tasks
that its rows and new stacks name are in it. It gets its name when it is whole, so a kill leaves all of it or
nothing. Numbers count up over all processes of a recording. In a file: 8 bytes of magic, the length of the
header (uint32), the header as JSON, then the columns one after another, then new stacks as int32 triples.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

FOLDER: Final = "samples"
SUFFIX: Final = ".chunk"
Kind = Literal["q", "i", "h", "B"]
COLUMNS: Final[dict[str, Kind]] = {
    "time_ns": "q",
    "weight_ns": "q",
    "tid": "i",
    "stack": "i",
    "native": "i",
    "task": "i",
    "holder": "i",
    "syscall": "h",
    "state": "B",
    "wait": "B",
    "flags": "B",
}
"""Columns of a row and their types, as struct names them; see `Batch` of the sampler for what they mean."""
GC, TRUNCATED, HOLDS_GIL, AT_CALL = 1, 2, 4, 8
"""Bits of `flags`, as in the sampler's rows.h."""

_MAGIC: Final = b"TOPSSMP1"
_HEAD: Final = struct.Struct("<8sI")
_MOST_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk. `incarnation` numbers samplers: a process that executes another program gets a new one.

    Facts that name things: codes id -> (name, file, first line), natives id -> text ("": the interpreter
    itself), tasks id -> name, threads tid -> name, system calls number -> name.
    """

    incarnation: int
    pid: int
    proc_start: int
    begin_ns: int
    """CLOCK_MONOTONIC from which on this program can have been the process's; 0: since its begin."""
    period_ns: int
    facts: Mapping[str, Any]
    rows: int
    columns: Mapping[str, bytes]
    first_stack: int
    stacks: bytes
    number: int = 0
    tables: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)


def chunk_path(folder: Path, number: int) -> Path:
    """The file of a chunk of the session in `folder`."""
    return folder / FOLDER / f"{number:012d}{SUFFIX}"


def pending(folder: Path) -> list[int]:
    """Numbers of the chunks that wait to be taken, in order."""
    try:
        with os.scandir(folder / FOLDER) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    found = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
    return sorted(int(name) for name in found if name.isdecimal())


def write(folder: Path, chunk: Chunk) -> int:
    """Hand a chunk over; its size in bytes. Raises OSError."""
    header = {
        "incarnation": chunk.incarnation,
        "pid": chunk.pid,
        "proc_start": chunk.proc_start,
        "begin_ns": chunk.begin_ns,
        "period_ns": chunk.period_ns,
        "rows": chunk.rows,
        "first_stack": chunk.first_stack,
        "facts": dict(chunk.facts),
        "tables": {name: list(table.items()) for name, table in chunk.tables.items()},
    }
    text = json.dumps(header).encode()
    body = [chunk.columns[name] for name in COLUMNS]
    data = b"".join([_HEAD.pack(_MAGIC, len(text)), text, *body, chunk.stacks])
    path = chunk_path(folder, chunk.number)
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(data)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return len(data)


def read(folder: Path, number: int) -> Chunk:
    """A chunk. Raises OSError where it can't be read, ValueError where it is damaged."""
    data = chunk_path(folder, number).read_bytes()
    if len(data) < _HEAD.size or len(data) > _MOST_BYTES:
        raise ValueError("it has no header")
    magic, length = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it is no chunk of samples")
    try:
        header = json.loads(data[_HEAD.size : _HEAD.size + length])
        rows = int(header["rows"])
        at = _HEAD.size + length
        columns: dict[str, bytes] = {}
        for name, kind in COLUMNS.items():
            size = rows * struct.calcsize(kind)
            columns[name] = data[at : at + size]
            if len(columns[name]) != size:
                raise ValueError("it is cut short")
            at += size
        if (len(data) - at) % 12:
            raise ValueError("its stacks are cut short")
        return Chunk(
            incarnation=int(header["incarnation"]),
            pid=int(header["pid"]),
            proc_start=int(header["proc_start"]),
            begin_ns=int(header["begin_ns"]),
            period_ns=int(header["period_ns"]),
            facts=dict(header["facts"]),
            rows=rows,
            columns=columns,
            first_stack=int(header["first_stack"]),
            stacks=data[at:],
            number=number,
            tables={name: _table(items) for name, items in header["tables"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its header is damaged ({error})") from error


def _table(items: Iterable[Any]) -> dict[int, Any]:
    return {int(key): value for key, value in items}
