"""Rows of kinds 16 and up (topstx.recorder.rows): what the runtime recorded, to tables of the session.

Each kind's bodies are gathered into one structured array and become columns from there, without a loop over
rows; only texts that follow a body (specifications, printed lines) are taken one by one, as there are few.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from topstx.recorder import layout, rows

from tops_kit.collect.arrays import Array, Buffer
from tops_kit.collect.names import ProcessNames, Texts

if TYPE_CHECKING:
    from tops_kit.collect.convert import Columns

_HEAD = 3  # tag and length before a body
_DATA = layout.MORE_DATA
_DTYPES = {number: np.dtype(kind.dtype) for number, kind in rows.KINDS.items()}

KINDS = sum(1 << number for number in rows.KINDS)
"""The kinds that are dealt with here, as a set of bits."""

TABLES = tuple(dict.fromkeys(kind.table for kind in rows.KINDS.values() if kind.table != "overhead"))
"""The tables that they go to, those aside that TX has too."""

# Whose memory each of rows.MEMORY_KINDS is.
_OWNERS = ("gcu", "cpu", "cpu", "gcu", "gcu")

_ERRORS = tuple(errno.errorcode.get(number, f"error {number}") if number else "" for number in range(256))

COUNTED = tuple(
    table
    for table in TABLES
    if table not in ("stack", "device", "kernel_line", "kernel_metric", "graph_node", "osrt_short")
)
"""Of these the ones whose rows are records of the program, as the ledger counts them."""


@dataclass(slots=True)
class Bodies:
    """The rows of one kind: the record's columns, and the fields of their bodies."""

    columns: Columns
    body: Array
    shift_ns: int  # session time of the tables less that of the rows
    names: ProcessNames
    texts: Texts
    process_id: int
    process_number: int  # numbers stacks of several processes apart
    trailing: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.body)

    def time(self, name: str) -> Array:
        """A time in the body."""
        times: Array = self.body[name] + self.shift_ns
        return times

    def number(self, name: str, *, none: int | None = None) -> Any:
        """A whole number as int64, `none` as null; one value where all rows have the same."""
        return _numbers(self.body[name].astype(np.int64), none)

    def word(self, name: str, words: Sequence[str]) -> pa.DictionaryArray:
        """What a small number means."""
        numbers = np.array(self.texts.numbers(list(words)), np.int32)
        return self.texts.column(numbers[np.minimum(self.body[name], len(words) - 1)])

    def text(self, ids: Array, *, optional: bool = False) -> pa.DictionaryArray:
        """Texts by name id; with `optional`, 0 is null."""
        numbers, _ = self.names.take_text(ids)
        if optional:
            numbers = np.where(ids == 0, -1, numbers).astype(np.int32)
        return self.texts.column(numbers)

    def stack(self, name: str) -> Any:
        """Ids of stacks, unique in the session; 0 is null."""
        ids = self.body[name].astype(np.int64)
        return _numbers(np.where(ids != 0, ids | self.process_number << 32, 0), 0)


def _numbers(values: Array, none: int | None) -> Any:
    if (values == values[0]).all():
        return None if values[0] == none else int(values[0])
    if none is None:
        return values
    absent = values == none
    return pa.array(values, mask=absent) if absent.any() else values


def gather(journal: Buffer, more: Array, number: int) -> tuple[Array, Array]:
    """(bodies of rows of kind `number` as a structured array, which rows have one). `more` is where their
    MORE slots begin, in bytes, or -1.

    A body that is shorter than the kind's fields ends in zeros; what is longer is left out.
    """
    kind, dtype = rows.KINDS[number], _DTYPES[number]
    slots = kind.ring_slots - 1
    memory = np.frombuffer(journal, np.uint8)
    table = memory[: len(memory) // layout.RECORD_BYTES * layout.RECORD_BYTES].reshape(
        -1, layout.RECORD_BYTES
    )
    at = np.maximum(more, 0) // layout.RECORD_BYTES
    data = np.zeros((len(more), slots * _DATA), np.uint8)
    good = more >= 0
    used = np.ones(len(more), np.int64)
    for slot in range(slots):
        place = np.minimum(at + slot, len(table) - 1)
        part = table[place]
        data[:, slot * _DATA : (slot + 1) * _DATA] = part[:, :_DATA]
        if slot == 0:
            length = part[:, 1].astype(np.int64) | part[:, 2].astype(np.int64) << 8
            good &= (part[:, _DATA] == layout.KIND_MORE) & (part[:, 0] == layout.MORE_BODY)
            used = (length + _HEAD + _DATA - 1) // _DATA
        else:
            good &= (part[:, _DATA] == layout.KIND_MORE) | (used <= slot)
    if len(more):
        short = np.flatnonzero(length < kind.body.size)
        if len(short):
            beyond = np.arange(slots * _DATA) >= (length[short] + _HEAD)[:, None]
            data[short] = np.where(beyond, 0, data[short])
    body = np.ascontiguousarray(data[:, _HEAD : _HEAD + kind.body.size]).view(dtype)[:, 0]
    return body, good


