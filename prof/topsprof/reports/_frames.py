"""Call trees of samples, and the few frames in them that tell where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_DEEPEST: Final = 2048
"""Frames of a stack that are followed: more than a recorded one has, so that a damaged one ends, too."""
_WHOLE: Final = 0.8
"""Callees that have so much of a frame's time tell where it went; else the frame itself is what is named."""
_PART: Final = 0.15
"""Less of all time than this is no place of its own."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of table stack."""

    parent: int | None
    name: str
    file: str
    line: int | None

    @property
    def place(self) -> str:
        """`file:line`."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Stacks:
    """Table stack of a session."""

    def __init__(self, data: Data) -> None:
        sql = "SELECT stack_id, parent_id, name::VARCHAR, file::VARCHAR, line FROM stack"
        rows: Iterator[Any] = data.query(sql)
        self._frames: dict[int, Frame] = {
            stack_id: Frame(parent, name or "", file or "", line)
            for stack_id, parent, name, file, line in rows
        }

    def frames(self, stack_id: int) -> list[Frame]:
        """A stack, outermost frame first."""
        found: list[Frame] = []
        at: int | None = stack_id
        while at is not None and at in self._frames and len(found) < _DEEPEST:
            found.append(self._frames[at])
            at = self._frames[at].parent
        found.reverse()
        return found


@dataclass(slots=True)
class Node:
    """A function as called by its callers: its time in ns, that of its callees included."""

    name: str = ""
    file: str = ""
    time_ns: float = 0.0
    lines: dict[str, float] = field(default_factory=dict)
    callees: dict[tuple[str, str], Node] = field(default_factory=dict)

    def add(self, frames: list[Frame], time_ns: float) -> None:
        """Count a stack: frames from here on, outermost first."""
        node = self
        node.time_ns += time_ns
        for frame in frames:
            key = frame.name, frame.file
            node = node.callees.setdefault(key, Node(frame.name, frame.file))
            node.time_ns += time_ns
            node.lines[frame.place] = node.lines.get(frame.place, 0.0) + time_ns

    @property
    def place(self) -> str:
        """Its line with the most time."""
        return max(self.lines, key=lambda line: (self.lines[line], line)) if self.lines else self.file


def hot_paths(root: Node) -> Iterator[list[Node]]:
    """The places in a tree that have its time: each is the way to it, the root left out.

    A frame stands for its callees where none of those has much of the time of all. Together they have
    nearly all of it.
    """
    waiting: list[list[Node]] = [[root]]
    while waiting:
        path = waiting.pop()
        node = path[-1]
        large = [callee for callee in node.callees.values() if callee.time_ns >= _PART * root.time_ns]
        if large and sum(callee.time_ns for callee in large) >= _WHOLE * node.time_ns:
            waiting.extend([*path, callee] for callee in large)
        else:
            yield path[1:]


def hottest(times: Mapping[int, float], stacks: Stacks, title: str = "") -> str:
    """The way to the frame where most of some samples were (stack id -> ns), in words; empty: there is none.

    What starts a thread is left out.
    """
    root = Node()
    for stack_id, time_ns in times.items():
        root.add([frame for frame in stacks.frames(stack_id) if not _starts_threads(frame)], time_ns)
    path = max(hot_paths(root), key=lambda found: found[-1].time_ns if found else 0.0, default=[])
    if not path:
        return ""
    return f"{title}: {way(path)} ({path[-1].place})" if title else f"{way(path)} ({path[-1].place})"


def way(path: list[Node], most: int = 6) -> str:
    """`outer > inner`; of many frames the outermost and the innermost."""
    names = [node.name for node in path]
    if len(names) > most:
        names = [*names[: most // 2], "...", *names[-(most - most // 2) :]]
    return " > ".join(names)


def _starts_threads(frame: Frame) -> bool:
    return frame.file.endswith("threading.py") and frame.name in (
        "Thread._bootstrap",
        "Thread._bootstrap_inner",
        "Thread.run",
    )
