"""Where recording works."""

from __future__ import annotations

import sys

from tops_kit.errors import UserError


def require_linux(verb: str) -> None:
    """Raise UserError where recording isn't possible. Call before importing what exists on Linux only."""
    if sys.platform != "linux":
        raise UserError(
            f"'{verb}' needs Linux: recording uses its /proc and signals; reading and import work here"
        )