def has_text(number: int) -> bool:
    """Whether text follows the bodies of this kind."""
    return bool(rows.KINDS[number].text)


def trailing(journal: Buffer, more: Array, number: int) -> list[str]:
    """The texts after the bodies."""
    from tops_kit.collect.drain import chain

    size = _HEAD + rows.KINDS[number].body.size
    return [chain(journal, at)[size:].decode("utf-8", "replace") for at in more.tolist()]


# ---- columns of each table ---------------------------------------------------------------------------------


def _place(b: Bodies) -> dict[str, Any]:
    return {
        "device_id": b.number("device_id", none=rows.NONE),
        "context_id": b.number("context_id", none=rows.NONE),
        "stream_id": b.number("stream_id", none=rows.NONE),
    }


def _times(b: Bodies) -> dict[str, Any]:
    return {"queued_ns": b.time("queued_ns"), "submit_ns": b.time("submit_ns")}


def _node(b: Bodies) -> dict[str, Any]:
    return {"graph_id": b.number("graph_id", none=0), "graph_node_id": b.number("graph_node_id", none=0)}


def _api(b: Bodies) -> dict[str, Any]:
    return {
        "thread_id": b.columns.tid,
        "domain": b.word("domain", rows.API_DOMAINS),
        "return_value": b.number("return_value"),
        "device_id": b.number("device_id", none=rows.NONE),
        "stream_id": b.number("stream_id", none=rows.NONE),
        "stack_id": b.stack("stack_id"),
    }


