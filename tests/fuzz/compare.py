"""The same program on two engines, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.generator import Case
from tests.fuzz.values import ArraySpec, allocate
from tops_kit.engine.fault import KernelFault
from tops_kit.engine.launch import GlobalArray, launch
from tops_kit.engine.result import EVENT
from tops_kit.isa import disassemble

# (mode, host threads, transfers move when they complete)
SETUPS: tuple[tuple[str, int, bool], ...] = (
    ("fast", 1, False),
    ("fast", 2, False),
    ("counted", 1, False),
    ("counted", 2, False),
    ("timed", 1, False),
    ("sanitized", 1, False),
    ("debug", 1, False),
    ("debug", 1, True),
)

_PACKED = np.dtype([(name, EVENT[name]) for name in EVENT.names or ()])


@dataclass(frozen=True)
class Ran:
    """What a launch did: the bytes of each array, printed lines, the fault, counts where they are known."""

    memory: list[bytes]
    output: list[str]
    fault: tuple[Any, ...] | None
    message: str
    counts: list[int] | None
    ran: str = ""
    events: list[bytes] | None = None
    cycles: int | None = None


def run(case: Case, *, engine: str, mode: str = "counted", host_threads: int = 1, defer: bool = False) -> Ran:
    """One launch on new memory."""
    arrays = allocate([a for a in case.arguments if isinstance(a, ArraySpec)])
    given = iter(arrays)
    arguments: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, ArraySpec):
            a = next(given)
            arguments.append(GlobalArray(a.address, a.dtype, a.shape, a.strides_bytes, a.name, True, a.owner))
        else:
            arguments.append(argument)
    output: Sequence[str] = ()
    fault, counts, message, ran, events, cycles = None, None, "", "", None, None
    try:
        result = launch(
            case.program,
            arguments,
            grid=case.grid,
            block=case.block,
            mode=mode,  # type: ignore[arg-type]
            host_threads=host_threads,
            defer=defer,
            engine=engine,  # type: ignore[arg-type]
            budget_s=120,
            events=True,
        )
        output, ran = result.output, result.ran
        events = None if result.events is None else [_packed(trace) for trace in result.events]
        cycles = None if result.times is None else result.times.cycles
        counts = None if result.counts is None else np.asarray(result.counts).tolist()
    except KernelFault as error:
        fault = (error.kind.name, error.pc, error.thread, error.block)
        message = str(error)
        output = error.output
    return Ran(
        [a.memory.tobytes() for a in arrays], list(output), fault, message, counts, ran, events, cycles
    )


def differences(expected: Ran, got: Ran, *, memory: bool = True) -> list[str]:
    """What differs, a line each; counts and memory only of launches without a fault, or where asked for."""
    out = []
    if expected.fault != got.fault:
        out.append(f"fault {expected.fault} became {got.fault}")
    elif expected.message != got.message:
        out.append(f"fault says {got.message!r} instead of {expected.message!r}")
    if expected.output != got.output:
        out.append(f"prints: {_first(expected.output, got.output)}")
    if memory or expected.fault is None:
        for number, (a, b) in enumerate(zip(expected.memory, got.memory, strict=True)):
            if a != b:
                at = next(k for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
                out.append(
                    f"array {number} differs at byte {at}: {a[at : at + 8].hex()} {b[at : at + 8].hex()}"
                )
    if expected.fault is None and None not in (expected.counts, got.counts) and expected.counts != got.counts:
        out.append(f"counts: {_first(expected.counts or [], got.counts or [])}")
    if None not in (expected.events, got.events) and expected.events != got.events:
        out.append(f"events: {_first(*(_named(ran.events or []) for ran in (expected, got)))}")
    if None not in (expected.cycles, got.cycles) and expected.cycles != got.cycles:
        out.append(f"{got.cycles} cycles instead of {expected.cycles}")
    return out


def _packed(trace: np.ndarray) -> bytes:
    """Events without the bytes between their fields."""
    return trace.astype(_PACKED).tobytes()


def _named(traces: list[bytes]) -> list[object]:
    return [(n, str(event)) for n, trace in enumerate(traces) for event in np.frombuffer(trace, _PACKED)]


def check(case: Case, setups: Sequence[tuple[str, int, bool]] = SETUPS) -> list[str]:
    """The oracle against the C machine in every setup: what differs, a line each."""
    out = []
    timed = any(mode == "timed" for mode, _, _ in setups)
    expected = {
        defer: run(case, engine="oracle", mode="timed" if timed and not defer else "debug", defer=defer)
        for defer in {setup[2] for setup in setups}
    }
    for mode, host_threads, defer in setups:
        got = run(case, engine="c", mode=mode, host_threads=host_threads, defer=defer)
        # with several host threads, and under the sanitizer, other threads may go on after a fault
        found = differences(expected[defer], got, memory=host_threads == 1 and mode != "sanitized")
        out += [f"{mode}, {host_threads} threads{', deferred' * defer}: {line}" for line in found]
    return out


def first_statement(case: Case, setups: Sequence[tuple[str, int, bool]] = SETUPS) -> str:
    """The instructions of the first statement that makes a difference."""
    for count in range(len(case.starts) + 1):
        found = check(case.cut(count), setups)
        if found:
            begin = case.starts[count - 1] if count else 0
            end = case.starts[count] if count < len(case.starts) else case.dump
            disassembly = disassemble.Disassembly(case.program)
            lines = [f"{pc:5d} {disassembly.instruction_text(pc)}" for pc in range(begin, end)]
            return "\n".join([*lines, *found])
    return "no difference"


def _first(expected: Sequence[object], got: Sequence[object]) -> str:
    for number, (a, b) in enumerate(zip(expected, got, strict=False)):
        if a != b:
            return f"entry {number} is {b!r} instead of {a!r}"
    return f"{len(got)} entries instead of {len(expected)}"


def describe(case: Case) -> str:
    """The program as text, for a report."""
    return f"seed {case.seed}, grid {case.grid}, block {case.block}\n{disassemble.text(case.program)}"
