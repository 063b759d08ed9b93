"""Is a program ever harmed by being looked at? `python -m tests.soak.sampling --minutes 60 --python PYTHON`.

Runs `program.py` alone, then again and again while samplers attach to it and detach, also by `topsprof
attach` and `dump`; output and exit code have to stay the same. Exit code 1 where they did not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from topsprof.capture import process_table
from topsprof.capture.sampling.sampler import Sampler, SamplingLoop
from topsprof.capture.sampling.target import NotPythonError

from tops_kit.errors import UserError

PROGRAM = Path(__file__).with_name("program.py")
COMMAND_EVERY = 12  # visits of which one is by the command line


class Soak:
    """The visits to one Python's programs, and what came of them."""

    def __init__(self, python: str, rounds: int, folder: Path) -> None:
        self.command = [python, str(PROGRAM), str(rounds)]
        self.folder = folder
        self.environ = os.environ | {"PYTHONWARNINGS": "ignore"}  # those of fork name the process
        self.seen: Counter[str] = Counter()

    def alone(self) -> tuple[int, str]:
        """Exit code and output of the program that nobody looks at."""
        done = subprocess.run(self.command, env=self.environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def visited(self) -> tuple[int, str]:
        """The same, of one that is visited all the time."""
        with (self.folder / "output").open("w+", encoding="utf-8") as output:
            with subprocess.Popen(self.command, env=self.environ, stdout=output, stderr=output) as program:
                while program.poll() is None:
                    self._visit(program.pid)
            output.seek(0)
            return program.returncode, output.read()

    def _visit(self, pid: int) -> None:
        self.seen["visits"] += 1
        if self.seen["visits"] % COMMAND_EVERY == 0:
            self._by_command(pid)
            return
        loop, samplers = SamplingLoop(1000), []
        for one in (pid, *process_table.descendants(pid)):
            try:
                samplers.append(Sampler(one))
                loop.add(samplers[-1])
            except NotPythonError:
                self.seen["not there (any more)"] += 1
            except UserError as error:
                self.seen[f"refused: {str(error).replace(str(one), 'PID')}"] += 1
        loop.run(0.02 + self.seen["visits"] % 7 * 0.05)
        for sampler in samplers:
            sampler.batch()
            counts = sampler.counts()
            self.seen["samples"] += counts["samples"]
            self.seen["unresolved"] += counts["unresolved"]
            self.seen[f"ended: {sampler.end}"] += bool(sampler.end)
            sampler.tasks()

    def _by_command(self, pid: int) -> None:
        words = (
            ["dump", "--tasks", "--locals", str(pid)]
            if self.seen["visits"] // COMMAND_EVERY % 2
            else ["attach", str(pid), "--children", "--duration", "0.5", "-f", "-o", str(self.folder / "a")]
        )
        done = subprocess.run(
            [sys.executable, "-m", "topsprof", *words], capture_output=True, text=True, check=False
        )
        self.seen[f"{words[0]}: exit code {done.returncode}"] += 1
        if "Traceback" in done.stderr or done.returncode not in (0, 2):
            self.seen["faults of topsprof"] += 1
            print(done.stderr, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.sampling", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="of the program")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=60, help="of each program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options.python, options.rounds, Path(folder))
        expected = soak.alone()
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            found = soak.visited()
            soak.seen["programs"] += 1
            if found != expected:
                soak.seen["harmed"] += 1
                print(f"expected {expected}\nfound    {found}", file=sys.stderr, flush=True)
    for what, count in sorted(soak.seen.items()):
        print(f"{count:10,} {what}")
    return 1 if soak.seen["harmed"] or soak.seen["faults of topsprof"] else 0


if __name__ == "__main__":
    sys.exit(main())
