"""Kernels and programs that tests of the runtime share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tops_kit as tops

PRELUDE = """
import numpy as np
import tops_kit as tops

@tops.kernel
def scale(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), f: tops.f32 = 2.0):
    n = x.shape[0]
    for i in range(tops.thread_id() * 64, n, tops.num_threads() * 64):
        j = min(i + 64, n)
        tops.store(y[i:j], tops.load(x[i:j]) * f)

@tops.kernel
def spin(x: tops.ptr(tops.f32), rounds: tops.i32):
    t = tops.load(x[0:64])
    for k in range(rounds):
        t = t * 1.0001
    tops.store(x[0:64], t)
"""


@tops.kernel
def scale(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), f: tops.f32 = 2.0):
    n = x.shape[0]
    for i in range(tops.thread_id() * 64, n, tops.num_threads() * 64):
        j = min(i + 64, n)
        tops.store(y[i:j], tops.load(x[i:j]) * f)


@tops.kernel
def add(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), z: tops.ptr(tops.f32)):
    n = x.shape[0]
    for i in range(tops.thread_id() * 64, n, tops.num_threads() * 64):
        j = min(i + 64, n)
        tops.store(z[i:j], tops.load(x[i:j]) + tops.load(y[i:j]))


@tops.kernel
def spin(x: tops.ptr(tops.f32), rounds: tops.i32):
    t = tops.load(x[0:64])
    for _ in range(rounds):
        t = t * 1.0001
    tops.store(x[0:64], t)


@tops.kernel
def picky(x: tops.ptr(tops.f32), n: tops.i32):
    assert n > 5, "too few"
    tops.store(x[n : n + 1], 1.0)


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@contextmanager
def fails_with(name: str, text: str) -> Iterator[None]:
    """Something fails with an error of that name, whose line says so."""
    with pytest.raises(tops.TopsError) as caught:
        yield
    assert caught.value.name == name, caught.value
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def run_program(
    text: str, tmp_path: Path, *, prelude: bool = True, check: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with devices of its own."""
    file = tmp_path / "program.py"
    file.write_text((PRELUDE if prelude else "") + textwrap.dedent(text), encoding="utf-8")
    state = {"TOPS_STATE_DIR": str(tmp_path / "state"), **environ}
    outcome = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True, text=True, env={**os.environ, **state}, cwd=tmp_path, timeout=120, check=False,
    )  # fmt: skip
    if check:
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome
