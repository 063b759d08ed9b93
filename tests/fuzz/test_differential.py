"""Random programs: the C machine in every mode against the oracle, bit for bit. `soak.py` runs many more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import compare
from tests.fuzz.generator import generate
from tests.fuzz.values import ArraySpec, allocate
from tests.fuzz.wild import generate_wild
from tops_kit.engine.launch import ENGINES
from tops_kit.isa.table import INSTRUCTIONS
from tops_kit.isa.verify import verify

PROGRAMS = 500
CHUNK = 50
AT_ONCE = tuple(setup for setup in compare.SETUPS if not setup[2])
UNTIMED = tuple(setup for setup in AT_ONCE if setup[0] != "timed")


@pytest.fixture(scope="module")
def c_engine():
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")


def different(seeds, setups=None):
    """What differs. Not every program runs in all modes: times and late transfers take the oracle long."""
    found = []
    for seed in seeds:
        these = setups or (compare.SETUPS, UNTIMED, AT_ONCE, UNTIMED)[seed % 4]
        found += [f"seed {seed}: {line}" for line in compare.check(generate(seed), these)]
    return found


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_the_machine_does_what_the_oracle_does(c_engine, first):
    found = different(range(first, first + CHUNK))
    assert not found, "\n".join(found[:10])


def test_any_operands_fault_alike(c_engine):
    setups = (("fast", 1, False), ("debug", 1, True))
    found = [f"seed {n}: {line}" for n in range(250) for line in compare.check(generate_wild(n), setups)]
    assert not found, "\n".join(found[:10])


@pytest.mark.smoke
def test_a_few_programs_on_the_machine(c_engine):
    assert not different(range(10), AT_ONCE[:1])


def test_programs_are_the_same_for_the_same_seed():
    for seed in range(20):
        one, two = generate(seed), generate(seed)
        assert np.array_equal(one.program.code, two.program.code)
        assert repr(one.arguments) == repr(two.arguments)  # by repr: NaN is like NaN
        specs = [a for a in one.arguments if isinstance(a, ArraySpec)]
        for a, b in zip(allocate(specs), allocate(specs), strict=True):
            assert np.array_equal(a.memory, b.memory)


def test_programs_are_valid_and_use_nearly_every_instruction():
    used = set()
    for seed in range(200):
        program = generate(seed).program
        verify(program)
        used |= set(program.code[:, 0].tolist())
    missing = {x.name for number, x in enumerate(INSTRUCTIONS) if number not in used}
    assert len(missing) <= 8


def test_most_programs_end_without_a_fault(c_engine):
    runs = [compare.run(generate(seed), engine="c", mode="fast") for seed in range(200)]
    good = sum(ran.fault is None for ran in runs)
    assert good > 120
    assert len({ran.fault[0] for ran in runs if ran.fault}) >= 7
