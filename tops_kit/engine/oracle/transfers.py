"""Transfers of the DTE whose effect waits for their completion (`defer`), as engine/transfers.h has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tops_kit.engine.oracle.trap import tiles_trap
from tops_kit.engine.tiles_twin import Tile, TileFault


@dataclass(eq=False)
class Transfer:
    """A transfer that was issued and has not moved anything yet."""

    event: int
    after: int
    channel: int
    pc: int
    move: Callable[[], None]
    views: list[Tile | None]
    needed: bool = False


class Pending:
    """The transfers of a thread in order of issue."""

    def __init__(self) -> None:
        self._pending: list[Transfer] = []

    def add(self, transfer: Transfer) -> None:
        """One more, the youngest."""
        self._pending.append(transfer)

    def complete(self, event: int) -> None:
        """Move a transfer, and before it what it starts after and what is before it on its channel."""
        # what a transfer needs was issued before it: one pass from the youngest finds everything
        for position in range(len(self._pending) - 1, -1, -1):
            transfer = self._pending[position]
            transfer.needed |= transfer.event == event
            if transfer.needed:
                for earlier in self._pending[:position]:
                    earlier.needed |= earlier.event == transfer.after or earlier.channel == transfer.channel
        self._move_needed()

    def complete_all(self) -> None:
        """Move everything."""
        for transfer in self._pending:
            transfer.needed = True
        self._move_needed()

    def _move_needed(self) -> None:
        needed = [transfer for transfer in self._pending if transfer.needed]
        self._pending = [transfer for transfer in self._pending if not transfer.needed]
        for transfer in needed:
            try:
                transfer.move()
            except TileFault as fault:
                raise tiles_trap(fault, transfer.views, transfer.pc) from None
