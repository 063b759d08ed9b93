"""What topspti refuses."""

from __future__ import annotations

from typing import Any

from tops_kit.errors import UserError


class PtiError(UserError):
    """A call of topspti that can't be done as it stands; the message says why, and what to do."""


def shown(value: Any) -> str:
    """A value as an error shows it: short numbers and texts as they are, else what it is."""
    if isinstance(value, int | float | str | None) and len(text := ascii(value)) < 40:
        return text
    return f"a {type(value).__name__}"


def launch_timing() -> type:
    """The class of a launch's timing, which is loaded when one is looked at."""
    from tops_kit.engine.report import LaunchTiming

    return LaunchTiming
