"""CPU profiles inside Chrome traces: `samples` with `stackFrames`, and V8's Profile and ProfileChunk events.

Both are small beside the events, so they are read as JSON values.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from topsprof.importers.base import Tally
from topsprof.importers.chrome_meta import integer
from topsprof.importers.chrome_rows import Numbers

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

Frame = tuple[int | None, str, str | None, int | None]


class Place(NamedTuple):
    """When and where: ns, pid and tid of the trace."""

    ts: int
    pid: int
    tid: int


class Profiles:
    """Collects samples and frames of a file; `finish` writes the tables sample and stack."""

    def __init__(self, writer: SessionWriter, tally: Tally, numbers: Numbers) -> None:
        self._writer = writer
        self._tally = tally
        self._numbers = numbers
        self.processes: set[int] = set()  # pids with samples
        self._stack_ids: dict[Frame, int] = {}
        self._samples: dict[str, list[Any]] = {
            name: [] for name in ("start_ns", "process_id", "thread_id", "stack_id", "weight", "unit")
        }
        self._v8: dict[tuple[int, str], _V8Profile] = {}

    def v8_event(self, name: str, place: Place, profile_id: str, args: str | None) -> bool:
        """A P event; False when it is none of V8's profiler."""
        if name not in ("Profile", "ProfileChunk"):
            return False
        try:
            data = json.loads(args or "{}").get("data", {})
        except (ValueError, AttributeError):
            return False
        if not isinstance(data, dict):
            return False
        profile = self._v8.setdefault((place.pid, profile_id), _V8Profile(place.pid))
        if name == "Profile":
            profile.thread = place.tid
            start = integer(data.get("startTime"))
            start = None if start is None else _int64(start * 1000)
            profile.time_ns = place.ts if start is None else start
        profile.chunk(data)
        return True

    def finish(self, samples: Any, frames: Any, scale_ns: int = 1000) -> None:
        """Write everything. `samples` and `frames` are the values of those keys beside the events (None:
        there are none).
        """
        for profile in self._v8.values():
            lost = profile.write(self)
            self._tally.dropped("sample_of_unknown_node", lost)
        if samples is not None:
            self._section(samples, frames if isinstance(frames, dict) else {}, scale_ns)
        if self._samples["start_ns"]:
            self._writer.append("sample", self._samples)
            self._tally.written(len(self._samples["start_ns"]))
            keys = list(self._stack_ids)
            self._writer.append(
                "stack",
                {
                    "stack_id": list(self._stack_ids.values()),
                    "parent_id": [key[0] for key in keys],
                    "name": [key[1] for key in keys],
                    "file": [key[2] for key in keys],
                    "line": [key[3] for key in keys],
                },
            )

    def frame(self, parent: int | None, name: str, file: str | None, line: int | None) -> int:
        """The id of a frame under its caller."""
        return self._stack_ids.setdefault((parent, name, file, line), len(self._stack_ids) + 1)

    def sample(self, place: Place, stack: int, weight: float, unit: str) -> None:
        """One sample."""
        self.processes.add(place.pid)
        for column, value in zip(
            self._samples.values(),
            (place.ts, self._numbers.key(place.pid), place.tid, stack, weight, unit),
            strict=True,
        ):
            column.append(value)

    def _section(self, samples: Any, frames: dict[str, Any], scale_ns: int) -> None:
        if not isinstance(samples, list):
            self._tally.unsupported("samples", 1, "`samples` is no list")
            return
        self._tally.read(len(samples))
        stacks: dict[str, int | None] = {}
        lost = 0
        for entry in samples:
            stack = self._stack(entry.get("sf"), frames, stacks) if isinstance(entry, dict) else None
            ts = _time(entry.get("ts"), scale_ns) if isinstance(entry, dict) else None
            if stack is None or ts is None:
                lost += 1
                continue
            pid, tid = integer(entry.get("pid")) or 0, integer(entry.get("tid")) or 0
            try:
                weight = float(entry.get("weight", 1))
            except (TypeError, ValueError, OverflowError):
                weight = 1.0
            self.sample(Place(ts, pid, tid), stack, weight, "samples")
        self._tally.dropped("sample_without_stack", lost)

    def _stack(self, key: Any, frames: dict[str, Any], known: dict[str, int | None]) -> int | None:
        """The stack id of a key of stackFrames; None when the key, or one of its callers, is not there."""
        path: list[str] = []
        at = None if key is None else str(key)
        parent: int | None = None
        while at is not None:
            if at in known:
                parent = known[at]
                if parent is None:
                    return None
                break
            if at in path or not isinstance(frames.get(at), dict):
                known.update(dict.fromkeys(path))
                return None
            path.append(at)
            above = frames[at].get("parent")
            at = None if above is None else str(above)
        for name in reversed(path):
            entry = frames[name]
            parent = known[name] = self.frame(
                parent, str(entry.get("name", "")), _string(entry.get("category")), None
            )
        return parent


