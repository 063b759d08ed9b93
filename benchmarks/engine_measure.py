"""Alternating repetitions in one process: CPU and wall time of each body."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Times:
    """Seconds per call of one body, by repetition."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, float]:
        """Least and median of CPU and wall time."""
        return {
            "cpu_min": min(self.cpu),
            "cpu_median": statistics.median(self.cpu),
            "wall_min": min(self.wall),
            "wall_median": statistics.median(self.wall),
        }


def alternate(bodies: Mapping[str, Callable[[], Any]], repetitions: int, calls: int = 1) -> dict[str, Times]:
    """Call bodies in turn, so that a slow minute of the machine meets all; each once before that, untimed."""
    for body in bodies.values():
        body()
    found = {name: Times() for name in bodies}
    for _ in range(repetitions):
        for name, body in bodies.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                body()
            found[name].cpu.append((time.process_time() - cpu) / calls)
            found[name].wall.append((time.perf_counter() - wall) / calls)
    return found


def as_json(found: Mapping[str, Times]) -> dict[str, dict[str, float]]:
    """All of them as plain values."""
    return {name: times.as_json() for name, times in found.items()}
