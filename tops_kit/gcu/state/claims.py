"""A user's slot in a device's state: what it has of the device, given back when its process ends or dies."""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from tops_kit.errors import UserError
from tops_kit.gcu.state import calendars, models, processes, slots
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state.layout import Layout
from tops_kit.gcu.state.place import StateError
from tops_kit.gcu.state.processes import Identity
from tops_kit.gcu.state.shared import SharedState, Words


class Holder(NamedTuple):
    """What a process has of a device's memory."""

    pid: int
    command: str
    size_bytes: int


class DeviceLostError(UserError):
    """The device was reset, or divided anew, while this process used it."""


class Claim:
    """What one user (a process, by one device object) has of a device. Nothing is claimed before `take`.

    `share`: 0 for the whole device, n + 1 for slice n.
    """

    __slots__ = (
        "__weakref__", "_finalizer", "_resets", "_slices", "name", "pid", "serial", "share", "slot", "state"
    )  # fmt: skip

    def __init__(self, state: SharedState, share: int, name: str, slices: int) -> None:
        self.state = state
        self.share = share
        self.name = name
        self.slot = 0  # its first word; 0: not claimed
        self.serial = 0
        self._slices = slices
        self.pid = 0
        self._resets = -1
        self._finalizer: weakref.finalize[[SharedState, int, int, int], Claim] | None = None

    @property
    def held(self) -> bool:
        """Whether this process has a slot."""
        return self.slot != 0 and self.pid == os.getpid()

    @property
    def lost(self) -> bool:
        """Whether the slot is gone: the device was reset, or the file rebuilt."""
        return self.held and self.state.words[self.slot] != self.serial

    @property
    def reset_since(self) -> bool:
        """Whether the device was reset since the claim."""
        return bool(self.state.words[at.H_RESETS] != self._resets)

    def take(self) -> None:
        """Claim a slot where there is none yet. Raises DeviceLostError and StateError."""
        if not self.held:
            self.state.attach()
            self.state.locked(self._take)

    def check(self, held: Callable[[], tuple[int, int]] | None = None) -> None:
        """Make sure, under the lock, that the slot is still ours; else claim one for what is held."""
        words = self.state.words
        if words[self.slot] == self.serial:
            return
        if words[at.H_RESETS] != self._resets:
            raise DeviceLostError(
                f"{self.name} was reset while this process used it: what it had there is gone"
            )
        self._take()  # somebody rebuilt the file
        used, blocks = held() if held else (0, 0)
        words[self.slot + at.S_USED], words[self.slot + at.S_BLOCKS] = used, blocks
        words[at.H_USED + self.share] += used

    def release(self) -> None:
        """Give everything back."""
        if self._finalizer is not None:
            self._finalizer()
        self.slot = 0
        self._resets = -1

    def _take(self) -> None:
        state, words = self.state, self.state.words
        if words[at.H_SLICES] != self._slices:
            now = f"{words[at.H_SLICES]} slices" if words[at.H_SLICES] else "one piece"
            raise DeviceLostError(
                f"{self.name} is {now} now: it was divided anew after this process looked at it"
            )
        if 0 <= self._resets != words[at.H_RESETS] and self.pid == os.getpid():
            raise DeviceLostError(
                f"{self.name} was reset while this process used it: what it had there is gone"
            )
        reap(state)
        for index in range(at.SLOTS):
            slot = state.layout.slot(index)
            if not words[slot]:
                break
        else:
            raise StateError(f"{self.name} has {at.SLOTS} users already: end some (efsmi shows them)")
        words[slot : slot + at.SLOT_WORDS] = memoryview(bytes(at.SLOT_WORDS * 8)).cast("q")
        who = processes.own_identity()
        words[slot + at.S_PID], words[slot + at.S_START], words[slot + at.S_NAMESPACE] = who
        words[slot + at.S_USER] = os.geteuid() if hasattr(os, "geteuid") else 0
        words[slot + at.S_SHARE] = self.share
        words[slot + at.S_WALL] = time.monotonic_ns()
        words[slot + at.S_SINCE] = time.time_ns()
        _write_text(words, slot + at.S_COMMAND, processes.command())
        words[at.H_HIGH] = max(words[at.H_HIGH], index + 1)
        self.serial = secrets.randbits(62) | 1
        words[slot] = self.serial  # from here on it is in use
        self.slot, self.pid, self._resets = slot, who.pid, words[at.H_RESETS]
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _release, state, slot, self.serial, who.pid)


