"""The parts that kernels are compiled for and timed on."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from tops_kit.gcu import Specification, SpecificationError, load
from tops_kit.runtime.errors import LaunchError, is_path, shown
from tops_kit.topscc.target import Target

DEFAULT = "s60"


class Parts:
    """Specifications that were read, by the name or file they came from."""

    def __init__(self) -> None:
        self._read: dict[str, Specification] = {}
        self._hashes: weakref.WeakKeyDictionary[Specification, str] = weakref.WeakKeyDictionary()

    def get(self, part: str | Path | Specification) -> Specification:
        """A part by name, file, or itself. Raises SpecificationError."""
        if isinstance(part, Specification):
            return part
        key = os.fspath(part)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = load(part)
        return found

    def chosen(self, part: str | Path | Specification) -> Specification:
        """As `get`, for what a program gives a call. Raises LaunchError."""
        if not isinstance(part, Specification) and not is_path(part):
            raise LaunchError(
                f"no part {shown(part)}: a name such as {DEFAULT!r}, or the path of a .toml file"
            )
        try:
            return self.get(part)
        except SpecificationError as error:
            raise LaunchError(str(error)) from None

    def hash(self, part: Specification) -> str:
        """A part's hash, reckoned once."""
        found = self._hashes.get(part)
        if found is None:
            found = self._hashes[part] = part.hash
        return found


PARTS = Parts()  # a part's file is read once in a process


def target_of(part: Specification) -> Target:
    """What the compiler needs to know of a part."""
    return Target(part.name, part.l1_bytes, part.l2_usable_bytes)


def split_threads(threads: int, part: Specification) -> tuple[int, int]:
    """(blocks, threads of a block) for a number of threads: as many in a block as a cluster has SIPs.

    Where that does not divide them, the greatest number that does.
    """
    for size in range(min(threads, part.sips_per_cluster), 1, -1):
        if threads % size == 0:
            return threads // size, size
    return threads, 1
