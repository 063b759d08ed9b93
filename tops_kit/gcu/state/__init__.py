"""State of the simulated devices, shared by all processes of a user: who uses what, settings, counts."""

from tops_kit.gcu.state.card import Card, SettingError
from tops_kit.gcu.state.claims import DeviceLostError, Holder
from tops_kit.gcu.state.device import Device, Devices, cards, connection, devices
from tops_kit.gcu.state.occupancy import Base, SharedOccupancy
from tops_kit.gcu.state.place import StateError
from tops_kit.gcu.state.selection import DevicesError
from tops_kit.gcu.state.sips import Reservation, Sips, SipsReservedError
from tops_kit.gcu.state.snapshot import Snapshot
from tops_kit.gcu.state.usage import Usage

__all__ = [
    "Base",
    "Card",
    "Device",
    "DeviceLostError",
    "Devices",
    "DevicesError",
    "Holder",
    "Reservation",
    "SettingError",
    "SharedOccupancy",
    "Sips",
    "SipsReservedError",
    "Snapshot",
    "StateError",
    "Usage",
    "cards",
    "connection",
    "devices",
]
