"""Nanoseconds per annotation, off and on, beside an empty Python call and nvtx in the same run.

    python benchmarks/recorder_micro.py [--pairs N] [--repeats N] [--json] [--no-peers]

Each figure is the median over repeats of the least CPU time per turn of a burst, less the bare loop's;
`(x)` is the ratio to calling `def empty(): pass` in the same process. "on" records into a session with its
collector running where tops_kit is installed, otherwise into rings that drop when full (the header says so).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BURST = 5000  # turns timed at a time; the least of a repeat's bursts is what the machine's other work spared
BODIES = {
    "empty call": "empty()",
    "push/pop": "push('work'); pop()",
    "with": "with annotate('work'): pass",
    "with, domain and payload": "with annotate('work', domain='io', payload=7): pass",
    "decorator": "decorated()",
    "domain push/pop": "domain.push_range('work'); domain.pop_range()",
    "mark": "mark('work')",
    "start/end": "end(start('work'))",
    "counter": "sample(3)",
}


def measure(names: dict[str, object], turns: int, repeats: int) -> dict[str, float]:
    """ns of CPU per turn of every body: the median over repeats (interleaved) of the least burst."""
    loops = {}
    for label, body in {"loop": "pass", **BODIES}.items():
        space = dict(names)
        exec(f"def loop(turns):\n    for _ in turns:\n        {body}\n", space)
        loops[label] = space["loop"]
    times: dict[str, list[float]] = {label: [] for label in loops}
    for _ in range(repeats):
        for label, loop in loops.items():
            least = float("inf")
            for _ in range(max(1, turns // BURST)):
                begin = time.thread_time_ns()
                loop(range(BURST))
                least = min(least, (time.thread_time_ns() - begin) / BURST)
            times[label].append(least)
    bare = statistics.median(times.pop("loop"))
    return {label: statistics.median(found) - bare for label, found in times.items()}


def topstx_names() -> dict[str, object]:
    import topstx

    @topstx.annotate("work")
    def decorated() -> None:
        pass

    def empty() -> None:
        pass

    return {
        "empty": empty,
        "decorated": decorated,
        "annotate": topstx.annotate,
        "push": topstx.push_range,
        "pop": topstx.pop_range,
        "mark": topstx.mark,
        "start": topstx.start_range,
        "end": topstx.end_range,
        "domain": topstx.get_domain("io"),
        "sample": topstx.counter("depth").sample,
    }


def nvtx_names() -> dict[str, object]:
    import nvtx

    @nvtx.annotate("work")
    def decorated() -> None:
        pass

    def empty() -> None:
        pass

    domain = nvtx.get_domain("io")

    class Attributes:
        """nvtx's Domain takes prepared attributes: prepared here, outside of the loop."""

        def __init__(self) -> None:
            self.work = domain.get_event_attributes("work")

        def push_range(self, _: str) -> None:
            domain.push_range(self.work)

        def pop_range(self) -> None:
            domain.pop_range()

    return {
        "empty": empty,
        "decorated": decorated,
        "annotate": nvtx.annotate,
        "push": nvtx.push_range,
        "pop": nvtx.pop_range,
        "mark": nvtx.mark,
        "start": nvtx.start_range,
        "end": nvtx.end_range,
        "domain": Attributes(),
        "sample": lambda value: None,
    }


def child(which: str, turns: int, repeats: int) -> None:
    names = nvtx_names() if which == "nvtx" else topstx_names()
    backend = which
    if which != "nvtx":
        import topstx

        backend = topstx.backend()
    json.dump({"backend": backend, "ns": measure(names, turns, repeats)}, sys.stdout)


def run(which: str, turns: int, repeats: int, environment: dict[str, str]) -> dict[str, object]:
    command = [sys.executable, __file__, "--child", which, "--pairs", str(turns), "--repeats", str(repeats)]
    keep = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    done = subprocess.run(command, env={**keep, **environment}, stdout=subprocess.PIPE, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


class LiveSession:
    """A session to record into: with its collector, or without one where tops_kit is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.collector: subprocess.Popen[bytes] | None = None
        self.leash = -1
        self.note = "no collector: rings that drop when full"

    def __enter__(self) -> LiveSession:
        held, self.leash = os.pipe()
        command = [sys.executable, "-m", "tops_kit.collect", str(self.folder), "--leash", str(held)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[held],
        )
        os.close(held)
        assert process.stdout is not None
        if process.stdout.readline().strip() == b"ready":
            self.collector, self.note = process, "collector live"
            return self
        process.wait()
        from topstx.recorder import layout

        for name in ("rings", "names"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "control").write_bytes(
            layout.control_bytes(policy=layout.POLICY_DROP, ring_max_records=1 << 20)
        )
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.leash)
        if self.collector is not None:
            assert self.collector.stdout is not None
            self.collector.stdout.close()
            self.collector.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=200_000, help="turns of a loop (default 200000)")
    parser.add_argument("--repeats", type=int, default=9, help="loops of each kind (default 9)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-peers", action="store_true", help="leave nvtx out")
    parser.add_argument("--child", choices=["topstx", "nvtx"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.pairs, args.repeats)
        return
    results = {
        "off": run("topstx", args.pairs, args.repeats, {}),
        "disabled": run("topstx", args.pairs, args.repeats, {"TOPSTX_DISABLE": "1"}),
    }
    with (
        tempfile.TemporaryDirectory(prefix="topstx-") as home,
        LiveSession(Path(home) / "b.topsprof") as session,
    ):
        results["on"] = run("topstx", args.pairs, args.repeats, {"TOPSTX_SESSION": str(session.folder)})
        note = session.note
    if not args.no_peers:
        results["nvtx off"] = run("nvtx", args.pairs, args.repeats, {})
    if args.json:
        print(json.dumps({"note": note, **results}))
        return
    print(f"ns per turn (x empty call); back end {results['on']['backend']}; on: {note}")
    print(f"{'':26}" + "".join(f"{column:>18}" for column in results))
    for label in BODIES:
        cells = []
        for column in results.values():
            ns = column["ns"]
            assert isinstance(ns, dict)
            cells.append(f"{ns[label]:9.1f} ({ns[label] / ns['empty call']:5.2f})")
        print(f"{label:26}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
