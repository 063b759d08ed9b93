"""The kernel engine beside numpy on one thread, Triton's interpreter, numba's CUDA simulator and gcc."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import measure
from benchmarks.rows import Row, compare, missing

DESCRIPTION = "the kernel engine: speed, modes, compiling, launching, determinism"

Facts = dict[str, Any]

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_SPEED_BARS = {"add": 2.2, "softmax": 0.6, "gemm": 1.35, "gemm f16": 1.3, "flash": 0.75}
_MODE_BARS = {"counted": 1.1, "timed": 1.2, "sanitized": 1.5, "debug": 2.0}
_MODE_NAMES = {"counted": "counters", "timed": "timing", "sanitized": "sanitizer", "debug": "debug"}
_FREE = 1.7  # what two threads must gain on the machine itself
_TRITON = "Triton interpreter"
_NUMBA = "numba CUDA simulator"


def rows() -> Iterator[Row]:
    """All claims about the engine."""
    yield from _speed(_part("speed"), _peer("triton", "benchmarks.engine_triton", {"TRITON_INTERPRET": "1"}))
    yield from _scalar(
        _part("scalar"), _peer("numba", "benchmarks.engine_numba scalar", {"NUMBA_ENABLE_CUDASIM": "1"})
    )
    yield from _modes(_part("modes"))
    yield missing(
        "reverse step anywhere",
        "ms",
        None,
        "none has it",
        "bar 100 ms; belongs to the debugger, not built yet",
    )
    yield from _compiling(_part("compiling"), _peer("numba", "benchmarks.engine_numba compiling", {}))
    yield from _launching(_part("launching"))
    yield from _threads(_part("threads"))
    yield from _determinism(_part("determinism"))


def _part(name: str) -> Facts:
    child = measure.run_child(measure.python("-m", "benchmarks.engine_child", name), env=_ONE_THREAD)
    found: Facts = json.loads(child.stdout)
    return found


def _peer(module: str, command: str, environment: Mapping[str, str]) -> Facts | str:
    """What a peer measured, or why it could not."""
    if not measure.installed(module):
        return f"{module} is not installed: pip install -e '.[bench,torch]'"
    try:
        done = measure.run_child(measure.python("-m", *command.split()), env={**_ONE_THREAD, **environment})
    except measure.ChildError as error:
        return str(error)
    found: Facts = json.loads(done.stdout)
    return found


def _speed(found: Facts, triton: Facts | str) -> Iterator[Row]:
    backend = found["backend"]
    for key, bar in _SPEED_BARS.items():
        case = found[key]
        ours, numpy = case["ours"], case["numpy"]
        same = "the same product in f32" if key == "gemm f16" else "one thread"
        yield compare(
            f"{case['name']}, one host thread",
            "ms CPU",
            ours["cpu_min"] * 1e3,
            numpy["cpu_min"] * 1e3,
            f"numpy, {same}",
            bar=bar,
            backend=backend,
            note=f"least of 9 alternated; medians {_ms(ours)} and {_ms(numpy)}, ratio of medians "
            f"{ours['cpu_median'] / numpy['cpu_median']:.2f}",
        )
    for key in _SPEED_BARS:
        claim = f"{found[key]['name']} against {_TRITON}"
        ours = found[key]["ours"]["cpu_min"] * 1e3
        if isinstance(triton, str):
            yield missing(claim, "ms CPU", ours, _TRITON, triton, backend=backend)
            continue
        scale = triton[key]["scale"]
        peer = triton[key]["cpu_min"] * 1e3 * scale
        note = f"it ran 1/{scale} of the blocks, scaled up; {peer / ours:.0f}x ours"
        yield compare(claim, "ms CPU", ours, peer, _TRITON, backend=backend, note=note)


def _scalar(found: Facts, numba: Facts | str) -> Iterator[Row]:
    for kind in ("i32", "f32"):
        ours, oracle = found[kind]["ours"], found[kind]["oracle"]
        yield compare(
            f"scalar code, {kind}: an instruction",
            "ns",
            ours["cpu_min"],
            oracle["cpu_min"],
            "Python interpreter of the same program",
            bar=2.5,
            bar_on="ours",
            backend=found["backend"],
            note=f"{found[kind]['instructions']} instructions a turn; median {ours['cpu_median']:.2f}",
        )
    claim = "scalar code on 24 threads"
    if isinstance(numba, str):
        yield missing(claim, "ms CPU", None, _NUMBA, numba, backend=found["backend"])
        return
    scale = numba["scale"]
    yield compare(
        f"{claim}, {numba['turns']:,} turns each",
        "ms CPU",
        numba["ours"]["cpu_min"] * 1e3,
        numba["numba"]["cpu_min"] * 1e3 * scale,
        _NUMBA,
        backend=found["backend"],
        note=f"it ran 1/{scale:.0f} of the turns, scaled up",
    )


def _modes(found: Facts) -> Iterator[Row]:
    for mode, bar in _MODE_BARS.items():
        for key in ("add", "softmax", "gemm", "flash", "histogram", "counting"):
            case = found[key]
            if mode not in case:
                continue
            ours, fast = case[mode], case["fast"]
            yield compare(
                f"{_MODE_NAMES[mode]}: {case['name']}",
                "ms CPU",
                ours["cpu_min"] * 1e3,
                fast["cpu_min"] * 1e3,
                "fast mode",
                bar=bar,
                backend=found["backend"],
                note=f"least of 11 alternated; ratio of medians {ours['cpu_median'] / fast['cpu_median']:.2f}"
                + ("; one atomic a turn: the least that a turn can do" if key == "counting" else ""),
            )


def _compiling(found: Facts, numba: Facts | str) -> Iterator[Row]:
    gcc = None if found["gcc"] is None else found["gcc"] * 1e3
    for name, times in found["kernels"].items():
        claim = f"compile {name}"
        if "failed" in times:
            yield Row(claim, None, None, "", "ms CPU", bar=10, bar_on="ours", ok=False, note=times["failed"])
            continue
        yield compare(
            claim,
            "ms CPU",
            times["cpu_min"] * 1e3,
            gcc if name == "softmax" else None,
            "gcc -O2 of a softmax in C, wall" if name == "softmax" else "",
            bar=10,
            bar_on="ours",
            note=f"median {times['cpu_median'] * 1e3:.1f} ms",
        )
    claim, ours = "compile the first kernel of a process, compiler loaded with it", found["first"] * 1e3
    if isinstance(numba, str):
        yield missing(claim, "ms CPU", ours, "numba.njit of a softmax, first", numba)
        return
    yield compare(claim, "ms CPU", ours, numba["first"] * 1e3, "numba.njit of a softmax, first")


def _launching(found: Facts) -> Iterator[Row]:
    claims = (
        ("engine", "launch of an empty kernel on 24 threads, engine alone", 50.0),
        ("empty", "launch of an empty kernel from Python, fast", None),
        ("arrays", "launch from Python with 3 arrays and a number, nothing to do, fast", None),
        ("timed", "launch from Python with 3 arrays and a number, nothing to do, timed", None),
    )
    for key, claim, bar in claims:
        times = found[key]
        note = f"median {times['cpu_median'] * 1e6:.1f} us"
        if bar is None:
            note += "; through Python; what a launch in a program costs: python -m benchmarks runtime"
        yield compare(
            claim,
            "us CPU",
            times["cpu_min"] * 1e6,
            None,
            "",
            bar=bar,
            bar_on="ours",
            backend=found["backend"],
            note=note,
        )


def _threads(found: Facts) -> Iterator[Row]:
    for key in ("softmax", "gemm"):
        case = found[key]
        one, two = case["1"], case["2"]
        gain = one["wall_min"] / two["wall_min"]
        machine = 2 * case["numpy 1"]["wall_min"] / case["numpy 2"]["wall_min"]
        # a machine whose second core is taken says nothing about us
        free = found["cores"] >= 2 and machine >= _FREE
        note = f"{one['wall_min'] * 1e3:.1f} and {two['wall_min'] * 1e3:.1f} ms, the least of 100; "
        note += (
            f"{found['cores']} cores" if free else f"not judged: the second core is not free (needs {_FREE}x)"
        )
        yield compare(
            f"two host threads: {case['name']}, times as fast as one",
            "x",
            gain,
            machine,
            "numpy, two products in two threads",
            bar=1.5 if free else None,
            bar_on="ours",
            at_least=True,
            backend=found["backend"],
            note=note,
        )


def _determinism(found: Facts) -> Iterator[Row]:
    kernels = found["kernels"]
    failed = [f"{name}: {facts['failed']}" for name, facts in kernels.items() if "failed" in facts]
    ran = {name: facts for name, facts in kernels.items() if "failed" not in facts}
    launches = sum(facts["launches"] for facts in ran.values())
    claims = (
        ("bits", "same bits over runs, 1 and 2 host threads, and all modes"),
        ("ns", "same ns over runs, 1 and 2 host threads"),
    )
    for what, claim in claims:
        other = [name for name, facts in ran.items() if facts[what] != 1]
        yield Row(
            f"{claim}: kernels that differ",
            len(other) + len(failed),
            None,
            "",
            "kernels",
            bar=0,
            bar_on="ours",
            ok=not other and not failed,
            backend=found["backend"],
            note="; ".join([f"{len(ran)} sample kernels, {launches} launches", *other, *failed]),
        )


def _ms(times: Mapping[str, float]) -> str:
    return f"{times['cpu_median'] * 1e3:.1f} ms"
