"""Devices as a program sees them: those of TOPS_DEVICES that TOPS_VISIBLE_DEVICES lets through."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tops_kit.gcu.specification import Specification
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import selection, slices
from tops_kit.gcu.state.card import Card
from tops_kit.gcu.state.claims import Claim
from tops_kit.gcu.state.models import PowerMode
from tops_kit.gcu.state.occupancy import Base, SharedOccupancy
from tops_kit.gcu.state.place import find_place
from tops_kit.gcu.state.sips import Sips
from tops_kit.gcu.state.usage import Usage

if TYPE_CHECKING:
    from tops_kit.gcu.memory import Allocation, DeviceMemory

_BASE = 1 << 44  # where devices' memory begins, so that addresses are the same in every run
_DEVICE_STRIDE = 1 << 42
_SHARE_STRIDE = 1 << 39


class Device:
    """A device, or a slice of one, as this process uses it.

    `index` counts what the program sees. `spec` is the share that a slice has, at the clock of the power
    mode; `part` is the name of the whole part ("s60"). Nothing is claimed before it is used.
    """

    def __init__(self, index: int, card: Card, number: int | None, count: int, mode: PowerMode) -> None:
        self.index = index
        self.card = card
        self.slice = number
        self.slices = count
        self.part = card.spec.name
        spec = card.spec if number is None else slices.slice_specification(card.spec, number, count)
        self.spec: Specification = spec if mode.clock == 1 else spec.scaled(clock=mode.clock)
        self.uuid = card.uuid if number is None else f"{card.uuid}/{number}"
        self._share = 0 if number is None else number + 1
        self._claim = Claim(card.state, self._share, self.title, count)

    @property
    def name(self) -> str:
        """The specification's name."""
        return self.spec.name

    @property
    def title(self) -> str:
        """What messages call it: "device 0 (S60)"."""
        return f"device {self.index} ({self.spec.title})"

    @property
    def physical(self) -> str:
        """Its place in the machine, as TOPS_VISIBLE_DEVICES names it: "1", or "1:0" for a slice."""
        return str(self.card.index) if self.slice is None else f"{self.card.index}:{self.slice}"

    @property
    def note(self) -> str:
        """What has to be told about the device's state; empty when nothing has."""
        return self.card.state.note

    @cached_property
    def memory(self) -> DeviceMemory:
        """Its memory."""
        from tops_kit.gcu.memory import DeviceMemory  # which stands on this package

        base = _BASE + self.card.index * _DEVICE_STRIDE + self._share * _SHARE_STRIDE
        return DeviceMemory(self._claim, self.spec.l3_bytes, base)

    @cached_property
    def sips(self) -> Sips:
        """Its SIPs, for exclusive use."""
        first = 0 if self.slice is None else slices.first_sip(self.card.spec, self.slice, self.slices)
        return Sips(self._claim, first, self.spec.clusters, self.spec.sips_per_cluster)

    @cached_property
    def usage(self) -> Usage:
        """What this process tells about its use of it."""
        return Usage(self._claim, self.spec.sips)

    def occupancy(self, base: Callable[[], Base]) -> SharedOccupancy:
        """Its time, as this process shares it with others; `base()` tells which session time it has."""
        return SharedOccupancy(self._claim, self.spec, self.sips, self.card.index, base)

    def news(self) -> ctypes.c_int64:
        """A shared word, once the device is claimed: when it changes, `lost` and `sips.left()` may have, too.

        It stays mapped while anybody has it.
        """
        flat = memoryview(self._claim.state.words).cast("B")
        return ctypes.c_int64.from_buffer(flat, at.H_NEWS * at.WORD_BYTES)

    @property
    def claimed(self) -> bool:
        """Whether this process is a user of it."""
        return self._claim.held

    def claim(self) -> None:
        """Enter this process as a user of the device, as the first use would.

        Raises DeviceLostError, StateError.
        """
        self._claim.take()

    @property
    def lost(self) -> bool:
        """Whether the device was reset while this process used it: `reset` makes it usable again."""
        return self._claim.lost and self._claim.reset_since

    def reset(self, *, note: str = "the device's reset") -> None:
        """Give back all that this process has of it; it can be used again, also one that was lost.

        Its blocks count as freed at `note`.
        """
        if "memory" in self.__dict__:
            self.memory.clear(note=note)
        self._claim.release()

    def close(self) -> None:
        """Give back all that this process has of it. That happens by itself when the process ends."""
        self.reset(note="the device's close")

    def __repr__(self) -> str:
        return f"<Device {self.index}: {self.spec.title}, {self.physical}>"


class Devices:
    """The devices that a program sees, in their order."""

    def __init__(self, chosen: Sequence[Device]) -> None:
        self._chosen = tuple(chosen)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._chosen)

    def __getitem__(self, index: int) -> Device:
        return self._chosen[index]

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Device]:
        return iter(self._chosen)

    def find(self, address: int) -> tuple[Device, Allocation] | None:
        """The device and the block that an address lies in."""
        for device in self._chosen:
            if "memory" in device.__dict__ and (block := device.memory.find(address)):
                return device, block
        return None

    def connection(self, one: int, other: int) -> str:
        """How two of them reach each other: "self", "link" (the parts' own) or "pcie" (through the host)."""
        a, b = self._chosen[one], self._chosen[other]
        return "self" if one == other else connection(a.card, b.card)

    def close(self) -> None:
        """Give back all that this process has of them."""
        for device in self._chosen:
            device.close()


def cards(environ: Mapping[str, str] | None = None) -> list[Card]:
    """All devices of the machine, whole (default: of this process's environment)."""
    environ = os.environ if environ is None else environ
    place = find_place(environ)
    return [Card(place, index, spec) for index, spec in enumerate(selection.configured(environ))]


def devices(environ: Mapping[str, str] | None = None) -> Devices:
    """The devices that a program with such an environment sees. Raises DevicesError."""
    environ = os.environ if environ is None else environ
    machine = cards(environ)
    settings = [card.settings() for card in machine]
    choices = selection.visible(environ, [count for count, _ in settings], [card.uuid for card in machine])
    return Devices(
        [
            Device(index, machine[choice.device], choice.part, *settings[choice.device])
            for index, choice in enumerate(choices)
        ]
    )


def connection(one: Card, other: Card) -> str:
    """How two devices of the machine reach each other: "self" (slices of one, too), "link" or "pcie"."""
    if one.index == other.index:
        return "self"
    return "link" if one.spec.link_bytes_per_s and other.spec.link_bytes_per_s else "pcie"
