"""What every exporter stands on: its interface, its options and its account of what it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tops_kit.errors import UserError

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session


@dataclass(frozen=True)
class ExportOptions:
    """How to export. `table`: the one table to write, for formats that hold tables. `compress`: gzip the
    file."""

    table: str | None = None
    compress: bool = False


@dataclass
class Exported:
    """What an export wrote, and what the format could not hold: (rows, what they are and why)."""

    rows: int = 0
    left_out: list[tuple[int, str]] = field(default_factory=list)

    def leave_out(self, rows: int, why: str) -> None:
        """Say that `rows` rows were not written."""
        if rows:
            self.left_out.append((rows, why))


class Exporter(Protocol):
    """One format. Instances hold no state between two exports."""

    name: str
    """what --type takes"""
    suffix: str
    """ending of a file (or folder) of it"""
    help: str
    """one line"""
    text: bool
    """whether `-o -` may put it on stdout"""

    def folder(self, options: ExportOptions) -> bool:
        """Whether the output is a folder."""
        ...

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        """Write the selected part of a session to `out`, which does not exist yet (or is an empty file).

        UserError when the session has nothing that the format holds; OSError when it can't be written.
        """
        ...


class FileExporter:
    """What formats of one file share."""

    def folder(self, options: ExportOptions) -> bool:
        return False


def nothing(session: Session, what: str) -> UserError:
    """The error of an export that would be empty."""
    return UserError(f"{session.path}: no {what} to export; 'topsprof info' says what the session holds")
