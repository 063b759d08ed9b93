"""How much of a device a process uses: SIP time and bytes on the bus, by spans of its session time."""

from __future__ import annotations

import threading
import time

from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import models
from tops_kit.gcu.state.claims import Claim
from tops_kit.gcu.state.shared import Words


class Usage:
    """What one process does on a device, as others can see it. Notes need no lock between processes."""

    def __init__(self, claim: Claim, sips: int) -> None:
        self._claim = claim
        self._sips = sips
        self._mutex = threading.Lock()

    def note(self, start_ns: int, end_ns: int, sips_busy: int) -> None:
        """A kernel had so many SIPs from start to end (session ns)."""
        slot = self._slot()
        words, floats = self._claim.state.words, self._claim.state.floats
        with self._mutex:
            busy = (end_ns - start_ns) * sips_busy
            words[slot + at.S_KERNELS] += 1
            words[slot + at.S_BUSY] += busy
            self._heat(words, floats, slot, end_ns, busy)
            self._tell(words, slot, end_ns)
            _spread(words, slot, start_ns, end_ns, column=at.B_BUSY, amount=busy)

    def note_pcie(self, start_ns: int, end_ns: int, *, up_bytes: int = 0, down_bytes: int = 0) -> None:
        """A transfer from start to end (session ns): up is device to host, down is host to device."""
        slot = self._slot()
        words = self._claim.state.words
        with self._mutex:
            words[slot + at.S_UP] += up_bytes
            words[slot + at.S_DOWN] += down_bytes
            self._tell(words, slot, end_ns)
            if up_bytes:
                _spread(words, slot, start_ns, end_ns, column=at.B_UP, amount=up_bytes)
            if down_bytes:
                _spread(words, slot, start_ns, end_ns, column=at.B_DOWN, amount=down_bytes)

    def freeze(self, now_ns: int) -> None:
        """Session time stands still from now on: a simulation runs."""
        slot = self._slot()
        with self._mutex:
            self._tell(self._claim.state.words, slot, now_ns)
            self._claim.state.words[slot + at.S_FROZEN] = 1

    def thaw(self) -> None:
        """Session time goes on."""
        slot = self._slot()
        words = self._claim.state.words
        with self._mutex:
            words[slot + at.S_WALL] = time.monotonic_ns()
            words[slot + at.S_FROZEN] = 0

    def totals(self) -> tuple[int, int, int, int]:
        """Since the claim: kernels, SIP x ns in use, bytes up, bytes down."""
        if not self._claim.held:
            return 0, 0, 0, 0
        words, slot = self._claim.state.words, self._claim.slot
        return (
            words[slot + at.S_KERNELS],
            words[slot + at.S_BUSY],
            words[slot + at.S_UP],
            words[slot + at.S_DOWN],
        )

    def _slot(self) -> int:
        if not self._claim.held:
            self._claim.take()
        return self._claim.slot

    @staticmethod
    def _tell(words: Words, slot: int, now_ns: int) -> None:
        """Session time is at least so late, now."""
        if now_ns >= words[slot + at.S_NOW]:
            words[slot + at.S_NOW] = now_ns
            words[slot + at.S_WALL] = time.monotonic_ns()

    def _heat(self, words: Words, floats: Words, slot: int, now_ns: int, busy: int) -> None:
        elapsed = max(now_ns - words[slot + at.S_HEAT_AT], 0)
        floats[slot + at.S_HEAT] = models.warmed(floats[slot + at.S_HEAT], elapsed, busy, self._sips)
        words[slot + at.S_HEAT_AT] = max(now_ns, words[slot + at.S_HEAT_AT])


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
            words[bucket + at.B_BUSY] = words[bucket + at.B_UP] = words[bucket + at.B_DOWN] = 0
        part = amount
        if length > 0:
            begin, end = max(span << at.BUCKET_SHIFT, start_ns), min((span + 1) << at.BUCKET_SHIFT, end_ns)
            part = amount * (end - begin) // length
        words[bucket + column] += part
