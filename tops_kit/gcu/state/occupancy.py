"""A device's time, shared by the processes that use it: a calendar beside its state.

The device's time is each process's session time and an offset. Processes of one recording have one session
time, and so one offset; others are put beside each other where they first meet, and once more where one of
them is so far behind that what the device did then is forgotten.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tops_kit.gcu.simulation.calendar import Capacity, Use
from tops_kit.gcu.simulation.occupancy import capacity_of
from tops_kit.gcu.specification import Specification
from tops_kit.gcu.state import calendars, claims, slots
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state.claims import Claim
from tops_kit.gcu.state.sips import Sips

R = TypeVar("R")

_LOOK_NS = 10_000_000  # how often is looked whether the others still live


class Base(NamedTuple):
    """A process's session time: which one (0: its own), what it is ahead of a recording's tables, and now."""

    identity: int
    ahead_ns: int
    now_ns: int


class SharedOccupancy:
    """A device, or a slice, as all processes of the machine that use its time see it.

    `sips`: who has its SIPs reserved. `base()` tells which session time this process has. The first
    question claims the device; of one that was lost, this process is alone. May raise StateError.
    """

    __slots__ = (
        "_base", "_claim", "_common", "_counter", "_looked_ns", "_offset_ns", "_sips", "_spec", "_until",
        "order", "slot", "watched",
    )  # fmt: skip

    def __init__(
        self, claim: Claim, spec: Specification, sips: Sips, order: int, base: Callable[[], Base]
    ) -> None:
        self._claim = claim
        self._spec = spec
        self._sips = sips
        self._base = base
        self.order = order
        self.watched = self.slot = 0
        self._counter = ctypes.c_int64()
        self._until = ctypes.c_int64()
        self._offset_ns = 0
        self._common = False  # others may have the same session time
        self._looked_ns = 0

    @property
    def capacity(self) -> Capacity:
        """SIPs, those among them that nobody has alone, and all of the bandwidths."""
        clusters, sips = self._sips.left_of(self._claim.state.words)
        return capacity_of(self._spec, max(clusters * sips, 1))

    @property
    def offset_ns(self) -> int:
        """What the device's time is ahead of this process's session time."""
        return self._offset_ns

    @property
    def shared(self) -> bool:
        """Whether other processes use it, as far as is known without asking."""
        return self.watched != 0 and self._counter.value > 1

    def alone(self, until_ns: int) -> bool:
        """Whether no other process uses the device; this one does, until then, without a reservation."""
        if self.watched and self._counter.value == 1 and self._here:
            # said, and then looked once more: whoever comes sees it, or is seen
            before_ns = self._until.value
            self._until.value = max(before_ns, until_ns)
            if self._counter.value == 1:
                return True
            self._until.value = before_ns
        return self._look(until_ns)

    def renew(self) -> None:
        """This process has another session time from now on."""
        self.watched = self.slot = 0

    def publish(self, uses: Sequence[Use]) -> None:
        """What this process has in flight without reservations: it is not alone any more."""

        def note(known: list[Use], _: int) -> None:
            known += uses

        self.locked(lambda: self.change(0, note))
        self._until.value = 0

    def locked(self, function: Callable[[], R]) -> R:
        """Calls a function while no other process can change what was promised."""
        return self._claim.state.locked(function)

    def change(self, ready_ns: int, function: Callable[[list[Use], int], R]) -> R:
        """Calls `function(uses, ready_ns)`; what it appends to the uses is promised then."""
        claim = self._claim
        if claim.lost and claim.reset_since:
            return function([], ready_ns)  # nothing of it is ours any more: calls say so
        claim.check()
        self._bury()
        words, slot = claim.state.words, claim.slot
        first = claim.state.layout.calendar(claim.share)
        others = [s for s in claim.state.sharers(claim.share) if s != slot]
        if ready_ns:
            ready_ns = self._ready(ready_ns, others, words[first + at.C_FLOOR])
        offset_ns = self._offset_ns
        uses = [_moved(use, -offset_ns) for use in calendars.read(words, first)]
        result = function(uses, ready_ns)
        # nobody asks for a place before these times
        low_ns = min(words[s + at.S_READY] for s in (slot, *others)) - offset_ns
        own = claim.serial
        kept = [
            _moved(use if use.holder else use._replace(holder=own), offset_ns)
            for use in uses
            if use.end_ns > low_ns
        ]
        calendars.write(words, first, kept)
        return result

    def drop(self, begin_ns: int) -> None:
        """What this process has from then on is not needed: it was reset."""
        mine = self._claim.serial

        def cut(uses: list[Use], _: int) -> None:
            kept = [u if u.holder != mine else u._replace(end_ns=min(u.end_ns, begin_ns)) for u in uses]
            uses[:] = [use for use in kept if use.end_ns > use.begin_ns]

        if self.watched and self._here:
            self.locked(lambda: self.change(0, cut))

    # inside

    @property
    def _here(self) -> bool:
        claim = self._claim
        return bool(claim.slot and claim.state.words[claim.slot] == claim.serial)

    def _look(self, until_ns: int) -> bool:
        """The long way to the same answer."""
        claim = self._claim
        if not claim.held:
            claim.take()
        elif claim.lost and claim.reset_since:
            return True  # nothing of it is ours any more: calls say so
        if not self.watched or not self._here:
            claim.state.locked(lambda: self._join(until_ns))
        elif self._counter.value > 1:
            claim.state.locked(self._bury)
        return self._counter.value == 1 and self._until.value >= until_ns

    def _bury(self) -> None:
        """Under the lock: what dead processes had is free, if that was not looked for just now."""
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns > _LOOK_NS:
            self._looked_ns = now_ns
            claims.reap(self._claim.state)

    def _join(self, until_ns: int) -> None:
        """Under the lock: this process uses the device's time from now on."""
        claim = self._claim
        claim.check()
        claims.reap(claim.state)
        state, slot = claim.state, claim.slot
        words = state.words
        others = [s for s in state.sharers(claim.share) if s != slot]
        base = self._base()
        mates = [s for s in others if base.identity and words[s + at.S_BASE] == base.identity]
        if mates:
            offset_ns = words[mates[0] + at.S_OFFSET] + words[mates[0] + at.S_AHEAD] - base.ahead_ns
        elif others:  # beside the one that is the furthest
            wall_ns = time.monotonic_ns()
            latest_ns = max(slots.session_now(words, s, wall_ns) + words[s + at.S_OFFSET] for s in others)
            offset_ns = latest_ns - base.now_ns
        else:
            offset_ns = -base.ahead_ns
            calendar = state.layout.calendar(claim.share)
            words[calendar + at.C_COUNT] = words[calendar + at.C_FLOOR] = 0
        self._offset_ns, self._common = offset_ns, base.identity != 0
        words[slot + at.S_BASE] = base.identity
        words[slot + at.S_AHEAD] = base.ahead_ns
        words[slot + at.S_OFFSET] = offset_ns
        words[slot + at.S_READY] = base.now_ns + offset_ns
        words[slot + at.S_UNTIL] = 0 if others else until_ns
        words[slot + at.S_TIMED] = os.getpid()
        if words[slot + at.S_NOW] < base.now_ns:
            words[slot + at.S_NOW], words[slot + at.S_WALL] = base.now_ns, time.monotonic_ns()
        words[at.H_SHARERS + claim.share] = len(others) + 1
        # as long as anybody has these addresses the file stays mapped
        flat = memoryview(words).cast("B")
        self._counter = ctypes.c_int64.from_buffer(flat, (at.H_SHARERS + claim.share) * at.WORD_BYTES)
        self._until = ctypes.c_int64.from_buffer(flat, (slot + at.S_UNTIL) * at.WORD_BYTES)
        self.watched = ctypes.addressof(self._counter)
        self.slot = ctypes.addressof(self._until) - at.S_UNTIL * at.WORD_BYTES

    def _ready(self, ready_ns: int, others: list[int], floor_ns: int) -> int:
        """From when on room may be looked for: not in what is forgotten, nor in what others have not said."""
        words, slot = self._claim.state.words, self._claim.slot
        behind_ns = floor_ns - (ready_ns + self._offset_ns)
        if behind_ns > 0 and not self._common:
            self._offset_ns += behind_ns
            words[slot + at.S_OFFSET] = self._offset_ns
        ready_ns = max(ready_ns, floor_ns - self._offset_ns)
        words[slot + at.S_READY] = ready_ns + self._offset_ns
        for other in others:
            if words[other + at.S_UNTIL]:
                until_ns = words[other + at.S_UNTIL] + words[other + at.S_OFFSET]
                ready_ns = max(ready_ns, until_ns - self._offset_ns)
        return ready_ns


def _moved(use: Use, by_ns: int) -> Use:
    return Use(use.begin_ns + by_ns, use.end_ns + by_ns, *use[2:])
