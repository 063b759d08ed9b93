"""When a device does what: discrete events in session time, advanced to the host's clock or ahead of it."""

from tops_kit.gcu.simulation.calendar import Capacity, Use
from tops_kit.gcu.simulation.device import DeviceSimulation, Engine, EngineUse
from tops_kit.gcu.simulation.occupancy import LocalOccupancy, Occupancy, Reservation, capacity_of
from tops_kit.gcu.simulation.operation import ENGINES, KINDS, Operation, Peer, StreamQueue
from tops_kit.gcu.simulation.timeline import Timeline
from tops_kit.gcu.simulation.waiting import make_room, wait

__all__ = [
    "ENGINES",
    "KINDS",
    "Capacity",
    "DeviceSimulation",
    "Engine",
    "EngineUse",
    "LocalOccupancy",
    "Occupancy",
    "Operation",
    "Peer",
    "Reservation",
    "StreamQueue",
    "Timeline",
    "Use",
    "capacity_of",
    "make_room",
    "wait",
]
