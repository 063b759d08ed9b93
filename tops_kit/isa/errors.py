"""What is wrong with a program that was not made by this compiler, or was damaged since."""

from __future__ import annotations

from tops_kit.errors import UserError


class BinaryError(UserError):
    """A program that the machine must not run, or a topsbin file that is damaged or of another version."""