class _V8Profile:
    """One profile of V8, which comes in chunks."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.thread = 0
        self.time_ns = 0
        self._nodes: dict[int, dict[str, Any]] = {}
        self._parents: dict[int, int] = {}
        self._samples: list[int] = []
        self._deltas: list[float] = []

    def chunk(self, data: dict[str, Any]) -> None:
        """Nodes, samples and time deltas of a ProfileChunk; all are optional."""
        profile = data.get("cpuProfile")
        profile = profile if isinstance(profile, dict) else {}
        for node in _list(profile.get("nodes")):
            number = integer(node.get("id")) if isinstance(node, dict) else None
            if number is None:
                continue
            self._nodes[number] = node
            parent = integer(node.get("parent"))
            if parent is not None:
                self._parents[number] = parent
            for child in _list(node.get("children")):
                if (below := integer(child)) is not None:
                    self._parents[below] = number
        self._samples += [integer(sample) or 0 for sample in _list(profile.get("samples"))]
        deltas = _list(data.get("timeDeltas")) or _list(profile.get("timeDeltas"))
        self._deltas += [_delta(delta) for delta in deltas]

    def write(self, profiles: Profiles) -> int:
        """Hand the samples over; returns how many have no node."""
        stacks: dict[int, int] = {}
        ts = self.time_ns
        lost = 0
        for i, number in enumerate(self._samples):
            ts += round(self._deltas[i] * 1000) if i < len(self._deltas) else 0
            stack = self._stack(number, stacks, profiles)
            if stack is None or _int64(ts) is None:
                lost += 1
                continue
            ahead = self._deltas[i + 1] * 1000 if i + 1 < len(self._deltas) else 0.0
            profiles.sample(Place(ts, self.pid, self.thread), stack, max(ahead, 0.0), "ns")
        return lost

    def _stack(self, number: int, stacks: dict[int, int], profiles: Profiles) -> int | None:
        path: list[int] = []
        at: int | None = number
        parent: int | None = None
        while at is not None and at not in stacks:
            if at in path or at not in self._nodes:
                return None
            path.append(at)
            at = self._parents.get(at)
        if at is not None:
            parent = stacks[at]
        for one in reversed(path):
            frame = self._nodes[one].get("callFrame")
            frame = frame if isinstance(frame, dict) else {}
            line = integer(frame.get("lineNumber"))
            parent = stacks[one] = profiles.frame(
                parent,
                str(frame.get("functionName") or "(anonymous)"),
                _string(frame.get("url")),
                None if line is None or line < 0 else _int64(line + 1),
            )
        return parent


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: Any, scale_ns: int) -> int | None:
    """Microseconds as text or number -> ns; ints exactly."""
    number = integer(value) if not isinstance(value, float) else None
    if number is not None:
        return _int64(number * scale_ns)
    try:
        return _int64(round(float(value) * scale_ns))
    except (TypeError, ValueError, OverflowError):
        return None


def _int64(number: int) -> int | None:
    return number if -(1 << 63) <= number < 1 << 63 else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _delta(value: Any) -> float:
    """Microseconds between two samples; 0 for what can't be."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if math.isfinite(value) and abs(value) < 1 << 53 else 0.0
