"""What efsmi looks at: the machine's devices at one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tops_kit.errors import UserError
from tops_kit.gcu.state.card import Card
from tops_kit.gcu.state.device import cards
from tops_kit.gcu.state.others import Other, others
from tops_kit.gcu.state.place import find_place
from tops_kit.gcu.state.selection import DEFAULT, DEVICES
from tops_kit.gcu.state.snapshot import Snapshot


@dataclass(frozen=True)
class Machine:
    """All devices, the ones that were asked for, and where their state lies."""

    all_cards: Sequence[Card]
    cards: Sequence[Card]
    environ: Mapping[str, str]

    @classmethod
    def find(cls, environ: Mapping[str, str], which: str | None) -> Machine:
        """The devices of an environment; `which` ("0,2") chooses some by number or uuid. Raises UserError."""
        machine = cards(environ)
        if which is None:
            return cls(machine, machine, environ)
        chosen = []
        for word in which.split(","):
            found = [card for card in machine if word.strip() in (str(card.index), card.uuid)]
            if not found:
                numbers = f"0 to {len(machine) - 1}" if machine else "none"
                raise UserError(
                    f"there is no device {word.strip()!r}: there are {numbers} ({DEVICES} says which)"
                )
            chosen += [card for card in found if card not in chosen]
        return cls(machine, chosen, environ)

    def one(self, what: str) -> Card:
        """The only device asked for. Raises UserError."""
        if not self.cards:
            raise UserError(f"there is no device to {what} ({DEVICES}=none)")
        if len(self.cards) > 1:
            raise UserError(f"{what} which device? Name one with -i, from 0 to {len(self.all_cards) - 1}")
        return self.cards[0]

    @property
    def configuration(self) -> str:
        """TOPS_DEVICES, or its default."""
        return self.environ.get(DEVICES, "").strip() or DEFAULT

    def look(self) -> Look:
        """The devices now."""
        found = [(card, card.snapshot()) for card in self.cards]
        place = find_place(self.environ)
        return Look(
            time_ns=time.time_ns(),
            configuration=self.configuration,
            place=str(place.folder),
            devices=found,
            others=others(place, [card.state.path for card in self.all_cards]),
            notes=tuple(card.state.note for card in self.cards if card.state.note),
        )


@dataclass(frozen=True)
class Look:
    """The devices at one moment; `notes` is what has to be told about their state."""

    time_ns: int  # Unix time
    configuration: str
    place: str
    devices: Sequence[tuple[Card, Snapshot]]
    others: Sequence[Other]
    notes: tuple[str, ...]

    def remarks(self) -> list[str]:
        """Notes, and devices in use that this look does not show, as lines for people."""
        lines = list(self.notes)
        if self.others:
            who = ", ".join(
                f"device {other.device} {other.part} (process {', '.join(map(str, other.pids))})"
                for other in self.others
            )
            lines.append(f"in use under another {DEVICES} than {self.configuration!r}: {who}")
        return lines
