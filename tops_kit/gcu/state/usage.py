"""How much of a device a process uses: SIP time and bytes on the bus, by spans of its session time."""

from __future__ import annotations

import os
import threading
import time

from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import models
from tops_kit.gcu.state.claims import Claim
from tops_kit.gcu.state.shared import Words

HEAT_STEP_NS = 16_000_000  # the heat is not told more often


class Usage:
    """What one process does on a device, as others can see it. Notes need no lock between processes.

    The first one claims the device (StateError where that can't be). On a device that was lost nothing is
    noted.
    """

    __slots__ = ("_claim", "_mutex", "_sips", "_warm")

    def __init__(self, claim: Claim, sips: int) -> None:
        self._claim = claim
        self._sips = sips
        self._mutex = threading.Lock()
        self._warm = 0  # SIP x ns that the heat does not have yet

    def note(self, start_ns: int, end_ns: int, sips_busy: int) -> None:
        """A kernel had so many SIPs from start to end (session ns). Best told in the order of their ends."""
        claim = self._claim
        slot, words = claim.slot, claim.state.words
        if not slot or words[slot] != claim.serial or claim.pid != os.getpid():
            slot, words = self._take()
            if not slot:
                return
        with self._mutex:
            busy = (end_ns - start_ns) * sips_busy
            active = end_ns - max(start_ns, words[slot + at.S_ENDED])
            words[slot + at.S_KERNELS] += 1
            words[slot + at.S_BUSY] += busy
            if active > 0:
                words[slot + at.S_ACTIVE] += active
                words[slot + at.S_ENDED] = end_ns
            else:
                active = 0
            if end_ns >= words[slot + at.S_NOW]:
                words[slot + at.S_NOW] = end_ns
                words[slot + at.S_WALL] = time.monotonic_ns()
            self._warm += busy
            if end_ns - words[slot + at.S_HEAT_AT] > HEAT_STEP_NS:
                self._heat(words, slot, end_ns)
            span = end_ns >> at.BUCKET_SHIFT
            bucket = slot + at.S_BUCKETS + (span % at.BUCKETS) * at.BUCKET_WORDS
            if start_ns >> at.BUCKET_SHIFT == span == words[bucket]:
                words[bucket + at.B_BUSY] += busy
                words[bucket + at.B_ACTIVE] += active
            else:
                _spread(words, slot, start_ns, end_ns, column=at.B_BUSY, amount=busy)
                _spread(words, slot, end_ns - active, end_ns, column=at.B_ACTIVE, amount=active)

    def note_pcie(self, start_ns: int, end_ns: int, *, up_bytes: int = 0, down_bytes: int = 0) -> None:
        """A transfer from start to end (session ns): up is device to host, down is host to device."""
        slot, words = self._take()
        if not slot:
            return
        with self._mutex:
            words[slot + at.S_UP] += up_bytes
            words[slot + at.S_DOWN] += down_bytes
            _tell(words, slot, end_ns)
            span = start_ns >> at.BUCKET_SHIFT
            bucket = slot + at.S_BUCKETS + (span % at.BUCKETS) * at.BUCKET_WORDS
            if start_ns < end_ns and (end_ns - 1) >> at.BUCKET_SHIFT == span == words[bucket]:
                words[bucket + at.B_UP] += up_bytes  # as a rule: within one bucket
                words[bucket + at.B_DOWN] += down_bytes
                return
            if up_bytes:
                _spread(words, slot, start_ns, end_ns, column=at.B_UP, amount=up_bytes)
            if down_bytes:
                _spread(words, slot, start_ns, end_ns, column=at.B_DOWN, amount=down_bytes)

    def freeze(self, now_ns: int) -> None:
        """Session time stands still from now on: a simulation runs."""
        slot, words = self._take()
        if slot:
            _tell(words, slot, now_ns)
            words[slot + at.S_FROZEN] = 1

    def thaw(self) -> None:
        """Session time goes on."""
        slot, words = self._take()
        if slot:
            words[slot + at.S_WALL] = time.monotonic_ns()
            words[slot + at.S_FROZEN] = 0

    def totals(self) -> tuple[int, int, int, int]:
        """Since the claim: kernels, SIP x ns in use, bytes up, bytes down."""
        if not self._claim.held:
            return 0, 0, 0, 0
        words, slot = self._claim.state.words, self._claim.slot
        return tuple(words[slot + at.S_KERNELS + n] for n in range(4))

    def _take(self) -> tuple[int, Words]:
        """The slot, claimed when it is not, and the words. Slot 0: the device was lost."""
        claim = self._claim
        words = claim.state.words
        if claim.slot and words[claim.slot] == claim.serial and claim.pid == os.getpid():
            return claim.slot, words
        if not claim.held:
            if claim.slot:  # a forked child: another thread may have held it
                self._mutex = threading.Lock()
            claim.take()
        elif claim.reset_since:
            return 0, words
        else:
            claim.state.locked(claim.check)
        return claim.slot, claim.state.words

    def _heat(self, words: Words, slot: int, now_ns: int) -> None:
        floats = self._claim.state.floats
        elapsed = now_ns - words[slot + at.S_HEAT_AT]
        floats[slot + at.S_HEAT] = models.warmed(floats[slot + at.S_HEAT], elapsed, self._warm, self._sips)
        words[slot + at.S_HEAT_AT] = now_ns
        self._warm = 0


def _tell(words: Words, slot: int, now_ns: int) -> None:
    """Session time is at least so late, now."""
    if now_ns >= words[slot + at.S_NOW]:
        words[slot + at.S_NOW] = now_ns
        words[slot + at.S_WALL] = time.monotonic_ns()


def _spread(words: Words, slot: int, start_ns: int, end_ns: int, *, column: int, amount: int) -> None:
    """Add an amount to the buckets of an interval, by the time that each has of it."""
    last = max(end_ns - 1, start_ns) >> at.BUCKET_SHIFT
    first = max(start_ns >> at.BUCKET_SHIFT, last - at.BUCKETS + 1)
    length = end_ns - start_ns
    for span in range(first, last + 1):
        bucket = slot + at.S_BUCKETS + (span % at.BUCKETS) * at.BUCKET_WORDS
        held = words[bucket + at.B_SPAN]
        if held > span:  # told too late: too old to be shown
            continue
        if held < span:
            words[bucket + at.B_SPAN] = span
            for other in range(at.B_BUSY, at.BUCKET_WORDS):
                words[bucket + other] = 0
        part = amount
        if length > 0:
            begin, end = max(span << at.BUCKET_SHIFT, start_ns), min((span + 1) << at.BUCKET_SHIFT, end_ns)
            part = amount * (end - begin) // length
        words[bucket + column] += part
