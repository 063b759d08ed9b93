"""One part of the engine's benchmark in its own process: `-m benchmarks.engine_child PART` prints JSON.

Its process has one BLAS thread, so that numpy is measured on one core as the engine is.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np

from benchmarks import engine_cases as cases
from benchmarks.engine_measure import alternate, as_json
from tops_kit.engine.launch import ENGINES, launch
from tops_kit.engine.options import MODES
from tops_kit.errors import UserError
from tops_kit.runtime.kernel import Definition, Kernel

Facts = dict[str, Any]

_SCALAR_TURNS, _FEW_TURNS = 3_000_000, 20_000
_C_SOFTMAX = r"""
#include <math.h>
void softmax(const float *x, float *y, int rows, int columns) {
    for (int r = 0; r < rows; r++) {
        const float *from = x + (long)r * columns;
        float *to = y + (long)r * columns, greatest = -INFINITY, sum = 0;
        for (int i = 0; i < columns; i++) greatest = fmaxf(greatest, from[i]);
        for (int i = 0; i < columns; i++) sum += to[i] = expf(from[i] - greatest);
        for (int i = 0; i < columns; i++) to[i] /= sum;
    }
}
"""


def speed() -> Facts:
    """Kernels in the fast mode on one host thread, and numpy."""
    out = {}
    makers: tuple[Callable[[], cases.Case], ...] = (
        cases.vector_add,
        cases.softmax,
        cases.gemm,
        lambda: cases.gemm(kind="f16"),
        cases.flash_attention,
    )
    for key, make in zip(("add", "softmax", "gemm", "gemm f16", "flash"), makers, strict=True):
        case = make()
        case.check()
        bodies = {"ours": case.launcher(mode="fast", host_threads=1), "numpy": case.reference}
        out[key] = {"name": case.name, **as_json(alternate(bodies, 9))}
    return out


def scalar() -> Facts:
    """ns per instruction of scalar loops: the machine, and the Python interpreter of the same programs."""
    out = {}
    for key, kernel, dtype in (
        ("i32", cases.scalar_ints, np.int32),
        ("f32", cases.scalar_floats, np.float32),
    ):
        result = np.zeros(cases.THREADS, dtype)
        # what one turn of the loop runs
        counts = kernel.options(mode="counted")[1](result, 1000).counts
        assert counts is not None
        instructions = round(int(counts.sum()) / 1000)
        machine = kernel.options(mode="fast", host_threads=1)[1]
        ours = alternate({"ours": partial(machine, result, _SCALAR_TURNS)}, 9)
        python = kernel.options(mode="fast", engine="oracle")[1]
        oracle = alternate({"oracle": partial(python, result, _FEW_TURNS)}, 3)
        out[key] = {
            "instructions": instructions,
            "ours": _scaled(as_json(ours)["ours"], 1e9 / (instructions * _SCALAR_TURNS)),
            "oracle": _scaled(as_json(oracle)["oracle"], 1e9 / (instructions * _FEW_TURNS)),
        }
    return out


def _scaled(times: dict[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor for name, value in times.items()}


def modes() -> Facts:
    """Every mode beside the fast one."""
    out = {}
    makers: dict[str, tuple[Callable[[], cases.Case], int]] = {
        "add": (cases.vector_add, 1),
        "softmax": (cases.softmax, 1),
        "gemm": (lambda: cases.gemm(1024), 1),
        "flash": (cases.flash_attention, 1),
        "histogram": (cases.histogram, 3),
        "counting": (cases.counting, 1),
    }
    for key, (make, calls) in makers.items():
        case = make()
        bodies: dict[str, Callable[[], Any]] = {
            mode: case.launcher(mode=mode, host_threads=1)
            for mode in (MODES if key != "counting" else ("fast", "sanitized"))
        }
        out[key] = {"name": case.name, **as_json(alternate(bodies, 11, calls))}
    return out


def compiling() -> Facts:
    """ms per sample kernel, from its Python source to the program; gcc on the same softmax."""
    out: Facts = {"first": None, "kernels": {}}
    for name, kernel in cases.samples().items():
        arguments = _arguments(kernel)[0]
        begin = time.process_time()
        try:
            _compile(kernel, arguments)
        except UserError as reason:
            out["kernels"][name] = {"failed": str(reason).splitlines()[0]}
            continue
        if out["first"] is None:
            out["first"] = time.process_time() - begin
        found = alternate({name: partial(_compile, kernel, arguments)}, 7)
        out["kernels"][name] = as_json(found)[name]
    out["gcc"] = _gcc()
    return out


def _compile(kernel: Kernel, arguments: Facts) -> None:
    """As at its first launch: nothing of it is kept."""
    Kernel(Definition(cast(FunctionType, kernel.function))).compile(**arguments)


def _gcc() -> float | None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "softmax.c"
        source.write_text(_C_SOFTMAX)
        words = ["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(source.with_suffix(".so")), "-lm"]
        least = None
        for _ in range(5):
            begin = time.perf_counter()
            try:
                subprocess.run(words, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                return None
            taken = time.perf_counter() - begin
            least = taken if least is None else min(least, taken)
        return least


def launching() -> Facts:
    """What a launch costs that has nothing to do: the engine alone, and from Python with arrays."""
    program = cases.empty.compile()
    blocks = cases.empty.shape(cases.THREADS)
    empty, add = cases.empty.options(mode="fast"), cases.sample("vector_add")
    fast, timed = (add.options(mode=mode) for mode in ("fast", "timed"))
    x, y, z = (np.zeros(0, np.float32) for _ in range(3))
    bodies = {
        "engine": lambda: launch(program, [], grid=blocks[0], block=blocks[1], mode="fast"),
        "empty": lambda: empty[cases.THREADS](),  # noqa: PLW0108 (the subscript is part of it)
        "arrays": lambda: fast[cases.THREADS](x, y, z, 0, BLOCK=128),
        "timed": lambda: timed[cases.THREADS](x, y, z, 0, BLOCK=128),
    }
    return as_json(alternate(bodies, 25, 200))


def two_threads() -> Facts:
    """One and two host threads, wall time; and what two threads of numpy gain: what the machine has.

    Launches are short and many: the least of them met the moments in which both cores were free.
    """
    out: Facts = {"cores": ENGINES.cores}
    a = np.random.default_rng(0).random((768, 768), np.float32)
    multiply = partial(np.matmul, a, a)

    def multiply_twice() -> None:
        helper = threading.Thread(target=multiply)
        helper.start()
        multiply()
        helper.join()

    for key, case in (("softmax", cases.softmax()), ("gemm", cases.gemm(1024))):
        bodies: dict[str, Callable[[], Any]] = {"numpy 1": multiply, "numpy 2": multiply_twice}
        for n in (1, 2):
            bodies[str(n)] = case.launcher(mode="fast", host_threads=n)
        out[key] = {"name": case.name, **as_json(alternate(bodies, 100))}
    return out


def determinism() -> Facts:
    """Results and times of every sample kernel: over runs, host threads and modes."""
    out: Facts = {}
    for name, kernel in cases.samples().items():
        try:
            out[name] = _differences(kernel)
        except UserError as reason:
            out[name] = {"failed": str(reason).splitlines()[0]}
    return {"kernels": out}


def _differences(kernel: Kernel) -> Facts:
    bits, ns, launches = set(), set(), 0
    for mode in MODES:
        for host_threads in (1, 2, 2):
            arguments, threads = _arguments(kernel)
            run = kernel.options(mode=mode, host_threads=host_threads, quiet=True)
            done = run[threads](**arguments)
            launches += 1
            bits.add(_digest(arguments))
            if mode == "timed":
                ns.add(done.ns)
    return {"bits": len(bits), "ns": len(ns), "launches": launches}


def _arguments(kernel: Kernel) -> tuple[Facts, Any]:
    """The example's arguments, and the threads that it is launched with."""
    arguments = kernel.examples.arguments({})
    threads, grid, block = (arguments.pop(key, None) for key in ("threads", "grid", "block"))
    if block is not None or grid is not None:
        return arguments, (grid or 1, block or kernel.part.sips_per_cluster)
    return arguments, threads or kernel.part.sips


def _digest(arguments: Facts) -> str:
    found = hashlib.sha256()
    for value in arguments.values():
        if isinstance(value, np.ndarray):
            found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


PARTS: dict[str, Callable[[], Facts]] = {
    "speed": speed,
    "scalar": scalar,
    "modes": modes,
    "compiling": compiling,
    "launching": launching,
    "threads": two_threads,
    "determinism": determinism,
}


def main() -> None:
    """Measure the part that is named."""
    engine = ENGINES.c()
    backend = f"C, {engine.tiles}" if engine else "oracle"
    json.dump({"backend": backend, **PARTS[sys.argv[1]]()}, sys.stdout)


if __name__ == "__main__":
    main()
