"""How rows become Chrome trace events that PyTorch's tools, Perfetto and our importer understand: categories
and args.

Columns that Kineto has a word for are written with it; the others are args of their own names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.schema import Column, Table
from topsprof.exporters import assemble as asm
from topsprof.exporters.timeline import Part
from topsprof.importers.device_names import item_bytes
from topsprof.importers.json_columns import floats, quote
from topsprof.importers.kineto_tables import table_of

Mask = npt.NDArray[np.bool_]

_QUEUE: Final = {
    "device_id": "device",
    "context_id": "context",
    "stream_id": "stream",
    "correlation_id": "correlation",
    "external_id": "External id",
}

# Table -> column -> Kineto's name of it
WORDS: Final[dict[str, dict[str, str]]] = {
    "op": {
        "external_id": "External id",
        "shapes": "Input Dims",
        "types": "Input type",
        "module": "Module Hierarchy",
        "stack": "Call stack",
        "sequence_number": "Sequence number",
        "forward_thread_id": "Fwd thread id",
    },
    "api": {
        "correlation_id": "correlation",
        "return_value": "return value",
        "device_id": "device",
        "stream_id": "stream",
        "external_id": "External id",
    },
    "kernel": _QUEUE
    | {
        "registers": "registers per thread",
        "shared_bytes": "shared memory",
        "occupancy": "est. achieved occupancy %",
        "graph_node_id": "graph node id",
        "collective": "Collective name",
        "group": "Process Group Name",
    },
    "memcpy": _QUEUE | {"copy_kind": "kind", "size_bytes": "bytes", "graph_node_id": "graph node id"},
    "memset": _QUEUE | {"size_bytes": "bytes", "value": "value", "graph_node_id": "graph node id"},
    "sync": _QUEUE | {"sync_kind": "cuda_sync_kind"},
    "graph": _QUEUE | {"graph_id": "graph id"},
    "memory": {
        "device_id": "Device Id",
        "address": "Addr",
        "size_bytes": "Bytes",
        "allocated_bytes": "Total Allocated",
        "reserved_bytes": "Total Reserved",
    },
}

# Columns that the event itself states, or its category or name
SAID: Final[dict[str, frozenset[str]]] = {
    "op": frozenset({"scope"}),
    "api": frozenset({"domain"}),
    "kernel": frozenset({"full_name", "collective_bytes"}),
    "step": frozenset({"step"}),
    "tx": frozenset({"domain", "style", "task_id"}),
    "python": frozenset({"file", "line"}),
}
_OWN: Final = frozenset({"start_ns", "duration_ns", "name", "args", "process_id", "thread_id"})
_RAW: Final = frozenset({("op", "shapes"), ("op", "types"), ("tx", "payload")})  # JSON already
_CATEGORIES: Final = {
    "op": "cpu_op",
    "api": "cuda_runtime",
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "graph": "cuda_graph",
    "step": "user_annotation",
    "python": "python_function",
    "overhead": "overhead",
    "osrt": "osrt",
    "memory": "cpu_instant_event",
}


def categories(part: Part) -> pa.Array | str | None:
    """The category of each row, or of all; None for none."""
    name = part.table.name
    if name == "tx":
        return _renamed(
            part.array("domain"),
            lambda word: "user_annotation" if table_of(word) not in (None, "tx") else word or None,
        )
    if name == "op":
        return _renamed(
            part.array("scope"), lambda word: word if word and table_of(word) == "op" else "cpu_op", "cpu_op"
        )
    if name == "api":
        return _renamed(
            part.array("domain"),
            lambda word: "cuda_driver" if word == "driver" else "cuda_runtime",
            "cuda_runtime",
        )
    return _CATEGORIES.get(name, name)


def names(part: Part) -> pa.Array:
    """The name of each event."""
    name = part.array("name")
    kind = part.table.name
    if kind == "kernel":
        return _either(part.array("full_name"), name)
    if kind == "memory":
        return pa.array(["[memory]"]).dictionary_encode().take(pa.array(np.zeros(len(name), np.int32)))
    if kind == "step" and part.array("step").null_count < len(name):
        numbered = pc.binary_join_element_wise("ProfilerStep", pc.cast(part.array("step"), pa.string()), "#")
        return _either(numbered.dictionary_encode(), name)
    if kind == "python" and part.array("file").null_count < len(name):
        # PyTorch's spelling of a function: file(line): name
        place = pc.binary_join_element_wise(
            pc.cast(part.array("file"), pa.string()), "(", pc.cast(part.array("line"), pa.string()), "): ", ""
        )
        text = pc.cast(name, pa.string())
        return pc.coalesce(pc.binary_join_element_wise(place, text, ""), text).dictionary_encode()
    return name


def _either(first: pa.DictionaryArray, second: pa.DictionaryArray) -> pa.DictionaryArray:
    if not first.null_count:
        return first
    return pc.coalesce(pc.cast(first, pa.string()), pc.cast(second, pa.string())).dictionary_encode()


def _renamed(
    column: pa.DictionaryArray, rename: Callable[[str], str | None], default: str | None = None
) -> pa.DictionaryArray:
    """A name column by new names of its distinct values; `default` for null."""
    words = [rename(word) if word is not None else default for word in column.dictionary.to_pylist()] + [
        default
    ]
    index = column.indices.fill_null(len(words) - 1)
    text = pa.array(words, pa.string())
    if text.null_count:
        return text.take(index).dictionary_encode()
    return pa.DictionaryArray.from_arrays(index.cast(pa.int32()), text)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the args of rows: how its value is written, with the key before it."""

    piece: asm.Piece
    present: Mask | None  # None: in all rows


