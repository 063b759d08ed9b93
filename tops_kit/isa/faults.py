"""Faults of a kernel: numbers (as in engine/machine.h), names, and what each means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FaultKind:
    """A class of faults. `name` is stable: it stands in reports and JSON."""

    number: int
    name: str
    text: str


FAULTS = (
    FaultKind(1, "slot", "no such slot of the buffer"),
    FaultKind(2, "view", "a part of a view that reaches outside of it"),
    FaultKind(3, "bounds", "a transfer that reaches outside of its array"),
    FaultKind(4, "index", "an element index outside of its view"),
    FaultKind(5, "shape", "extents that do not fit together"),
    FaultKind(6, "divide", "integer division by zero"),
    FaultKind(7, "assert", "an assertion of the kernel failed"),
    FaultKind(8, "gather", "a gather or scatter index outside of its tile"),
    FaultKind(9, "space", "the wrong memory space for the operation"),
    FaultKind(10, "type", "an element type that the operation has no meaning for"),
    FaultKind(11, "event", "a wait for an event that was never triggered"),
    FaultKind(12, "barrier", "a divergent barrier: other threads of the block ended or wait elsewhere"),
    FaultKind(13, "timeout", "the launch used up its time budget"),
    FaultKind(14, "stopped", "a signal arrived during the launch"),
    FaultKind(15, "memory", "the host has no memory for the launch"),
    FaultKind(32, "uninitialised", "a read of memory that nothing wrote"),
    FaultKind(33, "not-awaited", "a read of what a transfer is still writing"),
    FaultKind(34, "in-use", "a write to what a transfer is still reading or writing"),
    FaultKind(35, "race", "two threads access the same memory, one writes, and nothing orders them"),
    FaultKind(36, "left-open", "the kernel ended with a transfer that was never awaited"),
)
BY_NUMBER = {kind.number: kind for kind in FAULTS}
BY_NAME = {kind.name: kind for kind in FAULTS}
