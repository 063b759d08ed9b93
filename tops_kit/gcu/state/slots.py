"""Reading a slot of a device's state: whose it is, and what he did lately."""

from __future__ import annotations

from typing import NamedTuple

from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import models
from tops_kit.gcu.state.processes import Identity
from tops_kit.gcu.state.shared import Words

SECOND_NS = 1_000_000_000
_SPAN_NS = 1 << at.BUCKET_SHIFT


def identity(words: Words, slot: int) -> Identity:
    """Whose slot it is."""
    return Identity(words[slot + at.S_PID], words[slot + at.S_START], words[slot + at.S_NAMESPACE])


def command(words: Words, slot: int) -> str:
    """The command of the slot's process."""
    text = bytes(words[slot + at.S_COMMAND : slot + at.S_COMMAND + at.COMMAND_BYTES // 8])
    whole = text.split(b"\0", 1)[0].decode("utf-8", "ignore")  # it may have been cut within a character
    return "".join(c if c.isprintable() else "?" for c in whole)


def session_now(words: Words, slot: int, wall_ns: int) -> int:
    """The process's session time at a moment: it goes on with the wall, unless it stands still."""
    now: int = words[slot + at.S_NOW]
    return now if words[slot + at.S_FROZEN] else now + max(wall_ns - words[slot + at.S_WALL], 0)


class Recent(NamedTuple):
    """What a process did in the last second of its session time."""

    busy_sip_ns: float
    active_ns: float
    up_bytes: float
    down_bytes: float


def last_second(words: Words, slot: int, wall_ns: int) -> Recent:
    """What the slot's process did in the second of session time before a moment."""
    now = session_now(words, slot, wall_ns)
    since = now - SECOND_NS
    sums = [0.0] * 4
    for number in range(at.BUCKETS):
        bucket = slot + at.S_BUCKETS + number * at.BUCKET_WORDS
        begin = words[bucket + at.B_SPAN] << at.BUCKET_SHIFT
        share = min(1.0, (begin + _SPAN_NS - since) / _SPAN_NS) if begin < now else 0.0
        if share > 0:
            for which, column in enumerate((at.B_BUSY, at.B_ACTIVE, at.B_UP, at.B_DOWN)):
                sums[which] += share * words[bucket + column]
    return Recent(*sums)


def heat(words: Words, floats: Words, slot: int, wall_ns: int) -> float:
    """How warm the process keeps the device at a moment (models.py)."""
    return models.cooled(
        floats[slot + at.S_HEAT], session_now(words, slot, wall_ns) - words[slot + at.S_HEAT_AT]
    )
