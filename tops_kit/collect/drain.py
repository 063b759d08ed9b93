"""The numpy twin of `_drain.c`: the collector's loops over records, ring -> journal -> columns. See
`backend.Loops`.

Release and acquire order are those of plain stores and loads of x86-64 (and of the interpreter's own
locking); there is no time stamp counter, so a session that is collected with the twin uses CLOCK_MONOTONIC.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator

import numpy as np
from topstx.recorder import layout

from tops_kit.collect import journal_format as jf
from tops_kit.collect.arrays import Array, Buffer

RECORD = np.dtype(
    [
        ("begin", "<u8"),
        ("end", "<u8"),
        ("name", "<u4"),
        ("task", "<u4"),
        ("attr", "<u4"),
        ("depth", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)
_ENTRY = struct.Struct(layout.ENTRY_FORMAT)
_HEAD, _TAIL = layout.RING_OFFSET["head"], layout.RING_OFFSET["tail"]
_PAYLOAD_TAGS = {layout.MORE_INT, layout.MORE_FLOAT, layout.MORE_STR, layout.MORE_BYTES, layout.MORE_JSON}


def read_tsc() -> int:
    """Always OSError: Python can't read the time stamp counter."""
    raise OSError("the Python twin can't read the time stamp counter")


def load_u64(buffer: Buffer, offset: int) -> int:
    """The integer at `offset`."""
    return int(struct.unpack_from("<Q", buffer, offset)[0])


def store_u64(buffer: Buffer, offset: int, value: int) -> None:
    """Store an integer at `offset`."""
    memoryview(buffer).cast("B")[offset : offset + 8].cast("Q")[0] = value


def _whole_records(slots: Array, tail: int, take: int, available: int) -> int:
    """How many of `take` slots from `tail` on end with a whole record."""
    mask, end = len(slots) - 1, tail + take
    last = slots[(end - 1) & mask]
    if take < available:
        cut = slots[end & mask]["kind"] == layout.KIND_MORE
    elif last["kind"] == layout.KIND_MORE:
        cut = bool(last["flags"] & layout.MORE_CONTINUES)
    else:
        cut = bool(last["flags"] & layout.FLAG_MORE)
    if not cut:
        return take
    end -= 1
    while end > tail and slots[end & mask]["kind"] == layout.KIND_MORE:
        end -= 1
    return end - tail


