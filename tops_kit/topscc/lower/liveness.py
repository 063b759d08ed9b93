"""How long registers are needed, and which can share a number."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tops_kit.topscc.lower.code import JUMPS, REGISTER_OPERANDS, Code, Instruction, Register
from tops_kit.topscc.lower.homes import Home


@dataclass(slots=True)
class Interval:
    """From the first instruction that touches a register to the last."""

    first: int
    last: int


def intervals(
    instructions: list[Instruction],
    loops: list[tuple[int, int]],
    parts: dict[Register, tuple[Home, ...]],
) -> dict[Register, Interval]:
    """Of all registers that are not kept.

    What is needed in a loop and was there before it is needed until the loop's end, in every round. A view of
    a tile needs the tile's register.
    """
    out: dict[Register, Interval] = {}
    # around the present position, outermost first: of loops that start together, the longer one
    around: list[tuple[int, int]] = []
    ahead = sorted(loops, key=lambda loop: (-loop[0], loop[1]))

    def touch(register: Register, position: int) -> None:
        found = out.get(register)
        if found is None:
            out[register] = Interval(position, position)
            return
        last = next((loop[1] for loop in around if loop[0] > found.first), position)
        found.last = max(found.last, last)

    for position, instruction in enumerate(instructions):
        while around and around[-1][1] < position:
            around.pop()
        while ahead and ahead[-1][0] <= position:
            around.append(ahead.pop())
        for operand, _, _ in REGISTER_OPERANDS[instruction.name]:
            register = instruction.operands[operand]
            assert isinstance(register, Register)
            if not register.kept:
                touch(register, position)
                for home in parts.get(register, ()):
                    if not home.register.kept:
                        touch(home.register, position)
    return out


def number(kinds: str, found: dict[Register, Interval], start: dict[str, int]) -> dict[str, int]:
    """Give numbers from `start` on to the registers of these kinds; gives how many numbers are used.

    Two registers share one when the first is last needed before the second is written.
    """
    used = dict(start)
    free: dict[str, list[int]] = {kind: [] for kind in kinds}
    busy: dict[str, list[tuple[int, int]]] = {kind: [] for kind in kinds}
    for register, interval in sorted(found.items(), key=lambda item: item[1].first):
        kind = register.kind
        if kind not in kinds or register.number >= 0:
            continue
        ends = busy[kind]
        while ends and ends[0][0] < interval.first:
            heapq.heappush(free[kind], heapq.heappop(ends)[1])
        if free[kind]:
            register.number = heapq.heappop(free[kind])
        else:
            register.number = used[kind]
            used[kind] += 1
        heapq.heappush(ends, (interval.last, register.number))
    return used


@dataclass(slots=True, eq=False)
class Pool:
    """A buffer that homes use one after the other, with its tile register."""

    home: Home
    register: Register
    free_from: int  # the last instruction that needs it
    holder: Register


def join_kept(
    homes: list[Home], found: dict[Register, Interval], code: Code, parts: dict[Register, tuple[Home, ...]]
) -> dict[Register, Register]:
    """Tiles on the way to a variable that can be made in the variable's own memory: their registers, and its.

    For `e = exp(x - m)`: the difference is made in e's home already, when nothing else needs that home
    between the two instructions and no jump comes or goes there.
    """
    out: dict[Register, Register] = {}
    by_register = {home.register: home for home in homes}
    temporary = [home for home in homes if not home.kept and home.register in found]
    for home in sorted(temporary, key=lambda home: -found[home.register].last):
        interval = found[home.register]
        last = code.instructions[interval.last]
        goal = last.operands[0] if last.operands else None
        if home.register not in last.in_place or not isinstance(goal, Register):
            continue
        goal = out.get(goal, goal)
        wanted = by_register.get(goal)
        if wanted is None or not wanted.kept or wanted.slots > 1 or wanted.sites:
            continue
        if (wanted.dtype, wanted.shape, wanted.dynamic) != (home.dtype, home.shape, home.dynamic):
            continue
        if _undisturbed(code, interval, goal, home.register, joined=out, parts=parts):
            out[home.register] = goal
    return out


def _undisturbed(
    code: Code,
    interval: Interval,
    goal: Register,
    register: Register,
    *,
    joined: dict[Register, Register],
    parts: dict[Register, tuple[Home, ...]],
) -> bool:
    """Whether straight code leads from the first instruction to the last, and touches `goal` only there.

    The first may read it where the result has its shape.
    """
    if any(interval.first < label <= interval.last for label in code.labels):
        return False
    for position in range(interval.first, interval.last + 1):
        instruction = code.instructions[position]
        if instruction.name in JUMPS and position < interval.last:
            return False
        operands = instruction.operands[1:] if position == interval.last else instruction.operands
        for operand in operands:
            if not isinstance(operand, Register) or operand is register:
                continue
            if operand is goal and position == interval.first and goal in instruction.in_place:
                continue
            seen = (operand, *(home.register for home in parts.get(operand, ())))
            if any(joined.get(one, one) is goal for one in seen):
                return False
    return True


def share_homes(
    homes: list[Home], found: dict[Register, Interval], instructions: list[Instruction]
) -> tuple[list[Pool], dict[Register, Register]]:
    """Let homes that are not kept use memory in turns: those of one type, shape, and sort of extents.

    Gives the buffers, and for each home's register the one that stands for it. A result may take over the
    memory of an operand that dies with it (`in_place`).
    """
    pools: dict[object, list[Pool]] = {}
    stands_for: dict[Register, Register] = {}
    alive = [home for home in homes if home.register in found]
    for home in sorted(alive, key=lambda home: found[home.register].first):
        interval = found[home.register]
        candidates = pools.setdefault((home.dtype.code, home.shape, home.dynamic), [])
        dying = instructions[interval.first].in_place
        chosen = None
        for pool in candidates:
            if pool.free_from == interval.first and pool.holder in dying:
                chosen = pool
                break
            if pool.free_from < interval.first and chosen is None:
                chosen = pool
        if chosen is None:
            chosen = Pool(home, Register("t", kept=True), -1, home.register)
            candidates.append(chosen)
        chosen.free_from = interval.last
        chosen.holder = home.register
        stands_for[home.register] = chosen.register
    return [pool for pools_ in pools.values() for pool in pools_], stands_for
