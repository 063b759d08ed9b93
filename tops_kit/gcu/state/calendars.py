"""The calendar of a share of a device in its state: read and written whole, under the lock."""

from __future__ import annotations

import struct

from tops_kit.gcu.simulation.calendar import Use
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state.shared import Words

_ENGINES = ("", "clusters", "cdma_up", "cdma_down", "sdma", "link", "own clusters")
_NUMBERS = {name: number for number, name in enumerate(_ENGINES)}
_ENTRY = struct.Struct("<qqhhiqdddd")  # begin, end, engine, units, nothing, holder, rates
assert _ENTRY.size == at.ENTRY_WORDS * at.WORD_BYTES


def read(words: Words, first: int) -> list[Use]:
    """What was promised, in the device's time; `first` is the calendar's first word."""
    count = min(max(words[first + at.C_COUNT], 0), at.ENTRIES)
    begin = first + at.C_ENTRIES
    data = bytes(words[begin : begin + count * at.ENTRY_WORDS])
    return [
        Use(begin_ns, end_ns, _ENGINES[engine], units, (l3, up, down, link), holder)
        for begin_ns, end_ns, engine, units, _, holder, l3, up, down, link in _ENTRY.iter_unpack(data)
        if 0 <= engine < len(_ENGINES)
    ]


def write(words: Words, first: int, uses: list[Use]) -> None:
    """Keep these. What there is no room for is what ended first; before that, nothing is known any more."""
    if len(uses) > at.ENTRIES:
        uses = _joined(uses)
    if len(uses) > at.ENTRIES:
        uses.sort(key=lambda use: use.end_ns)
        dropped = uses[: len(uses) - at.ENTRIES * 3 // 4]
        uses = uses[len(dropped) :]
        words[first + at.C_FLOOR] = max(words[first + at.C_FLOOR], dropped[-1].end_ns)
    data = b"".join(
        _ENTRY.pack(use.begin_ns, use.end_ns, _NUMBERS[use.engine], use.units, 0, use.holder, *use.rates)
        for use in uses
    )
    begin = first + at.C_ENTRIES
    words[first + at.C_COUNT] = 0  # whoever is killed here leaves an empty one, and none of halves
    words[begin : begin + len(uses) * at.ENTRY_WORDS] = memoryview(data).cast("q")
    words[first + at.C_COUNT] = len(uses)


def forget(words: Words, first: int, holder: int) -> None:
    """What a process that was killed was promised is free again."""
    uses = read(words, first)
    kept = [use for use in uses if use.holder != holder]
    if len(kept) < len(uses):
        write(words, first, kept)


def _joined(uses: list[Use]) -> list[Use]:
    """Of one holder and kind, what follows without a gap is one."""
    out: list[Use] = []
    last: dict[tuple[object, ...], int] = {}
    for use in sorted(uses):
        key = use[2:]
        at_index = last.get(key)
        if at_index is not None and out[at_index].end_ns == use.begin_ns:
            out[at_index] = out[at_index]._replace(end_ns=use.end_ns)
        else:
            last[key] = len(out)
            out.append(use)
    return out