def copy(rings: list[Buffer], table: Array, journal: Buffer, start: int, final: bool) -> tuple[int, int]:
    """See `backend.Loops.copy`."""
    room_bytes = memoryview(journal).nbytes - jf.BLOCKS_OFFSET
    used = load_u64(journal, jf.USED_OFFSET)
    copied = 0
    for index in range(start, len(rings)):
        row = table[index]
        if row[jf.RING_BAD]:
            continue
        ring, capacity, tail = rings[index], int(row[jf.RING_CAPACITY]), int(row[jf.RING_TAIL])
        available = load_u64(ring, _HEAD) - tail
        if available == 0:
            continue
        if available < 0 or available > capacity:
            row[jf.RING_BAD] = 1
            continue
        room = max(0, (room_bytes - used - jf.BLOCK_BYTES) // layout.RECORD_BYTES)
        take = min(available, room)
        if take == 0:
            return index, copied
        slots = np.frombuffer(ring, RECORD, capacity, int(row[jf.RING_RECORDS]))
        partial = take < available
        whole = _whole_records(slots, tail, take, available)
        if whole == 0:
            if partial and used:
                return index, copied
            if not partial and not final and available < capacity:
                continue
            whole = take
        elif final and not partial:
            whole = take
        at = tail & (capacity - 1)
        first = min(whole, capacity - at)
        offset = jf.BLOCKS_OFFSET + used
        jf.pack_block(journal, offset, jf.BLOCK_RECORDS, row, first=tail, slots=whole)
        target = np.frombuffer(journal, RECORD, whole, offset + jf.BLOCK_BYTES)
        target[:first] = slots[at : at + first]
        target[first:] = slots[: whole - first]
        threads = target["task"][target["kind"] == layout.KIND_THREAD]
        used += jf.BLOCK_BYTES + whole * layout.RECORD_BYTES
        store_u64(journal, jf.USED_OFFSET, used)
        if len(threads):
            row[jf.RING_TID] = threads[-1]
        row[jf.RING_TAIL] = tail + whole
        struct.pack_into("<I", ring, jf.RING_TAIL_TID, int(row[jf.RING_TID]))
        store_u64(ring, _TAIL, tail + whole)
        copied += whole
        if partial:
            return index, copied
    return len(rings), copied


def to_ns(tick: Array, ticks: Array, ns: Array, slope: Array) -> Array:
    """Ticks (uint64) to ns by a table of pieces; monotone. A tick before the first piece or after the last
    one goes on with its slope.
    """
    signed = tick.view(np.int64) if tick.dtype == np.uint64 else tick.astype(np.int64)
    at = np.clip(np.searchsorted(ticks, signed, side="right") - 1, 0, len(ticks) - 1)
    progress = np.clip((signed - ticks[at]).astype(np.float64) * slope[at], -4e18, 4e18)
    value = ns[at] + progress.astype(np.int64)
    limit = np.append(ns[1:], np.iinfo(np.int64).max)
    result: Array = np.minimum(value, limit[at])
    return result


def split(
    journal: Buffer, blocks: Array, ticks: Array, ns: Array, slope: Array, *columns: Array
) -> tuple[int, int, int, int, int, int, int, int]:
    """See `backend.Loops.split`."""
    begin, duration, name, task, attr, tid, depth, kind, flags, more = columns
    rows = kinds = all_flags = all_task = all_attr = changes = clipped = name_max = 0
    last_tid = int(blocks[0][2]) if len(blocks) else 0
    for offset, slots, first_tid in blocks.tolist():
        records = np.frombuffer(journal, RECORD, slots, offset)
        is_more = records["kind"] == layout.KIND_MORE
        keep = np.flatnonzero(~is_more)
        picked = records[keep]
        to = slice(rows, rows + len(picked))
        threads = picked["kind"] == layout.KIND_THREAD
        # The thread of a row is that of the last THREAD record up to it, else the one that the block began
        # with.
        steps = np.concatenate(([first_tid], picked["task"][threads].astype(np.int64)))
        tid[to] = steps[np.cumsum(threads)]
        changes += int(first_tid != last_tid) + int(np.count_nonzero(np.diff(steps)))
        last_tid = int(steps[-1])
        rows_of_tables = picked["kind"] >= layout.KIND_TABLE_FIRST
        in_session = rows_of_tables & (picked["kind"] < layout.KIND_TICKS_FIRST)  # their times are no ticks
        begin[to] = to_ns(np.ascontiguousarray(picked["begin"]), ticks, ns, slope)
        begin[to][in_session] = picked["begin"][in_session].view(np.int64)
        begin[to][threads & (picked["begin"] == 0)] = 0  # no time was told
        length = to_ns(np.ascontiguousarray(picked["end"]), ticks, ns, slope) - begin[to]
        counters = picked["kind"] == layout.KIND_COUNTER
        length[in_session] = (picked["end"] - picked["begin"])[in_session].view(np.int64)
        length[picked["end"] == picked["begin"]] = 0
        length[counters] = picked["end"][counters].view(np.int64)
        negative = (length < 0) & ~counters
        clipped += int(np.count_nonzero(negative))
        length[negative] = 0
        duration[to] = length
        for column, field in (
            (name, "name"),
            (task, "task"),
            (attr, "attr"),
            (depth, "depth"),
            (kind, "kind"),
            (flags, "flags"),
        ):
            column[to] = picked[field]
        follows = np.append(is_more[1:], False)[keep]
        has_more = ((picked["flags"] & layout.FLAG_MORE) != 0) & follows
        more[to] = np.where(has_more, offset + (keep + 1) * layout.RECORD_BYTES, -1)
        for each in np.unique(picked["kind"]).tolist():
            kinds |= 1 << (each & 63)
        all_flags |= int(np.bitwise_or.reduce(picked["flags"]))
        all_task |= int(np.bitwise_or.reduce(picked["task"][~threads & ~rows_of_tables]))
        all_attr |= int(np.bitwise_or.reduce(picked["attr"][~rows_of_tables]))
        name_max = max(name_max, int(picked["name"].max(initial=0)))
        rows += len(picked)
    return rows, kinds, all_flags, all_task, all_attr, changes, name_max, clipped


def chain(journal: Buffer, at: int) -> bytes:
    """The joined data of the MORE slots that begin at `at`."""
    found = b""
    view = memoryview(journal).cast("B")
    while (
        at >= 0
        and at + layout.RECORD_BYTES <= view.nbytes
        and view[at + layout.MORE_DATA] == layout.KIND_MORE
    ):
        used = view[at + layout.MORE_DATA + 1]
        found += bytes(view[at : at + min(used & 0x7F, layout.MORE_DATA)])
        if not used & layout.MORE_CONTINUES:
            break
        at += layout.RECORD_BYTES
    return found


def _entries(chain: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 3 <= len(chain):
        tag, length = struct.unpack_from("<BH", chain, at)
        body = chain[at + 3 : at + 3 + length]
        yield tag, body
        at += 3 + length


def _payload_json(tag: int, body: bytes, flags: int) -> str | None:
    if tag in {layout.MORE_INT, layout.MORE_FLOAT}:
        if len(body) < 8:
            return None
        if tag == layout.MORE_INT:
            return str(struct.unpack("<q", body[:8])[0])
        value = struct.unpack("<d", body[:8])[0]
        if not math.isfinite(value):
            return json.dumps(str(value))
        return repr(value)
    if tag == layout.MORE_BYTES:
        return json.dumps({"base64": base64.b64encode(body).decode()})
    text = body.decode("utf-8", "replace")
    if tag == layout.MORE_JSON and not flags & layout.FLAG_TRUNCATED:
        return text
    # A cut JSON text is no JSON any more: keep what is there as a string.
    return json.dumps(text, ensure_ascii=False)


def payloads(journal: Buffer, more: Array, flags: Array, offsets: Array, valid: Array) -> bytes:
    """See `backend.Loops.payloads`."""
    parts: list[bytes] = []
    used = 0
    valid[: len(more)] = 0
    for row, at in enumerate(more.tolist()):
        offsets[row] = used
        if at < 0:
            continue
        for tag, body in _entries(chain(journal, at)):
            if tag in _PAYLOAD_TAGS:
                text = _payload_json(tag, body, int(flags[row]))
                if text is not None:
                    parts.append(text.encode("utf-8"))
                    used += len(parts[-1])
                    valid[row] = 1
                break
    offsets[len(more)] = used
    return b"".join(parts)


def entries(data: bytes, id_max: int) -> tuple[int, bool, list[int], list[str], list[tuple[int, int, bytes]]]:
    """See `backend.Loops.entries`."""
    ids: list[int] = []
    texts: list[str] = []
    others: list[tuple[int, int, bytes]] = []
    at = 0
    while at + _ENTRY.size <= len(data):
        size, kind, _, id_, body_bytes = _ENTRY.unpack_from(data, at)
        if size < _ENTRY.size or size % 8 or size > len(data) - at:
            return at, True, ids, texts, others
        if body_bytes > size - _ENTRY.size or id_ > id_max:
            return at, True, ids, texts, others
        body = data[at + _ENTRY.size : at + _ENTRY.size + body_bytes]
        if kind == layout.ENTRY_NAME:
            ids.append(id_)
            texts.append(body.decode("utf-8", "replace"))
        else:
            others.append((kind, id_, body))
        at += size
    return at, False, ids, texts, others


def errors(journal: Buffer, more: Array) -> list[str]:
    """See `backend.Loops.errors`."""
    found = []
    for at in more.tolist():
        body = next((body for tag, body in _entries(chain(journal, at)) if tag == layout.MORE_ERROR), b"")
        found.append(body.decode("utf-8", "replace") or "?")
    return found


def end_threads(journal: Buffer, more: Array, out: Array) -> None:
    """See `backend.Loops.end_threads`."""
    for row, at in enumerate(more.tolist()):
        body = next((body for tag, body in _entries(chain(journal, at)) if tag == layout.MORE_END_TID), b"")
        out[row] = struct.unpack("<I", body[:4])[0] if len(body) >= 4 else -1
