"""Programs that overlap loads, computing and stores over several slots, right ones and ones with one mistake.

Round r waits for its load, and for the store that used its output slot; computes; starts the store of what it
computed, and the load of a later round into the slot that is free now. At the end all is awaited.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32
from tops_kit.isa.program import Program

# a mistake, and what the sanitizer has to call it
MISTAKES = {
    "no wait for the load": "not-awaited",
    "wait for another load": "not-awaited",
    "wrong slot": "not-awaited",
    "load too early": "in-use",
    "no wait for the store": "in-use",
    "no wait at the end": "left-open",
    "outputs overlap": "race",
    "first load missing": "uninitialised",
    "slot too far": "slot",
    "input too far": "view",
}


@dataclass(frozen=True)
class Plan:
    """How a program runs ahead: `slots` of input, `outputs` slots of output, `rounds` of `columns` elements.

    `mistake` (one of MISTAKES, or "") is made in round `at`.
    """

    slots: int
    outputs: int
    rounds: int
    columns: int
    mistake: str = ""
    at: int = 0

    @property
    def kind(self) -> str:
        """What the sanitizer has to find."""
        return MISTAKES[self.mistake]


@dataclass
class Built:
    """A program, and the lines that may be blamed."""

    program: Program
    lines: set[int] = field(default_factory=set)


def build(plan: Plan) -> Built:
    """The program; x is (threads, rounds, columns), y too."""
    return _Builder(plan).build()


class _Builder:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.asm = Assembler("rounds")
        self.x = self.asm.pointer("x", F32, ndim=3, stored=False)
        self.y = self.asm.pointer("y", F32, ndim=3, loaded=False)
        self.input = self.asm.buffer("input", "L1", F32, (1, 1, plan.columns), slots=plan.slots)
        self.output = self.asm.buffer("output", "L1", F32, (1, 1, plan.columns), slots=plan.outputs)
        self.lines: set[int] = set()
        self.line = 0

    def number(self, value: int) -> str:
        return self.asm.constant(value)

    def next_line(self, *, blamed: bool = False) -> None:
        self.line += 1
        self.asm.at(self.line)
        if blamed:
            self.lines.add(self.line)

    def makes(self, mistake: str, number: int | None = None) -> bool:
        return self.plan.mistake == mistake and number in (None, self.plan.at)

    def build(self) -> Built:
        plan, asm = self.plan, self.asm
        asm.op("special", "thread", "thread_id")
        asm.op("iadd", "next", "thread", self.number(1))
        for number in range(min(plan.slots, plan.rounds)):
            if self.makes("first load missing") and number == 0:
                continue
            self.load(number)
        for number in range(plan.rounds):
            self.round(number)
        if self.makes("no wait at the end"):
            self.wait_for_stores_but_last()
        else:
            self.next_line()
            asm.op("waitall")
        self.next_line()
        asm.op("end")
        return Built(asm.finish(), self.lines)

    def part(self, name: str, pointer: int, first: str, last: str, number: int) -> None:
        self.asm.op("tptr", name, pointer)
        self.asm.op("tslice", name, name, 0, first, last)
        self.asm.op("tslice", name, name, 1, self.number(number), self.number(number + 1))

    def load(self, number: int) -> None:
        blamed = self.makes("input too far", number) or self.makes("slot too far", number)
        self.next_line(blamed=blamed)
        far = self.plan.rounds if self.makes("input too far", number) else number
        slot = self.plan.slots if self.makes("slot too far", number) else number % self.plan.slots
        self.part("from", self.x, "thread", "next", far)
        self.asm.op("tbuf", "to", self.input, self.number(slot), 0)
        self.asm.op("dma", f"load{number}", "to", "from", self.number(0), slot)

    def round(self, number: int) -> None:
        plan, asm = self.plan, self.asm
        self.next_line()
        if self.makes("wait for another load", number):
            asm.op("wait", f"load{number - 1}" if number else self.number(0))
        elif not self.makes("no wait for the load", number) and not (
            self.makes("first load missing") and number == 0
        ):
            asm.op("wait", f"load{number}")
        if number >= plan.outputs and not self.makes("no wait for the store", number):
            asm.op("wait", f"store{number - plan.outputs}")
        early = self.makes("load too early", number)
        if (
            early
        ):  # another part's transfer, on a channel of its own, while the slot's own load is not awaited
            self.load_over(number)
        self.compute(number)
        self.store(number)
        ahead = number + plan.slots
        if ahead < plan.rounds:
            self.load(ahead)

    def load_over(self, number: int) -> None:
        """A second load into the slot of the load that is under way for the next round."""
        self.next_line(blamed=True)
        self.part("from", self.x, "thread", "next", number)
        self.asm.op("tbuf", "to", self.input, self.number((number + 1) % self.plan.slots), 0)
        self.asm.op("dma", "over", "to", "from", self.number(0), 100)
        self.asm.op("wait", "over")

    def compute(self, number: int) -> None:
        wrong = self.makes("wrong slot", number)
        mistakes = ("no wait for the load", "wait for another load", "wrong slot", "no wait for the store")
        blamed = any(self.makes(m, number) for m in mistakes)
        self.next_line(blamed=blamed or (self.makes("first load missing") and number == 0))
        slot = (number + wrong) % self.plan.slots
        self.asm.op("tbuf", "in", self.input, self.number(slot), 0)
        self.asm.op("tbuf", "out", self.output, self.number(number % self.plan.outputs), 0)
        self.asm.op("tmul_s", "out", "in", 2.0)

    def store(self, number: int) -> None:
        self.next_line(blamed=self.makes("outputs overlap"))
        self.asm.op("tbuf", "out", self.output, self.number(number % self.plan.outputs), 0)
        if self.makes("outputs overlap"):  # all threads store to the first one's part
            self.part("to", self.y, self.number(0), self.number(1), number)
        else:
            self.part("to", self.y, "thread", "next", number)
        if self.makes("no wait at the end") and number == self.plan.rounds - 1:
            self.lines.add(self.line)
        channel = 200 + number % self.plan.outputs
        self.asm.op("dma", f"store{number}", "to", "out", self.number(0), channel)

    def wait_for_stores_but_last(self) -> None:
        self.next_line()
        for number in range(max(0, self.plan.rounds - self.plan.outputs), self.plan.rounds - 1):
            self.asm.op("wait", f"store{number}")