def holders(words: Words, layout: Layout, share: int) -> list[Holder]:
    """Which living processes have memory of a share, the largest first."""
    sizes: dict[Identity, int] = {}
    commands: dict[Identity, str] = {}
    for slot in range(layout.slots, layout.slot(words[at.H_HIGH]), at.SLOT_WORDS):
        if words[slot] and words[slot + at.S_SHARE] == share and words[slot + at.S_USED]:
            who = slots.identity(words, slot)
            sizes[who] = sizes.get(who, 0) + words[slot + at.S_USED]
            commands[who] = slots.command(words, slot)
    out = [Holder(who.pid, commands[who], size) for who, size in sizes.items() if processes.alive(who)]
    return sorted(out, key=lambda holder: (-holder.size_bytes, holder.pid))


def reap(state: SharedState) -> int:
    """Take back, under the lock, what dead processes had; how many there were."""
    dead = [slot for slot in state.used_slots() if not processes.alive(slots.identity(state.words, slot))]
    for slot in dead:
        calendar = state.layout.calendar(state.words[slot + at.S_SHARE])
        calendars.forget(state.words, calendar, state.words[slot])
        clear(state, slot)
    state.words[at.H_RECLAIMED] += len(dead)
    return len(dead)


def clear(state: SharedState, slot: int) -> None:
    """Free a slot under the lock: its memory, its SIPs; what it did is added to what others did."""
    words, floats = state.words, state.floats
    share = words[slot + at.S_SHARE]
    mark = (slot - state.layout.slots) // at.SLOT_WORDS + 1
    first = state.layout.owners
    for sip in range(state.layout.sips):
        if words[first + sip] == mark:
            words[first + sip] = 0
            words[at.H_NEWS] += 1
    words[at.H_USED + share] = max(0, words[at.H_USED + share] - words[slot + at.S_USED])
    for total, part in (
        (at.H_KERNELS, at.S_KERNELS),
        (at.H_BUSY, at.S_BUSY),
        (at.H_UP, at.S_UP),
        (at.H_DOWN, at.S_DOWN),
    ):
        words[total] += words[slot + part]
    _leave_heat(words, floats, slot)
    words[slot] = 0
    words[slot + at.S_TIMED] = 0
    words[at.H_SHARERS + share] = len(state.sharers(share))


def _leave_heat(words: Words, floats: Words, slot: int) -> None:
    """The device stays warm when the process that warmed it has ended."""
    now = time.monotonic_ns()
    left = slots.heat(words, floats, slot, now)
    floats[at.H_HEAT] = models.cooled(floats[at.H_HEAT], now - words[at.H_HEAT_AT]) + left
    words[at.H_HEAT_AT] = now


def _release(state: SharedState, slot: int, serial: int, pid: int) -> None:
    if os.getpid() != pid or state.words is None:  # a forked child has nothing to give back
        return

    def give_back() -> None:
        if state.words[slot] == serial:
            clear(state, slot)

    try:
        state.locked(give_back)
    except StateError:
        pass  # whoever looks next takes it back, as from one that was killed


def _write_text(words: Words, first: int, text: str) -> None:
    data = text.encode("utf-8", "replace")[: at.COMMAND_BYTES - 1]
    padded = data.ljust(at.COMMAND_BYTES, b"\0")
    words[first : first + at.COMMAND_BYTES // 8] = memoryview(padded).cast("q")
