"""Whether somebody is writing a session now: who, and what to do about it, in words."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from tops_kit.errors import SessionError
from tops_kit.session.lock import CLAIM_LOCK, FolderLock, locked
from tops_kit.session.manifest import CONTROL, WRITER_LOCK


@dataclass(frozen=True)
class Use:
    """A use of the session in `folder` by another process (None: its number is unknown).

    `recorded`: its recording goes on; else it is written in another way, or is complete and only kept from
    being overwritten. `claimed`: `topsprof run` records it, or has recorded it and waits for its program.
    """

    folder: Path
    process: int | None
    recorded: bool
    claimed: bool

    def __str__(self) -> str:
        """What the session is, to follow its name."""
        who = f"process {self.process}" if self.process is not None else "another process"
        if self.recorded:
            return f"is still being recorded by {who}"
        return f"belongs to {who}, whose program still runs" if self.claimed else f"is being written by {who}"

    @property
    def way_out(self) -> str:
        """How to come to its end."""
        if self.recorded and self.claimed:
            words = shlex.join(["topsprof", "stop", "--shutdown", "--session", str(self.folder)])
            return f"wait for its end, or end it with `{words}`"
        return "wait for it to end"


def use_of(folder: Path) -> Use | None:
    """The use of a session folder, None when nobody uses it, or nobody of whom we could know."""
    claim, writer = folder / CLAIM_LOCK, folder / WRITER_LOCK
    claimed, written = locked(claim), locked(writer)
    if not claimed and not written:
        return None
    process = FolderLock(claim if claimed else writer).holder()
    return Use(folder, process, (folder / CONTROL).exists(), claimed)


def occupied(folder: Path) -> SessionError:
    """The error for a session that can't be written or replaced, as another process has it."""
    use = use_of(folder) or Use(folder, None, recorded=False, claimed=False)
    return SessionError(f"'{folder}' {use}: use another name, or {use.way_out}")


def taken(folder: Path, otherwise: str) -> SessionError:
    """The error for a name that is taken: `otherwise` says how to overwrite what has it, where that may be
    overwritten.
    """
    return SessionError(f"'{folder}' exists: {otherwise}") if use_of(folder) is None else occupied(folder)
