"""What the sanitizer should find, worked out element by element: programs as lists of steps, and a model.

All threads run the same steps; parts of memory move with the thread's number, so that threads meet or keep
apart. The model knows single elements only, keeps everything, and compares every pair of accesses.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32
from tops_kit.isa.program import Program

SHAPES = {"L1": (4, 8), "L2": (6, 8), "L3": (10, 8)}  # L1: of each of two slots
NEVER = 1 << 40

Element = tuple[str, int]  # a memory and a number in it
Keys = Counter[tuple[str, int, int]]  # kind, line, other line (-1: none)


@dataclass(frozen=True)
class Axis:
    """`n` places from `start + step * thread + move * round` on, `stride` apart."""

    start: int
    n: int
    stride: int = 1
    step: int = 0
    move: int = 0

    def first(self, thread: int, number: int) -> int:
        """Where it begins, for a thread in a round."""
        return self.start + self.step * thread + self.move * number


@dataclass(frozen=True)
class Part:
    """Some rows and columns of a memory; `space` L1, L2, L3, `slot` of L1."""

    space: str
    slot: int
    rows: Axis
    columns: Axis

    def elements(self, thread: int, number: int) -> list[Element]:
        """Its elements for a thread in a round, the first one first."""
        row, column = self.rows.first(thread, number), self.columns.first(thread, number)
        return [
            (f"{self.space}{self.slot}", (row + i * self.rows.stride) * 8 + column + k * self.columns.stride)
            for i in range(self.rows.n)
            for k in range(self.columns.n)
        ]


@dataclass(frozen=True)
class Step:
    """One step. `kind`: move, fill, write, read, lds, sts, atomic, wait, waitall, barrier, gridbarrier."""

    kind: str
    to: Part | None = None
    source: Part | None = None
    after: int = 0  # which transfer, counted from 1
    channel: int = 0


def assemble(steps: list[Step], rounds: int = 1) -> Program:
    """The program, which does the steps `rounds` times; its lines are the steps, counted from 1."""
    asm = Assembler("steps")
    pointer = asm.pointer("y", F32, ndim=2, atomic=True)
    buffer = asm.buffer("row", "L1", F32, SHAPES["L1"], slots=2)
    shared = asm.buffer("shared", "L2", F32, SHAPES["L2"])
    scratch = asm.buffer("scratch", "L1", F32, (1, 8))
    zero, one = asm.constant(0), asm.constant(1)

    def view(name: str, part: Part) -> None:
        if part.space == "L3":
            asm.op("tptr", name, pointer)
        else:
            asm.op("tbuf", name, buffer if part.space == "L1" else shared, asm.constant(part.slot), 0)
        for number, axis in enumerate((part.rows, part.columns)):
            asm.op("imul", "first", "thread", asm.constant(axis.step))
            asm.op("imul", "moved", "round", asm.constant(axis.move))
            asm.op("iadd", "first", "first", "moved")
            asm.op("iadd", "first", "first", asm.constant(axis.start))
            asm.op("iadd", "last", "first", asm.constant((axis.n - 1) * axis.stride + 1))
            asm.op("tslice", name, name, number, "first", "last")
            asm.op("tstep", name, name, number, asm.constant(axis.stride))

    asm.op("special", "thread", "local_id")
    asm.label("again")
    events = 0
    for line, step in enumerate(steps, 1):
        asm.at(line)
        if step.to is not None:
            view("d", step.to)
        if step.source is not None:
            view("a", step.source)
        after = f"event{step.after}" if step.after else zero
        match step.kind:
            case "move":
                events += 1
                asm.op("dma", f"event{events}", "d", "a", after, step.channel)
            case "fill":
                events += 1
                asm.op("dmaset", f"event{events}", "d", 1.0, after, step.channel)
            case "write":
                asm.op("tfill", "d", 1.0)
            case "read":
                asm.op("tbuf", "sum", scratch, zero, 1)
                asm.op("trsum", "sum", "a", 0)
            case "lds":
                asm.op("lds", "value", "a", zero, zero, zero)
            case "sts":
                asm.op("sts", "d", zero, zero, zero, 1.0)
            case "atomic":
                asm.op("tindex", "d", "d", 0, zero)
                asm.op("tindex", "d", "d", 0, zero)
                asm.op("atomic_add", "old", "d", 1.0)
            case "wait":
                asm.op("wait", after)
            case _:
                asm.op(step.kind)
    asm.op("iadd", "round", "round", one)
    asm.op("blt", "round", asm.constant(rounds), "again")
    asm.op("end")
    return asm.finish()


@dataclass
class Flight:
    """A transfer that was issued and is not complete."""

    event: int
    after: int
    channel: int
    line: int
    reads: set[Element]
    writes: set[Element]
    issued: tuple[int, int]


@dataclass
class Access:
    """An access to memory that threads share. Epochs: (of the block, of the grid)."""

    elements: set[Element]
    kind: str
    thread: int
    block: int
    line: int
    issued: tuple[int, int]
    complete: tuple[int, int]


@dataclass
class Thread:
    """A thread of the model."""

    block: int
    local: int
    written: set[Element] = field(default_factory=set)
    flights: list[Flight] = field(default_factory=list)
    events: dict[int, int] = field(default_factory=dict)  # by transfer: the number of its latest event
    at: int = 0  # steps done


class Model:
    """Runs the steps as the machine does, and writes down what is wrong."""

    def __init__(self, steps: list[Step], blocks: int, threads: int, rounds: int = 1) -> None:
        self.steps = steps
        self.all = len(steps) * rounds
        transfers = [k for k, step in enumerate(steps) if step.kind in ("move", "fill")]
        self.transfer_of = {k: number for number, k in enumerate(transfers, 1)}
        self.threads = [[Thread(b, t) for t in range(threads)] for b in range(blocks)]
        self.shared: list[set[Element]] = [set() for _ in range(blocks)]
        self.accesses: list[Access] = []
        self.found: Keys = Counter()
        self.epochs = [(0, 0)] * blocks

    def run(self) -> Keys:
        """All findings; of races only which there are."""
        while any(t.at < self.all for block in self.threads for t in block):
            for number, block in enumerate(self.threads):
                while self._advance(block) == "barrier":
                    both, grid = self.epochs[number]
                    self.epochs[number] = (both + 1, grid)
            self.epochs = [(both + 1, grid + 1) for both, grid in self.epochs]
        for block in self.threads:
            for thread in block:
                for flight in thread.flights:
                    self.found["left-open", flight.line, -1] += 1
                    self._log_flight(thread, flight, (NEVER, NEVER))
        self._races()
        return self.found

    def _advance(self, block: list[Thread]) -> str:
        """To the next barrier of the block; which kind it was."""
        kind = "end"
        for thread in block:
            while thread.at < self.all:
                number, at = divmod(thread.at, len(self.steps))
                step = self.steps[at]
                thread.at += 1
                if step.kind in ("barrier", "gridbarrier"):
                    kind = step.kind
                    break
                self._step(thread, at, number)
        return kind

    def _step(self, thread: Thread, at: int, number: int) -> None:
        step, line = self.steps[at], at + 1
        parts = (step.source, step.to)
        reads, writes = (set(p.elements(thread.local, number)) if p else set() for p in parts)
        if step.kind in ("lds", "sts", "atomic"):  # the first element only
            reads, writes = (set(p.elements(thread.local, number)[:1]) if p else set() for p in parts)
        match step.kind:
            case "wait":
                self._complete(thread, {thread.events.get(step.after, 0)})
            case "waitall":
                self._complete(thread, {f.event for f in thread.flights})
            case "move" | "fill":
                self._transfer(thread, at, reads, writes)
            case "atomic":
                self._check_read(thread, line, writes)
                self._check_flights(thread, line, writes, writes=False)
                self._check_flights(thread, line, writes, writes=True)
                self._log(thread, line, writes, "atomic")
            case _:
                self._check_read(thread, line, reads)
                self._check_flights(thread, line, reads, writes=False)
                self._log(thread, line, reads, "read")
                self._check_flights(thread, line, writes, writes=True)
                self._mark(thread, writes)
                self._log(thread, line, writes, "write")

    def _transfer(self, thread: Thread, at: int, reads: set[Element], writes: set[Element]) -> None:
        step, line = self.steps[at], at + 1
        self._check_read(thread, line, reads)
        after = thread.events.get(step.after, 0)
        order = (after, step.channel)
        self._check_flights(thread, line, reads, writes=False, order=order)
        self._check_flights(thread, line, writes, writes=True, order=order)
        self._mark(thread, writes)
        event = 1 + max(thread.events.values(), default=0)
        thread.events[self.transfer_of[at]] = event
        epochs = self.epochs[thread.block]
        flight = Flight(event, after, step.channel, line, reads, writes, epochs)
        thread.flights.append(flight)

    def _memory(self, thread: Thread, element: Element) -> set[Element]:
        return self.shared[thread.block] if element[0].startswith("L2") else thread.written

    def _check_read(self, thread: Thread, line: int, elements: set[Element]) -> None:
        local = {e for e in elements if not e[0].startswith("L3")}
        if any(e not in self._memory(thread, e) for e in local):
            self.found["uninitialised", line, -1] += 1
            self._mark(thread, local)

    def _mark(self, thread: Thread, elements: set[Element]) -> None:
        for element in elements:
            self._memory(thread, element).add(element)

    def _before(self, thread: Thread, events: set[int], channel: int | None) -> set[int]:
        """Events that are complete before these are, or before a transfer on `channel`."""
        out = {f.event for f in thread.flights if f.event in events or f.channel == channel}
        for f in reversed(thread.flights):
            if f.event in out:
                out |= {g.event for g in thread.flights if g.event < f.event and g.channel == f.channel}
                out.add(f.after)
        return out

    def _check_flights(
        self,
        thread: Thread,
        line: int,
        elements: set[Element],
        *,
        writes: bool,
        order: tuple[int, int] | None = None,
    ) -> None:
        again = True
        while again:
            again = False
            earlier = set() if order is None else self._before(thread, {order[0]}, order[1])
            for f in thread.flights:
                if f.event in earlier or not elements & (f.writes | (f.reads if writes else set())):
                    continue
                self.found["in-use" if writes else "not-awaited", line, f.line] += 1
                self._complete(thread, {f.event})
                again = True
                break

    def _complete(self, thread: Thread, events: set[int]) -> None:
        done = self._before(thread, events, None)
        for f in thread.flights:
            if f.event in done:
                self._log_flight(thread, f, self.epochs[thread.block])
        thread.flights = [f for f in thread.flights if f.event not in done]

    def _log(self, thread: Thread, line: int, elements: set[Element], kind: str) -> None:
        epochs = self.epochs[thread.block]
        self._add(thread, line, elements, kind, epochs, epochs)

    def _log_flight(self, thread: Thread, f: Flight, complete: tuple[int, int]) -> None:
        self._add(thread, f.line, f.reads, "read", f.issued, complete)
        self._add(thread, f.line, f.writes, "write", f.issued, complete)

    def _add(
        self,
        thread: Thread,
        line: int,
        elements: set[Element],
        kind: str,
        issued: tuple[int, int],
        complete: tuple[int, int],
    ) -> None:
        shared = {e for e in elements if not e[0].startswith("L1")}
        if shared:
            self.accesses.append(Access(shared, kind, thread.local, thread.block, line, issued, complete))

    def _races(self) -> None:
        for number, x in enumerate(self.accesses):
            for y in self.accesses[:number]:
                if self._race(x, y):
                    first, second = sorted((x, y), key=lambda a: (a.kind == "read", a.line))
                    self.found["race", first.line, second.line] = 1

    @staticmethod
    def _race(x: Access, y: Access) -> bool:
        same_block = x.block == y.block
        if (same_block and x.thread == y.thread) or (x.kind == y.kind != "write"):
            return False
        which = 0 if same_block else 1
        if x.complete[which] < y.issued[which] or y.complete[which] < x.issued[which]:
            return False
        shared = {e for e in x.elements & y.elements if same_block or e[0].startswith("L3")}
        return bool(shared)


def random_steps(rng: random.Random, length: int, rounds: int, *, grid_barriers: bool) -> list[Step]:
    """Some steps, all within their memories for up to 4 threads and `rounds` rounds."""
    steps: list[Step] = []
    events = 0

    def axis(extent: int, *, threads: bool) -> Axis:
        while True:
            n, stride = rng.randint(1, 3), rng.choice((1, 1, 1, 2))
            step, move = (rng.choice((0, 1, 1, 2)) if threads else 0), rng.choice((0, 0, 1, 2))
            room = extent - 3 * step - (rounds - 1) * move - (n - 1) * stride - 1
            if room >= 0:
                return Axis(rng.randint(0, room), n, stride, step, move)

    def part(*spaces: str) -> Part:
        space = rng.choice(spaces)
        rows, columns = SHAPES[space]
        by_rows = rng.random() < 0.5
        slot = rng.randrange(2) if space == "L1" else 0
        threads = space != "L1"
        return Part(
            space,
            slot,
            axis(rows, threads=threads and by_rows),
            axis(columns, threads=threads and not by_rows),
        )

    def alike(part: Part, like: Part) -> Part:
        rows, columns = (
            replace(a, n=min(a.n, b.n)) for a, b in ((part.rows, like.rows), (part.columns, like.columns))
        )
        return replace(part, rows=rows, columns=columns)

    for _ in range(length):
        kind = rng.choice(
            ("move",) * 8
            + ("fill", "write", "write", "read", "read", "lds", "sts", "lds", "sts", "atomic", "atomic")
            + ("wait",) * 6
            + ("waitall", "barrier", "barrier")
            + ("gridbarrier",) * grid_barriers
        )
        channel = rng.randrange(3)
        match kind:
            case "move":
                to, source = part("L1", "L1", "L2", "L3"), part("L1", "L2", "L3")
                after = rng.randint(0, events) if rng.random() < 0.3 else 0
                steps.append(Step(kind, alike(to, source), alike(source, to), after, channel))
                events += 1
            case "fill":
                steps.append(Step(kind, part("L1", "L2", "L3"), channel=channel))
                events += 1
            case "write":
                rows, columns = SHAPES["L1"]
                whole = Part("L1", rng.randrange(2), Axis(0, rows), Axis(0, columns))
                steps.append(Step(kind, whole if rng.random() < 0.3 else part("L1")))
            case "read":
                steps.append(Step(kind, None, part("L1")))
            case "lds":
                steps.append(Step(kind, None, part("L1", "L2")))
            case "sts":
                steps.append(Step(kind, part("L1", "L2")))
            case "atomic":
                steps.append(Step(kind, part("L1", "L2", "L3")))
            case "wait":
                if events:
                    steps.append(Step(kind, after=rng.randint(max(1, events - 3), events)))
            case _:
                steps.append(Step(kind))
    return steps or [Step("barrier")]
