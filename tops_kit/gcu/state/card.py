"""A device of the machine, whole: its settings, which stay when no program runs, and what it does now."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from tops_kit.errors import UserError
from tops_kit.gcu.specification import Specification
from tops_kit.gcu.state import claims, models, slices, slots, snapshot
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state.place import Place
from tops_kit.gcu.state.shared import SharedState
from tops_kit.gcu.state.snapshot import Snapshot

T = TypeVar("T")

_FAMILY = uuid.UUID("8d9c2f0e-55a1-4c0e-9a6f-3f2b7a51c6d4")  # of our devices: the same ones everywhere


class SettingError(UserError):
    """A setting that the device does not have, or can't take now."""


class Card:
    """A device of the machine, whole: what efsmi shows and changes.

    Nothing is created by looking. Changes raise SettingError, and StateError where nothing can be written.
    """

    def __init__(self, place: Place, index: int, spec: Specification) -> None:
        self.index = index
        self.spec = spec
        self.state = SharedState(place, index, spec)
        self.uuid = f"GCU-{uuid.uuid5(_FAMILY, f'{spec.name} {spec.hash} {index}')}"

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"device {self.index} ({self.spec.title})"

    @property
    def bus(self) -> str:
        """Its place on the PCIe bus, as the simulated machine has it."""
        return f"0000:{self.index + 1:02x}:00.0"

    def snapshot(self) -> Snapshot:
        """Everything about it now."""
        return snapshot.take(self.spec, self.state.read())

    def settings(self) -> tuple[int, models.PowerMode]:
        """How many slices it has (0: one piece), and its power mode."""
        words = self.state.read()
        if words is None:
            return 0, models.POWER_MODES[0]
        return words[at.H_SLICES], models.POWER_MODES[words[at.H_POWER_MODE]]

    def set_power_mode(self, name: str) -> None:
        """Set "high" or "low". Programs that start from now on see the other clock."""
        names = [mode.name for mode in models.POWER_MODES]
        if name not in names:
            raise SettingError(f"no power mode {name!r}: one of {', '.join(names)}")
        self._set(at.H_POWER_MODE, names.index(name))

    def set_ecc(self, on: bool) -> None:
        """Switch error correction of the memory; errors are counted only while it is on."""
        self._set(at.H_ECC, int(on))

    def note_ecc(self, *, corrected: int = 0, uncorrected: int = 0) -> None:
        """Count memory errors. The simulated memory has none of its own; tools are tried with these."""

        def change() -> None:
            if not self.state.words[at.H_ECC]:
                raise SettingError(f"ECC of {self.name} is off: no error is counted")
            for first in (at.H_ECC_CORRECTED, at.H_ECC_CORRECTED_EVER):
                self.state.words[first] += corrected
                self.state.words[first + 1] += uncorrected

        self._change(change)

    def clear_ecc(self) -> None:
        """Set all error counts to zero."""

        def change() -> None:
            for place in range(at.H_ECC_CORRECTED, at.H_ECC_UNCORRECTED_EVER + 1):
                self.state.words[place] = 0

        self._change(change)

    def set_drs(self, on: bool) -> None:
        """Allow slices, or end that. Refused while there are slices."""

        def change() -> None:
            if not on and self.state.words[at.H_SLICES]:
                raise SettingError(
                    f"{self.name} has slices: destroy them first (efsmi -i {self.index} --destroy-instance)"
                )
            self.state.words[at.H_DRS] = int(on)

        if on and len(slices.profiles(self.spec)) < 2:
            raise SettingError(f"{self.name} can't be divided: its part has no virtual functions")
        self._change(change)

    def create_slices(self, count: int) -> None:
        """Divide the device into 1, 2 or 4 slices. Refused while anybody uses it."""
        possible = [profile.slices for profile in slices.profiles(self.spec)]
        if count not in possible:
            raise SettingError(
                f"{self.name} can't have {count} slices: {', '.join(map(str, possible))} are possible"
            )

        def change() -> None:
            words = self.state.words
            if not words[at.H_DRS]:
                raise SettingError(f"slicing of {self.name} is off: efsmi -i {self.index} --drs on")
            if words[at.H_SLICES]:
                raise SettingError(f"{self.name} has {words[at.H_SLICES]} slices already: destroy them first")
            self._nobody("divided")
            words[at.H_SLICES] = count

        self._change(change)

    def destroy_slices(self) -> None:
        """Make the device one piece again. Refused while anybody uses a slice."""

        def change() -> None:
            if not self.state.words[at.H_SLICES]:
                raise SettingError(f"{self.name} has no slices")
            self._nobody("made one piece")
            self.state.words[at.H_SLICES] = 0

        self._change(change)

    def reset(self, *, force: bool = False) -> int:
        """Begin anew: counts since the last reset, heat, reservations. How many users lost the device.

        Refused while anybody uses it; with `force` they lose what they have, and are told at their next use.
        """

        def change() -> int:
            words = self.state.words
            claims.reap(self.state)
            if not force:
                self._nobody("reset")
            used = self.state.used_slots()
            for slot in used:
                claims.clear(self.state, slot)
            words[at.H_RESETS] += 1
            words[at.H_NEWS] += 1
            words[at.H_HIGH] = 0
            for place in (at.H_ECC_CORRECTED, at.H_ECC_UNCORRECTED):
                words[place] = 0
            self.state.floats[at.H_HEAT] = 0.0
            return len(used)

        return self._change(change)

    def close(self) -> None:
        """Let go of the state file."""
        self.state.close()

    def _nobody(self, what: str) -> None:
        claims.reap(self.state)
        words = self.state.words
        used = self.state.used_slots()
        if used:
            who = ", ".join(f"{pid} ({command})" for pid, command in sorted(
                {words[slot + at.S_PID]: slots.command(words, slot)[:40] for slot in used}.items()
            ))  # fmt: skip
            hint = "; --force takes it from them" if what == "reset" else ""
            raise SettingError(f"{self.name} is in use and can't be {what}: by process {who}{hint}")

    def _set(self, place: int, value: int) -> None:
        def change() -> None:
            self.state.words[place] = value

        self._change(change)

    def _change(self, change: Callable[[], T]) -> T:
        self.state.attach(shared=True)
        return self.state.locked(change)
