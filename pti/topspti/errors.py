"""What topspti refuses."""

from __future__ import annotations

from tops_kit.errors import UserError


class PtiError(UserError):
    """A call of topspti that can't be done as it stands; the message says why, and what to do."""
