"""What is mapped into a process, and how to open the files of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of /proc/PID/maps; `offset` is that of its first byte in the file."""

    start: int
    end: int
    executable: bool
    offset: int
    path: str
    """"" where it is no file's."""


def read_maps(pid: int) -> list[Mapping]:
    """The mappings of a process, by address. Raises OSError: no such process, or no right to look."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        return parse(file)


def parse(lines: Iterable[str]) -> list[Mapping]:
    """The mappings of the lines of a maps file."""
    found = []
    for line in lines:
        words = line.rstrip("\n").split(None, 5)
        if len(words) < 5:
            continue
        start, _, end = words[0].partition("-")
        path = words[5] if len(words) > 5 else ""
        found.append(Mapping(int(start, 16), int(end, 16), "x" in words[1], int(words[2], 16), path))
    return found


def openable(pid: int, mapping: Mapping) -> str:
    """A path under which the mapped file can be opened here, whatever the process's root folder; a file that
    has been deleted or replaced is found through the kernel, where that is allowed.
    """
    deleted = mapping.path.endswith(" (deleted)")
    if not deleted:
        return f"/proc/{pid}/root{mapping.path}"
    if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(mapping.path) or _is_program(pid, mapping):
        return f"/proc/{pid}/exe"
    return f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"


def _is_program(pid: int, mapping: Mapping) -> bool:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink()) == mapping.path
    except OSError:
        return False


def bias(mappings: Iterable[Mapping], segments: Iterable[tuple[int, int, int]]) -> int | None:
    """What to add to an address in a file to get the one in the process. `mappings`: those of the file;
    `segments`: (offset, address, bytes) of what the file says is loaded. None where they don't fit.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    known = {offset - offset % page: address - address % page for offset, address, _ in segments}
    for mapping in mappings:
        if mapping.offset in known:
            return mapping.start - known[mapping.offset]
    return None
