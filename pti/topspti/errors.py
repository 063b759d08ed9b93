"""What topspti refuses."""

from __future__ import annotations

from tops_kit.errors import UserError
from tops_kit.runtime.errors import shown

__all__ = ["PtiError", "launch_timing", "shown"]


class PtiError(UserError):
    """A call of topspti that can't be done as it stands; the message says why, and what to do."""


def launch_timing() -> type:
    """The class of a launch's timing, which is loaded when one is looked at."""
    from tops_kit.engine.report import LaunchTiming

    return LaunchTiming
