"""Streams for the nodes of a graph: as few as run side by side, in time and memory of the graph's size."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace

from tops_kit.runtime.context import Context

# a lane, its last node when this was noted, and whose heap that came from (-1: of the node itself)
_Entry = tuple[int, int, int]


def lanes_of(
    order: Sequence[int], after: Sequence[tuple[int, ...]], contexts: Sequence[Context], first: Context
) -> tuple[dict[int, int], list[Context]]:
    """A lane (stream) for each node: that of one it waits for where nothing else follows there, else another.

    All nodes of a lane are of one device; lane 0 is of `first`. With the device of each lane. Of several that
    fit a node takes the lowest: of those of the nodes it waits for, then of all that come before it anyway.
    """
    lane_of: dict[int, int] = {}
    last = [-1]  # the last node of each lane
    lanes = [first]
    followers = [0] * len(after)
    for before in after:
        for k in before:
            followers[k] += 1
    free = {id(context): _Free(last, followers) for context in contexts}
    for number in order:
        context, before = contexts[number], after[number]
        for each in free.values():
            each.join(number, before)
        lane = min(
            (lane_of[k] for k in before if last[lane_of[k]] == k and lanes[lane_of[k]] is context), default=-1
        )
        if lane < 0 and last[0] < 0 and context is first:
            lane = 0
        if lane < 0:
            lane = free[id(context)].lowest(number)
        if lane < 0:
            lane = len(last)
            last.append(number)
            lanes.append(context)
        last[lane] = number
        lane_of[number] = lane
        free[id(context)].place(number, lane)
    return lane_of, lanes


class _Free:
    """For each node the lanes of a device whose last node is it, or comes before it: a heap, lowest first.

    A lane leaves such a set for ever when another node follows in it, so that heaps are put right when they
    are looked at. Where several nodes follow one, their heaps have an entry for all of its heap.
    """

    def __init__(self, last: list[int], followers: Sequence[int]) -> None:
        self._last = last
        self._followers = followers
        self._heaps: dict[int, list[_Entry]] = {}

    def join(self, number: int, before: Sequence[int]) -> None:
        """The heap of a node: what those that it waits for have."""
        heaps, last = self._heaps, self._last
        mine: list[_Entry] = []
        for k in before:
            heap = heaps[k]
            while heap and heap[0][2] < 0 and last[heap[0][0]] != heap[0][1]:
                heappop(heap)
            if self._followers[k] == 1:  # nobody else looks at it
                del heaps[k]
                if len(heap) > len(mine):
                    mine, heap = heap, mine
                for entry in heap:
                    heappush(mine, entry)
            elif heap:
                heappush(mine, heap[0] if len(heap) == 1 else (heap[0][0], heap[0][1], k))
        heaps[number] = mine

    def place(self, number: int, lane: int) -> None:
        """A node is the last of a lane."""
        heappush(self._heaps[number], (lane, number, -1))

    def lowest(self, number: int) -> int:
        """The lowest lane of a node's heap that is free still; -1: none."""
        heaps, last = self._heaps, self._last
        path = [number]  # not recursive: graphs are deep
        while path:
            heap = heaps[path[-1]]
            while heap:
                lane, node, source = heap[0]
                if last[lane] == node:
                    break
                below = heaps[source] if source >= 0 else []
                if not below:
                    heappop(heap)
                elif last[below[0][0]] == below[0][1]:
                    # of one that has a single entry that entry itself: chains do not grow
                    heapreplace(heap, below[0] if len(below) == 1 else (below[0][0], below[0][1], source))
                else:
                    path.append(source)
                    heap = []
                    break
            else:
                path.pop()
                continue
            if heap:
                path.pop()
        heap = heaps[number]
        return heap[0][0] if heap else -1
