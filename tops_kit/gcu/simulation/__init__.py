"""When a device does what: discrete events in session time, advanced to the host's clock or ahead of it."""

from tops_kit.gcu.simulation.device import DeviceSimulation, Engine, EngineUse
from tops_kit.gcu.simulation.occupancy import LocalOccupancy, Occupancy, Reservation
from tops_kit.gcu.simulation.operation import ENGINES, KINDS, Operation, Peer, StreamQueue
from tops_kit.gcu.simulation.timeline import Timeline
from tops_kit.gcu.simulation.waiting import make_room, wait

__all__ = [
    "ENGINES",
    "KINDS",
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
    "make_room",
    "wait",
]
