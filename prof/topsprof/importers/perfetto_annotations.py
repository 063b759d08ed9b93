"""Debug annotations of Perfetto events: typed values by name, and the JSON object of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topsprof.importers.json_columns import floats, joined, quote
from topsprof.importers.wire import LENGTH, Bytes, Int64s, fields, texts

if TYPE_CHECKING:
    from topsprof.importers.perfetto_names import Interned, Pool

NOTHING, INTEGER, UNSIGNED, DOUBLE, BOOLEAN, TEXT, JSON = range(7)
_DEPTH = 16
_SCALARS = ((2, BOOLEAN), (3, UNSIGNED), (4, INTEGER), (5, DOUBLE), (7, UNSIGNED))


@dataclass(frozen=True, slots=True)
class Annotations:
    """One row an annotation: the event (never decreasing), its name's number, its kind and value.

    `bits` are int64 bits of a number or double; `text` is of TEXT and JSON ones, else null.
    """

    event: Int64s
    name: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    bits: Int64s
    text: pa.Array
    unsupported: int = 0
    repaired: int = 0

    def __len__(self) -> int:
        return len(self.event)

    def take(self, index: npt.NDArray[Any]) -> Annotations:
        if len(index) == len(self) and bool((np.diff(index) == 1).all()):
            return self
        text = (
            pa.nulls(len(index), self.text.type)
            if self.text.null_count == len(self.text)
            else self.text.take(pa.array(index))
        )
        return Annotations(self.event[index], self.name[index], self.kind[index], self.bits[index], text)

    def moved(self, event: Int64s) -> Annotations:
        """The same annotations for other events, in their order."""
        if bool((np.diff(event) >= 0).all()):
            return Annotations(event, self.name, self.kind, self.bits, self.text)
        order = np.argsort(event, kind="stable")
        sorted_ = self.take(order)
        return Annotations(event[order], sorted_.name, sorted_.kind, sorted_.bits, sorted_.text)

    @staticmethod
    def empty() -> Annotations:
        none = np.empty(0, np.int64)
        return Annotations(
            none, none.astype(np.int32), none.astype(np.uint8), none, pa.array([], pa.large_string())
        )

    @staticmethod
    def concat(parts: list[Annotations]) -> Annotations:
        parts = [part for part in parts if len(part)] or [Annotations.empty()]
        return Annotations(
            np.concatenate([part.event for part in parts]),
            np.concatenate([part.name for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.bits for part in parts]),
            pa.concat_arrays([part.text for part in parts]),
        )

    def values(self) -> pa.Array:
        """Each value as JSON text."""
        numbers = pc.cast(pa.array(self.bits), pa.large_string())
        out = pc.if_else(
            pa.array(self.kind == TEXT),
            quote(self.text),
            pc.if_else(pa.array(self.kind == JSON), self.text, numbers),
        )
        for kind, make in ((UNSIGNED, _unsigned), (DOUBLE, _double), (BOOLEAN, _boolean)):
            here = self.kind == kind
            if here.any():
                out = pc.replace_with_mask(out, pa.array(here), make(self.bits[here]))
        return pc.if_else(pa.array(self.kind == NOTHING), pa.scalar("null", pa.large_string()), out)

    def objects(self, events: int, pool: Pool) -> pa.Array:
        """For each event the JSON object of its annotations; null for one without."""
        keys = quote(pool.array(self.name).dictionary_decode().cast(pa.large_string()).fill_null(""))
        members = pc.binary_join_element_wise(keys, self.values(), pa.scalar(":", pa.large_string()))
        return joined(self.event, events, members, "{", "}")


def _unsigned(bits: Int64s) -> pa.Array:
    return pc.cast(pa.array(bits.view(np.uint64)), pa.large_string())


def _double(bits: Int64s) -> pa.Array:
    return floats(bits.view(np.float64)).cast(pa.large_string())


def _boolean(bits: Int64s) -> pa.Array:
    return pc.if_else(
        pa.array(bits != 0), pa.scalar("true", pa.large_string()), pa.scalar("false", pa.large_string())
    )


def decode(
    buffer: Bytes,
    event: Int64s,
    starts: Int64s,
    ends: Int64s,
    generation: Int64s,
    *,
    pool: Pool,
    names: Interned,
    strings: Interned,
    depth: int = 0,
) -> Annotations:
    """Read DebugAnnotation messages. `event` and `generation` have one entry a message; see `Annotations`."""
    n = len(starts)
    found = fields(buffer, starts, ends)
    kind, bits = np.zeros(n, np.uint8), np.zeros(n, np.int64)
    name = np.full(n, -1, np.int32)
    unsupported, repaired = 0, found.damaged

    iid, has = found.scalar(n, 1)
    name[has] = names.lookup(generation[has], iid[has])
    start, end, has = found.span(n, 10)
    if has.any():
        inline, bad = texts(buffer, start[has], end[has])
        name[has] = pool.codes(inline)
        repaired += bad
    for number, code in _SCALARS:
        value, has = found.scalar(n, number)
        kind[has] = code
        bits[has] = value[has].view(np.int64)

    parts: list[tuple[Int64s, pa.Array]] = []  # (which rows, their text)
    for number, code in ((6, TEXT), (9, JSON)):
        start, end, has = found.span(n, number)
        if has.any():
            text, bad = texts(buffer, start[has], end[has])
            repaired += bad
            kind[has] = code
            parts.append((np.flatnonzero(has), text))
    iid, has = found.scalar(n, 17)
    if has.any():
        kind[has] = TEXT
        text = (
            pool.array(strings.lookup(generation[has], iid[has]))
            .dictionary_decode()
            .cast(pa.large_string())
            .fill_null("")
        )
        parts.append((np.flatnonzero(has), text))
    for number, opening, closing in ((11, "{", "}"), (12, "[", "]")):
        inner = found.where(number, LENGTH)
        if not len(inner.row):
            continue
        if depth >= _DEPTH:
            unsupported += len(inner.row)
            continue
        child = decode(
            buffer,
            inner.row,
            inner.start,
            inner.end,
            generation[inner.row],
            pool=pool,
            names=names,
            strings=strings,
            depth=depth + 1,
        )
        unsupported += child.unsupported
        repaired += child.repaired
        members = child.values() if number == 12 else None
        text = (
            child.objects(n, pool) if members is None else joined(child.event, n, members, opening, closing)
        )
        rows = np.unique(inner.row)
        kind[rows] = JSON
        parts.append((rows, text.take(pa.array(rows))))
    unsupported += int(
        np.isin(found.field, (8, 14)).sum()
    )  # nested_value of old Chrome, messages of other protos
    return Annotations(event, name, kind, bits, _gathered(n, parts), unsupported, repaired)


def _gathered(n: int, parts: list[tuple[Int64s, pa.Array]]) -> pa.Array:
    """Texts at their rows, null elsewhere."""
    index = np.full(n, -1, np.int64)
    offset = 0
    for rows, text in parts:
        index[rows] = np.arange(len(text)) + offset
        offset += len(text)
    if not parts:
        return pa.nulls(n, pa.large_string())
    return pa.concat_arrays([text for _, text in parts]).take(pa.array(index, mask=index < 0))