def _kernel(b: Bodies) -> dict[str, Any]:
    sizes = {name: b.number(name) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")}
    return {
        **_place(b),
        **_times(b),
        **_node(b),
        **sizes,
        "full_name": b.text(b.body["full_name"], optional=True),
        "contention_ns": b.number("contention_ns"),
        "metric_id": b.number("metric_id", none=0),
        "grid_id": b.number("grid_id"),
        "clusters": b.number("clusters", none=0),
    }


def _memcpy(b: Bodies) -> dict[str, Any]:
    return {
        **_place(b),
        **_times(b),
        **_node(b),
        "copy_kind": b.word("copy_kind", rows.COPY_KINDS),
        "src_kind": b.word("src_kind", rows.MEMORY_KINDS),
        "dst_kind": b.word("dst_kind", rows.MEMORY_KINDS),
        "size_bytes": b.number("size_bytes"),
        "contention_ns": b.number("contention_ns"),
        "src_device_id": b.number("src_device_id", none=rows.NONE),
        "dst_device_id": b.number("dst_device_id", none=rows.NONE),
    }


def _memset(b: Bodies) -> dict[str, Any]:
    return {
        **_place(b),
        **_times(b),
        **_node(b),
        "memory_kind": b.word("memory_kind", rows.MEMORY_KINDS),
        "size_bytes": b.number("size_bytes"),
        "value": b.number("value"),
        "contention_ns": b.number("contention_ns"),
    }


def _memory(b: Bodies) -> dict[str, Any]:
    size = b.body["size_bytes"].astype(np.int64)
    freed = b.body["operation"] == rows.MEMORY_OPERATIONS.index("free")
    return {
        **_place(b),
        "thread_id": b.columns.tid,
        "device_type": b.word("memory_kind", _OWNERS),
        "address": b.body["address"].astype(np.int64),
        "size_bytes": np.where(freed, -size, size),
        "allocated_bytes": b.number("in_use_bytes"),
        "memory_kind": b.word("memory_kind", rows.MEMORY_KINDS),
        "allocation": b.number("serial"),
        "pool_id": b.number("pool_id", none=0),
        "range": b.text(b.columns.attr, optional=True),
        "place": b.text(b.body["note"], optional=True),
        "stack_id": b.stack("stack_id"),
    }


def _sync(b: Bodies) -> dict[str, Any]:
    return {
        **_place(b),
        "thread_id": b.columns.tid,
        "sync_kind": b.word("sync_kind", rows.SYNC_KINDS),
        "event_id": b.number("event_id", none=0),
    }


def _graph(b: Bodies) -> dict[str, Any]:
    numbers = {name: b.number(name) for name in ("graph_id", "exec_id", "nodes")}
    return {**_place(b), **_times(b), **numbers}


def _counters(b: Bodies) -> dict[str, Any]:
    return {
        "kernel": b.text(b.columns.name),
        "metric_id": b.number("metric_id", none=0),
        "counter": b.text(b.body["counter"]),
        "value": b.body["value"].astype(np.float64),
    }


def _kernel_line(b: Bodies) -> dict[str, Any]:
    return {**_counters(b), "file": b.text(b.body["file"], optional=True), "line": b.number("line")}


def _gcu_event(b: Bodies) -> dict[str, Any]:
    return {**_place(b), "event_id": b.number("event_id")}


def _external(b: Bodies) -> dict[str, Any]:
    return {
        "thread_id": b.columns.tid,
        "external_kind": b.number("external_kind"),
        "external_id": b.number("external_id"),
    }


def _overhead(b: Bodies) -> dict[str, Any]:
    notes = b.body["note"]
    out: dict[str, Any] = {"thread_id": b.columns.tid}
    if notes.any():
        texts = b.text(notes, optional=True).dictionary_decode().to_pylist()
        out["args"] = [None if text is None else json.dumps({"note": text}) for text in texts]
    return out


def of_tools(columns: dict[str, Any]) -> Array:
    """Which rows of table overhead are time of tools: compiling is there without any, too."""
    return np.array([name != "compile" for name in columns["name"].to_pylist()], bool)


def of_saving(columns: dict[str, Any]) -> Array:
    """Which rows of table overhead are time within a cut, in which launches were saved."""
    return np.array([name == "save launch" for name in columns["name"].to_pylist()], bool)


def _stack(b: Bodies) -> dict[str, Any]:
    return {
        "stack_id": b.stack("stack_id"),
        "parent_id": b.stack("parent_id"),
        "name": b.text(b.columns.name),
        "file": b.text(b.body["file"], optional=True),
        "line": b.number("line"),
    }


def _stream_race(b: Bodies) -> dict[str, Any]:
    return {
        "device_id": b.number("device_id", none=rows.NONE),
        "second": b.text(b.body["second"]),
        "second_correlation_id": b.number("second_correlation_id", none=0),
        "address": b.body["address"].astype(np.int64),
        "size_bytes": b.number("size_bytes"),
        "first_stack": b.text(b.body["first_stack"], optional=True),
        "second_stack": b.text(b.body["second_stack"], optional=True),
    }


def _device(b: Bodies) -> dict[str, Any]:
    return {
        "device_id": b.number("device_id"),
        "name": b.text(b.columns.name),
        "kind": "gcu",
        "properties": [text or None for text in b.trailing],
        "part": b.text(b.body["spec_name"], optional=True),
        "specification_hash": b.text(b.body["spec_hash"], optional=True),
        "cost_model": b.number("cost_model"),
        "slice": b.text(b.body["slice_name"], optional=True),
    }


def _print(b: Bodies) -> dict[str, Any]:
    return {
        "device_id": b.number("device_id", none=rows.NONE),
        "stream_id": b.number("stream_id", none=rows.NONE),
        "text": list(b.trailing),
        "block": b.number("block", none=rows.NONE),
        "thread": b.number("thread", none=rows.NONE),
    }


def _host_function(b: Bodies) -> dict[str, Any]:
    return {**_place(b), **_node(b)}


def _graph_node(b: Bodies) -> dict[str, Any]:
    return {
        "graph_id": b.number("graph_id"),
        "exec_id": b.number("exec_id"),
        "graph_node_id": b.number("graph_node_id"),
        "node_kind": b.text(b.body["node_kind"]),
        "name": b.text(b.columns.name),
        "device_id": b.number("device_id", none=rows.NONE),
        "after": [text or "[]" for text in b.trailing],
    }


def _osrt(b: Bodies) -> dict[str, Any]:
    return {
        "thread_id": b.columns.tid,
        "size_bytes": b.number("size_bytes", none=rows.NONE),
        "target": b.text(b.body["target"], optional=True),
        "return_value": b.number("return_value"),
        "fd": b.number("fd", none=rows.NONE),
        "error": b.word("error", _ERRORS),
    }


def _osrt_short(b: Bodies) -> dict[str, Any]:
    numbers = {name: b.number(name) for name in ("calls", "total_ns", "size_bytes")}
    return {"name": b.text(b.columns.name), **numbers}


def _pymem(b: Bodies) -> dict[str, Any]:
    return {
        "thread_id": b.columns.tid,
        "allocation": b.number("serial"),
        "size_bytes": b.number("size_bytes"),
        "weight_bytes": b.body["weight_bytes"].astype(np.float64),
        "heap_bytes": b.number("heap_bytes"),
        "allocator": b.word("allocator", rows.MEMORY_DOMAINS),
        "stack_id": b.stack("stack_id"),
        "range": b.text(b.columns.attr, optional=True),
    }


def heap(columns: dict[str, Any]) -> dict[str, Any]:
    """The counter that rows of table pymem are: what is in use after each of them."""
    values = columns["heap_bytes"]
    return {
        "start_ns": columns["start_ns"],
        "process_id": columns["process_id"],
        "name": "Python heap (estimate)",
        "unit": "bytes",
        "domain": "",
        "value": float(values) if isinstance(values, int) else values.astype(np.float64),
    }


_COLUMNS: dict[int, Callable[[Bodies], dict[str, Any]]] = {
    rows.KIND_API: _api,
    rows.KIND_DRIVER_API: _api,
    rows.KIND_KERNEL: _kernel,
    rows.KIND_MEMCPY: _memcpy,
    rows.KIND_MEMSET: _memset,
    rows.KIND_MEMORY: _memory,
    rows.KIND_SYNC: _sync,
    rows.KIND_GRAPH: _graph,
    rows.KIND_KERNEL_LINE: _kernel_line,
    rows.KIND_KERNEL_METRIC: _counters,
    rows.KIND_GCU_EVENT: _gcu_event,
    rows.KIND_EXTERNAL: _external,
    rows.KIND_RUNTIME_OVERHEAD: _overhead,
    rows.KIND_BACKTRACE: _stack,
    rows.KIND_STREAM_RACE: _stream_race,
    rows.KIND_DEVICE: _device,
    rows.KIND_PRINT: _print,
    rows.KIND_HOST_FUNCTION: _host_function,
    rows.KIND_GRAPH_NODE: _graph_node,
    rows.KIND_OSRT: _osrt,
    rows.KIND_OSRT_SHORT: _osrt_short,
    rows.KIND_PYMEM: _pymem,
}
_TIMELESS = frozenset({"kernel_line", "kernel_metric", "stack", "device", "graph_node", "osrt_short"})
_NAMELESS = frozenset(
    {"kernel_line", "kernel_metric", "stack", "device", "gcu_event", "external", "graph_node"}
)
_UNCALLED = frozenset(  # not caused by a call
    {"stack", "device", "graph_node", "osrt", "osrt_short", "pymem"}
)


def table_of(number: int, b: Bodies) -> tuple[str, dict[str, Any], int]:
    """(table, its columns, rows) for bodies of one kind; columns that are null in all rows are missing."""
    kind = rows.KINDS[number]
    out: dict[str, Any] = {"process_id": b.process_id} if kind.table != "stack" else {}
    if kind.table not in _TIMELESS:
        out["start_ns"] = b.columns.begin + b.shift_ns
        if not kind.instant:
            out["duration_ns"] = b.columns.duration
    if kind.table not in _NAMELESS:
        out["name"] = b.text(b.columns.name)
    if kind.table not in _UNCALLED:
        out["correlation_id"] = _numbers(b.columns.task.astype(np.int64), 0)
    out |= _COLUMNS[number](b)
    return kind.table, {name: column for name, column in out.items() if column is not None}, len(b)


@dataclass(slots=True)
class Devices:
    """What session.json says of the devices: specifications and hashes, once each."""

    known: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    changed: bool = False

    def see(self, columns: dict[str, Any], count: int) -> None:
        """Take up rows of table device."""
        values = {
            name: column.to_pylist() if hasattr(column, "to_pylist") else column
            for name, column in columns.items()
        }
        for row in range(count):
            one = {
                name: value[row] if isinstance(value, list) else int(value[row])
                if isinstance(value, np.ndarray) else value
                for name, value in values.items()
            }  # fmt: skip
            text = one.pop("properties", None)
            try:
                one["specification"] = json.loads(str(text)) if text else None
            except ValueError:
                one["specification"] = None
            self.known[one["process_id"], one["device_id"]] = one
            self.changed = True

    def to_json(self) -> list[dict[str, Any]]:
        return list(self.known.values())

    def from_json(self, values: object) -> None:
        """Go on with what an earlier collector kept; what makes no sense is left out."""
        for one in values if isinstance(values, list) else []:
            if isinstance(one, dict) and {"process_id", "device_id"} <= set(one):
                self.known[one["process_id"], one["device_id"]] = one
