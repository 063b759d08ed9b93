"""The twin of what _scan.c does with rows once they are intervals: how they nest, and call stacks of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def nest(track: Int64s, start: Int64s, end: Int64s, tolerance: int) -> tuple[bytes, int, int]:
    """(ends, trimmed, overlapping) of intervals sorted by (track, start, -length).

    An overlap of up to `tolerance` is rounding: it is cut off the earlier one, or off the end of the later
    one where that is less (then it lies within).
    """
    trimmed = overlapping = 0
    ends: list[int] = end.tolist()
    opened: list[int] = []
    before: int | None = None
    for i, (one, begin) in enumerate(zip(track.tolist(), start.tolist(), strict=True)):
        if one != before:
            opened.clear()
            before = one
        beside = False
        while opened:
            outer = ends[opened[-1]]
            if outer > begin:
                if ends[i] <= outer:
                    break
                shared, over = outer - begin, ends[i] - outer
                if shared <= over and shared <= tolerance:
                    ends[opened[-1]] = begin
                    trimmed += 1
                else:
                    if over <= tolerance:
                        ends[i] = outer
                        trimmed += 1
                    else:
                        beside = True
                    break
            opened.pop()
        if beside:
            overlapping += 1
        else:
            opened.append(i)
    return np.array(ends, np.int64).tobytes(), trimmed, overlapping


class Stacks:
    """Call stacks of traced functions, over many batches."""

    def __init__(self) -> None:
        self._open: dict[int, list[tuple[int, int]]] = {}  # by track: (end, path), innermost last
        self._paths: dict[tuple[int, int], int] = {}

    def walk(self, track: Int64s, start: Int64s, end: Int64s, function: npt.NDArray[np.int32]) -> bytes:
        """Rows by start (function: -1 for what is none) -> int32 path of each, -1: in no function."""
        out: list[int] = []
        for t, begin, stop, name in zip(
            track.tolist(), start.tolist(), end.tolist(), function.tolist(), strict=True
        ):
            frames = self._open.setdefault(t, [])
            while frames and frames[-1][0] <= begin:
                frames.pop()
            path = frames[-1][1] if frames else -1
            if name >= 0:
                path = self._paths.setdefault((path, name), len(self._paths))
                frames.append((stop, path))
            out.append(path)
        return np.array(out, np.int32).tobytes()

    def paths(self) -> bytes:
        """int32 pairs (caller's path or -1, function) of all paths."""
        return np.array(list(self._paths), np.int32).tobytes()
