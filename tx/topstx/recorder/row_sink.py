"""From records of other code, tuples, to rows: descriptions of how, and the twin of what reads them in C.

A sink takes (kind, record), where kind is one bit and says which description packs the record. Records for
which there is more to do go to `slow(kind, record)`: of devices and names not seen before, and of all kinds
in `slow_kinds`. `slow` then calls `pack`.
"""

from __future__ import annotations

import time
from struct import Struct, calcsize
from struct import error as StructError  # noqa: N812

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final, TypeAlias

    from topstx.recorder.interface import Backend

    # A text's place in the record, or the place of a number and the texts by number.
    NameOf: TypeAlias = int | tuple[int, Mapping[int, str] | Sequence[str]]
    # (operation, place in the record or constant, code of the body's field)
    Item: TypeAlias = tuple[int, int, str]

FIELD, INTERN, THREE, CONST, EXTRA = range(5)
SAMPLED: Final = 256  # one row of so many is timed, to say what recording costs
FIRST_SAMPLED: Final = 16  # of each so many that one: the first rows have more to do


def reckoned_ns(count: int, cost_ns: int) -> int:
    """What `count` records cost by a sample that says `cost_ns` for as many times SAMPLED as were timed."""
    timed = (count + SAMPLED - 1 - FIRST_SAMPLED) // SAMPLED
    return cost_ns * count // (timed * SAMPLED) if timed > 0 else 0


class Packing:
    """How records of one kind become rows of one kind. `start`, `end`, `correlation`, `device`, `filter` are
    places in the record; device and filter -1: there is none. Of `items`, in order of the body's fields:

    - FIELD: the number at a place, clamped to what the field can hold
    - INTERN: the id of the text at a place, 0 for an empty one
    - THREE: three fields from the tuple at a place, ones where it is shorter
    - CONST: a number; EXTRA: what `pack` was given besides the record
    """

    __slots__ = ("correlation", "device", "end", "filter", "items", "kind", "name", "row", "start")

    def __init__(
        self,
        kind: int,
        row: int,
        *,
        start: int,
        end: int,
        correlation: int,
        name: NameOf,
        items: Sequence[Item],
        device: int = -1,
        filter: int = -1,
    ) -> None:
        self.kind = kind
        self.row = row
        self.start = start
        self.end = end
        self.correlation = correlation
        self.name = name
        self.items = tuple(items)
        self.device = device
        self.filter = filter

    def described(self) -> tuple[Any, ...]:
        """As C takes it."""
        return (
            self.kind, self.row, self.start, self.end, self.correlation, self.name, self.device, self.filter,
            self.items,
        )  # fmt: skip


def make_sink(backend: Backend, slow: Callable[[int, Any], object], packings: Sequence[Packing]) -> RowSink:
    """A sink, in C where the back end is."""
    in_c = getattr(backend, "RowSink", None)
    if in_c is not None:
        made: RowSink = in_c(slow, [packing.described() for packing in packings])
        return made
    return RowSink(backend, slow, packings)


class RowSink:
    """The twin. `known` says which names are wanted (True, False; missing: ask `slow`); `count` and `cost_ns`
    are how many records were packed by `take`, and what they cost, reckoned from a sample; `slow_count` and
    `slow_ns` how many went to `slow`, and what those cost, each of them timed.
    """

    def __init__(
        self, backend: Backend, slow: Callable[[int, Any], object], packings: Sequence[Packing]
    ) -> None:
        self._backend = backend
        self._slow = slow
        self._packings = {packing.kind: packing for packing in packings}
        self._bodies = {packing.kind: _codes(packing) for packing in packings}
        self._structs = {kind: Struct("<" + "".join(codes)) for kind, codes in self._bodies.items()}
        self._seen: set[int] = set()
        self.known: dict[str, bool] = {}
        self.slow_kinds = 0
        self.count = 0
        self.cost_ns = 0
        self.slow_count = 0
        self.slow_ns = 0
        self._clock_ns = _clock_cost_ns()

    def take(self, kind: int, record: Any) -> None:
        """Write the row of a record, or let `slow` do it."""
        # processor time: that the thread waits, or others have its processor, is no cost of recording
        begin_ns = time.thread_time_ns() if self.count % SAMPLED == FIRST_SAMPLED else 0
        self.count += 1
        if self.slow_kinds & kind or (
            # asked for second: a slow kind may have no packing
            (packing := self._packings[kind]).device >= 0 and record[packing.device] not in self._seen
        ):
            self._take_slowly(kind, record)
            return
        if packing.filter < 0:
            self.pack(kind, record)
        else:
            wanted = self.known.get(record[packing.filter])
            if wanted is None:
                self._take_slowly(kind, record)
                return
            if wanted:
                self.pack(kind, record)
        if begin_ns:
            took_ns = time.thread_time_ns() - begin_ns
            self.cost_ns += SAMPLED * max(took_ns - self._clock_ns, 0)

    def _take_slowly(self, kind: int, record: Any) -> None:
        self.count -= 1  # the sample is of the others
        self.slow_count += 1
        begin_ns = time.thread_time_ns()
        self._slow(kind, record)
        self.slow_ns += max(time.thread_time_ns() - begin_ns - self._clock_ns, 0)

    def pack(self, kind: int, record: Any, extra: int = 0, /) -> bool:
        """Write the row of a record; whether it is in the ring."""
        packing = self._packings[kind]
        values: list[int] = []
        for operation, at, _ in packing.items:
            if operation == FIELD:
                values.append(record[at])
            elif operation == INTERN:
                text = record[at]
                values.append(self._backend.intern(text) if text else 0)
            elif operation == THREE:
                values += (*record[at], 1, 1, 1)[:3]
            else:
                values.append(at if operation == CONST else extra)
        try:
            body = self._structs[kind].pack(*values)
        except StructError:
            codes = self._bodies[kind]
            body = self._structs[kind].pack(*map(clamped, codes, values))
        name = packing.name
        if isinstance(name, int):
            text = record[name]
        else:
            at, texts = name
            try:
                text = texts[record[at]]
            except (LookupError, TypeError):
                text = "?"
        return self._backend.row(
            packing.row, record[packing.start], record[packing.end], text, body, record[packing.correlation]
        )

    def see_device(self, device: int, /) -> None:
        """Records of this device need no `slow` any more."""
        self._seen.add(device)


def _clock_cost_ns() -> int:
    """The least that two readings of the clock of processor time in a row differ by."""
    return min(-time.thread_time_ns() + time.thread_time_ns() for _ in range(32))


def _codes(packing: Packing) -> list[str]:
    """Code of each field of the body."""
    codes: list[str] = []
    for operation, _, code in packing.items:
        codes += [code] * (3 if operation == THREE else 1)
    return codes


def clamped(code: str, value: float) -> int:
    """The whole number next to `value` that a field can hold."""
    bits = 8 * calcsize("<" + code)
    low, high = (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return min(max(int(value), low), high)
