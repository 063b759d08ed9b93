"""Transfers (timing_transfers.c in Python): their order, what they wait for, how fast they flow."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Callable

from tops_kit.engine.timing_parameters import Parameters
from tops_kit.engine.timing_twin import state
from tops_kit.engine.timing_twin.shares import Shares, route_of
from tops_kit.engine.timing_twin.state import NO_KEY, Event, Sip, Slot, Tally, Transfer, Use

_CLOSE = 1.0 / 1024.0  # a transfer is complete when what is left would take less of a cycle
_BLOCK_CHANNEL = 255
_LAST = 0xFFFFFFFF  # the event of a tile of atomics: comes after all others

# the SIP, when, what it waited for, which instruction did that; until when that waited for a unit
Wake = Callable[[Sip, int, int, int, Use | None], None]


class Transfers:
    """All that are under way, and what is to happen at which time."""

    def __init__(self, p: Parameters, tally: Tally, wake: Wake) -> None:
        self.p, self.tally, self._wake = p, tally, wake
        self.now = 0
        self.shares = Shares(p)
        # time, SIP, event, serial number; the transfer that begins to flow, or the slot whose block has ended
        self.heap: list[tuple[int, int, int, int, Transfer | Slot]] = []
        self._serial = 0
        self._active: list[Transfer] = []
        self._shared_at = 0
        self._changed = False
        self.next_done: int | None = None

    def appoint(self, time: int, sip: int, event: int, what: Transfer | Slot) -> None:
        """Something for a time. At the same time: by SIP, and within one by the transfer's event."""
        self._serial += 1
        heapq.heappush(self.heap, (time, sip, event, self._serial, what))

    def next_time(self) -> int | None:
        """When something happens next."""
        times = [self.heap[0][0]] if self.heap else []
        return min(times if self.next_done is None else [*times, self.next_done], default=None)

    def channel(self, number: int) -> int:
        """The SIP's channel for that of an instruction."""
        if number == _BLOCK_CHANNEL:
            return self.p.channels
        return number % (1 << (self.p.channels.bit_length() - 1))

    def issue(self, s: Sip, e: Event) -> bool:
        """False: the channel has no room."""
        channel = self.channel(e.channel)
        if s.held[channel] >= self.p.channel_depth:
            return False
        latency, route = self.p.latency[max(e.source, e.to)], route_of(e.source, e.to, False)
        x = Transfer(s.t, s.t, e.size, e.pc, e.event, s, latency, route, channel, e.source, e.to)
        _take_turn(x)
        _wait_for_slots(x, e)
        last = s.last[channel]
        if last is not None:
            last.next = x
            x.waits += 1
        first = s.pending.get(e.after) if e.after else None
        if first is not None:
            first.dependents.append(x)
            x.waits += 1
        s.last[channel] = x
        s.held[channel] += 1
        s.pending[e.event] = x
        if not x.waits:
            self._schedule(x)
        return True

    def atomic(self, s: Sip, e: Event) -> None:
        """A tile of atomics: flows like a transfer, on no channel."""
        latency, route = self.p.atomic[max(e.source, e.to)], route_of(e.source, e.to, True)
        x = Transfer(s.t, s.t, e.size, e.pc, _LAST, s, latency, route, -1, e.source, e.to)
        _take_turn(x)
        _wait_for_slots(x, e)
        self._schedule(x)

    def _schedule(self, x: Transfer) -> None:
        self.appoint(x.ready + x.latency, x.sip.number, x.event, x)

    def _release(self, x: Transfer, pc: int) -> None:
        if self.now > x.ready:
            x.ready, x.waited_pc = self.now, pc
        x.waits -= 1
        if not x.waits:
            self._schedule(x)

    def begin(self, x: Transfer) -> None:
        """It begins to flow now."""
        if not x.size:
            self._complete(x)
            return
        s = x.sip
        if not s.flowing:
            s.flowing_since = self.now
        bisect.insort(s.flowing, x, key=lambda x: x.turn)
        self._arrange(s)

    def _arrange(self, s: Sip) -> None:
        """The first transfer on each route flows."""
        first: dict[int, Transfer] = {}
        for x in s.flowing:
            first.setdefault(x.route, x)
        for x in s.flowing:
            flows = first[x.route] is x
            if flows and not x.active:
                self._active.append(x)
            elif x.active and not flows:
                self._active.remove(x)
            x.active = flows
        self.shares.change(s.number, tuple(first))
        self._changed = True

    def _complete(self, x: Transfer) -> None:
        s = x.sip
        self._count(x)
        if x.channel >= 0:
            del s.pending[x.event]
            s.held[x.channel] -= 1
            if s.last[x.channel] is x:
                s.last[x.channel] = None
        if x.next is not None:
            self._release(x.next, x.pc)
        for other in x.dependents:
            self._release(other, x.pc)
        if x.channel < 0:
            self._wake(s, self.now, state.ATOMIC, x.pc, None)
        elif (
            (s.state == "wait" and s.waited == x.event)
            or (s.state == "channel" and s.waited == x.channel)
            or (s.state in ("wait all", "end") and not s.pending)
        ):
            self._wake(s, self.now, state.DMA, x.pc, x.slots)

    def _count(self, x: Transfer) -> None:
        tally, busy = self.tally, self.now - x.ready
        tally.transfers += 1
        tally.moved[x.source][x.to] += x.size
        tally.of_pc(x.pc, "busy", busy)
        tally.of_pc(x.pc, "bytes", x.size)
        if x.channel >= 0:
            column = tally.channel[x.sip.number][x.channel]
            for k, amount in enumerate((1, busy, x.size)):
                column[k] += amount
            tally.note(
                x.sip, "dte", (x.ready, self.now, x.issued), x.pc, x.waited_pc, detail=x.channel, size=x.size
            )

    def advance(self, when: int) -> None:
        """Those that flow, up to then: complete what is done."""
        cycles = float(when - self._shared_at)
        for x in self._active:
            x.left -= x.rate * cycles
        self._shared_at = self.now = when
        if self.next_done is None or when < self.next_done:
            return
        self._changed = True  # even where rounding lets none be complete yet
        done = [x for x in self._active if x.left <= x.rate * _CLOSE]
        self._active = [x for x in self._active if x.left > x.rate * _CLOSE]
        for x in done:
            x.sip.flowing.remove(x)
        for s in {x.sip.number: x.sip for x in done}.values():
            self._arrange(s)
            if not s.flowing:
                self.tally.of_sip(s, "dte_busy", self.now - s.flowing_since)
        for x in sorted(done, key=lambda x: (x.sip.number, x.event)):
            self._complete(x)

    def share(self) -> None:
        """After changes: rates, and when the next is complete."""
        if not self._changed:
            return
        self._changed = False
        self.shares.solve()
        self.next_done = None
        if not self._active:
            return
        for x in self._active:
            x.rate = self.shares.share(x.sip.number, x.route)
        least = min(x.left / x.rate if x.rate else math.inf for x in self._active)
        self.next_done = self.now + max(math.ceil(least - _CLOSE), 0)


def _take_turn(x: Transfer) -> None:
    """Behind all that its SIP has issued."""
    x.turn, x.left = x.sip.issues, float(x.size)
    x.sip.issues += 1


def _wait_for_slots(x: Transfer, e: Event) -> None:
    """Until the vector and matrix units are done with what it writes (the first key) and reads."""
    uses = []
    if e.key[0] != NO_KEY:
        uses += [x.sip.written[e.key[0]], x.sip.read[e.key[0]]]
    if e.key[1] != NO_KEY:
        uses += [x.sip.written[e.key[1]]]
    for use in uses:
        if use.when > x.ready:
            x.ready, x.waited_pc = x.slots = use