def quoted(array: pa.Array) -> pa.Array:
    """Strings as JSON; of a dictionary array only the distinct ones are touched."""
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(array.indices, quote(array.dictionary.cast(pa.large_string())))
    return quote(array.cast(pa.large_string()))


def args(part: Part, more: list[Member]) -> list[asm.Piece]:
    """The pieces of `"args":{...}`: the row's columns, `more`, and what its own args are."""
    return _object(
        [member for column in part.table.columns if (member := _member(part, column)) is not None]
        + _triples(part)
        + _message(part)
        + more
        + _rest(part)
    )


def _member(part: Part, column: Column) -> Member | None:
    """A column as a member; None where it is not one, or nowhere known."""
    name = part.table.name
    if (
        column.name in _OWN
        or column.name in SAID.get(name, frozenset())
        or column.name[:-2] in ("grid", "block")
    ):
        return None
    array = part.array(column.name)
    if array.null_count == len(array):
        return None
    key = f'"{WORDS.get(name, {}).get(column.name, column.name)}":'.encode()
    return _value(array, column, key, raw=(name, column.name) in _RAW)


def _value(array: pa.Array, column: Column, key: bytes, raw: bool) -> Member:
    present = np.asarray(array.is_valid()) if array.null_count else None
    if column.type in ("name", "text"):
        text = array
        if raw:
            plain = array.dictionary if isinstance(array, pa.DictionaryArray) else array
            text = array if pc.all(pc.match_substring_regex(plain, _JSON)).as_py() else quoted(array)
        else:
            text = quoted(array)
        return Member(asm.text(text, asm.BYTES, key), present)
    if column.type == "float64":
        return Member(asm.text(floats(array), asm.BYTES, key), present)
    if column.type == "bool":
        words = pc.if_else(array, "true", "false")
        return Member(asm.text(words, asm.BYTES, key), present)
    values = np.asarray(array.fill_null(0) if array.null_count else array)
    return Member(asm.number(asm.INTEGER, values, key, present=present), present)


_JSON: Final = r'^\s*(?:[\[{"].*|-?[0-9][0-9.eE+-]*|true|false|null)\s*$'


def _triples(part: Part) -> list[Member]:
    """Grid and block as Kineto's arrays of three."""
    out = []
    for kind in ("grid", "block") if part.table.name == "kernel" else ():
        axes = [part.array(f"{kind}_{axis}") for axis in "xyz"]
        present = np.asarray(pc.and_(pc.and_(axes[0].is_valid(), axes[1].is_valid()), axes[2].is_valid()))
        if not present.any():
            continue
        texts = [pc.cast(axis, pa.string()) for axis in axes]
        joined = pc.binary_join_element_wise(*texts, ",")
        out.append(
            Member(
                asm.text(joined.dictionary_encode(), asm.BYTES, f'"{kind}":['.encode(), b"]"),
                None if present.all() else present,
            )
        )
    return out


def _message(part: Part) -> list[Member]:
    """The size of a collective's message: Kineto counts elements of a type, which args may still name."""
    size = (
        part.array("collective_bytes")
        if part.table.name == "kernel"
        else pa.nulls(len(part.start_ns), pa.int64())
    )
    if size.null_count == len(size):
        return []
    found = (
        pc.extract_regex(part.array("args"), r'"dtype":"(?P<dtype>[^"\\]*)"')
        .field("dtype")
        .dictionary_encode()
    )
    items = pa.array([item_bytes(word) for word in found.dictionary.to_pylist()], pa.int64()).take(
        found.indices
    )
    present = np.asarray(size.is_valid())
    untyped = present & np.asarray(found.is_null())
    elements = np.asarray(size.fill_null(0)) // np.asarray(items.fill_null(1))
    return [
        Member(
            asm.number(asm.INTEGER, elements, b'"In msg nelems":', present=present),
            None if present.all() else present,
        ),
        Member(asm.constant(b'"dtype":"Byte"', untyped), untyped),
    ]


def _rest(part: Part) -> list[Member]:
    """The members of the args column."""
    array = part.array("args")
    if array.null_count == len(array):
        return []
    inner = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(array), 1, -1))
    inner = pc.if_else(pc.not_equal(inner, ""), inner, pa.scalar(None, inner.type))
    return [Member(asm.text(inner), np.asarray(inner.is_valid()))]


def _object(members: list[Member]) -> list[asm.Piece]:
    """Members in braces, with commas where one came before in the same row."""
    pieces = [asm.constant(b',"args":{')]
    before: Mask | None = None  # rows that have a member by now
    everywhere = False  # all of them do
    for member in members:
        if everywhere:
            pieces.append(asm.constant(b",", member.present))
        elif before is not None:
            pieces.append(asm.constant(b",", before if member.present is None else before & member.present))
        pieces.append(member.piece)
        if member.present is None:
            everywhere = True
        else:
            before = member.present if before is None else before | member.present
    return [*pieces, asm.constant(b"}")]


def known_columns(table: Table) -> frozenset[str]:
    """Columns that come back into their place through the importer."""
    return (
        frozenset(WORDS.get(table.name, {}))
        | SAID.get(table.name, frozenset())
        | {"start_ns", "duration_ns", "name"}
    )
