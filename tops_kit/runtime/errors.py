"""What can be wrong with a launch before it starts."""

from __future__ import annotations

from tops_kit.errors import UserError


class LaunchError(UserError):
    """Arguments, threads or options that a kernel can't be launched with."""
