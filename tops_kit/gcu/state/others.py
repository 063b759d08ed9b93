"""Devices of other configurations that are in use beside ours: the state folder shows them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import processes, slots
from tops_kit.gcu.state.place import Place


class Other(NamedTuple):
    """A device in use that another TOPS_DEVICES made: its number and part, and the pids of its processes."""

    device: int
    part: str
    pids: tuple[int, ...]


def others(place: Place, known: Collection[Path]) -> list[Other]:
    """Those that living processes use, but for the files in `known`."""
    out = []
    try:
        found = sorted(place.folder.glob(f"device*.v{at.VERSION}"))
    except OSError:
        return []
    for path in found:
        name = re.fullmatch(r"device(\d+)-(.*)-[0-9a-f]{16}", path.stem)
        if name and path not in known and (pids := _users(path)):
            out.append(Other(int(name[1]), name[2], pids))
    return out


def _users(path: Path) -> tuple[int, ...]:
    try:
        content = path.read_bytes() if path.is_file() else b""  # reading a FIFO would wait for a writer
    except OSError:
        return ()
    words = memoryview(content[: len(content) // 8 * 8]).cast("q")
    first = len(words) - at.SLOTS * at.SLOT_WORDS
    if first < at.HEADER_WORDS or words[at.H_MAGIC] != at.MAGIC or words[at.H_WORDS] != len(words):
        return ()
    used = [slot for slot in range(first, len(words), at.SLOT_WORDS) if words[slot]]
    alive = {words[s + at.S_PID] for s in used if processes.alive(slots.identity(words, s))}
    return tuple(sorted(alive))
