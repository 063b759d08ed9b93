"""Many random programs, oracle against C machine: `python -m tests.fuzz.soak --seed 0 --count 20000`.

Prints each difference with its seed; `--show SEED` prints that program and the
first of its statements that makes a difference. Exit code 1 when something differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzz.compare import check, describe, first_statement, run
from tests.fuzz.generator import generate
from tests.fuzz.wild import generate_wild
from tops_kit.engine.launch import ENGINES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--count", type=int, default=20_000, help="how many programs")
    parser.add_argument("--show", type=int, help="print the program of this seed and what differs")
    parser.add_argument("--most", type=int, default=20, help="end after so many programs with a difference")
    parser.add_argument("--wild", action="store_true", help="instructions with any operands: mostly faults")
    options = parser.parse_args()
    make = generate_wild if options.wild else generate
    if ENGINES.c() is None:
        print(f"needs the C engine: {ENGINES.why_not}", file=sys.stderr)
        return 2
    if options.show is not None:
        case = make(options.show)
        print(describe(case))
        print(run(case, engine="oracle").message)
        print(first_statement(case))
        return 0
    faults: Counter[str] = Counter()
    wrong = 0
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        case = make(seed)
        found = check(case)
        expected = run(case, engine="c", host_threads=2)
        faults[expected.fault[0] if expected.fault else expected.ran] += 1
        if found:
            wrong += 1
            print(
                f"seed {seed}: {found[0]}" + (f" (and {len(found) - 1} more)" if found[1:] else ""),
                flush=True,
            )
            if wrong >= options.most:
                break
        done = seed - options.seed + 1
        if done % 500 == 0:
            rate = done / (time.monotonic() - began)
            print(f"{done} programs, {wrong} differ, {rate:.1f}/s, {dict(faults.most_common())}", flush=True)
    print(f"{sum(faults.values())} programs, {wrong} differ; faults: {dict(faults.most_common())}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
