"""Errors that a user can cause.

A command prints the message on one line and exits with `exit_code`; no traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right. The message says what, where, and what to do, on one line."""

    exit_code = 2


class SessionError(UserError):
    """A session folder that is missing, damaged, of a newer version, or in use by another writer."""


class ManifestDamagedError(SessionError):
    """A session whose session.json can't be read; the segments beside it may be sound."""


class TraceError(UserError):
    """A trace file that can't be imported."""
