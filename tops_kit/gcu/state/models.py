"""Power and temperature of a device: models, as everything that shows them says.

Power grows in a straight line with the SIPs in use, from what the device takes when idle to its limit. The
temperature follows the power as one thermal mass does: towards ambient + resistance x power, with one time
constant. "Heat" is the use of all SIPs averaged over the past with weights that fall by that constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tops_kit.gcu.specification import Specification

TIME_CONSTANT_S = 20.0
IDLE_SHARE = 0.18  # of the power limit: an assumption, as all figures here
AMBIENT_C = 30.0
RISE_AT_LIMIT_C = 45.0  # above ambient, when at the part's own power limit for long


@dataclass(frozen=True)
class PowerMode:
    """A setting between speed and power: times the clock, times the power limit."""

    name: str
    clock: float
    power: float


POWER_MODES = (PowerMode("high", 1.0, 1.0), PowerMode("low", 0.6, 0.5))


def cooled(heat: float, elapsed_ns: int) -> float:
    """What is left of a heat after some time without use."""
    return heat * math.exp(-max(elapsed_ns, 0) / (TIME_CONSTANT_S * 1e9))


def warmed(heat: float, elapsed_ns: int, busy_sip_ns: float, sips: int) -> float:
    """The heat after a span in which so many SIP x ns were in use."""
    return cooled(heat, elapsed_ns) + busy_sip_ns / sips / (TIME_CONSTANT_S * 1e9)


def power_w(spec: Specification, mode: PowerMode, use: float) -> float:
    """Watts at a use from 0 to 1; 0 for a part whose file states no power."""
    limit = spec.power_w * mode.power
    idle = min(spec.power_w * IDLE_SHARE, limit)
    return idle + (limit - idle) * min(max(use, 0.0), 1.0)


def temperature_c(spec: Specification, mode: PowerMode, heat: float) -> float:
    """Degrees Celsius after a past of such heat."""
    if not spec.power_w:
        return AMBIENT_C
    return AMBIENT_C + RISE_AT_LIMIT_C * power_w(spec, mode, heat) / spec.power_w
