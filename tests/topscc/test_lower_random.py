"""Random kernels: what lowering makes of a tree does what the tree says, also when transfers land late."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topscc.generator import OUTPUTS, Generator
from tests.topscc.interpreter import Interpreter
from tests.topscc.sketch import as_argument
from tops_kit.engine.launch import ENGINES, launch
from tops_kit.isa.verify import verify
from tops_kit.topscc.lower import lower
from tops_kit.topscc.tree_text import tree_text


def check(seed: int, size: int = 30) -> None:
    """One kernel on the interpreter and the machine, there also with transfers that move late."""
    sketch = Generator(seed, size).kernel()
    kernel = sketch.tree()
    program = lower(kernel)
    verify(program)
    assert tree_text(kernel).startswith(f"kernel random_{seed}")
    random = np.random.default_rng(seed)
    x = random.integers(-9, 9, (8, 8)).astype(np.float32)
    n = int(random.integers(0, 9))
    wanted = np.zeros((OUTPUTS, 4, 8), np.float32)
    Interpreter(kernel, x, wanted, n).run()
    late = ENGINES.c() is not None
    for mode, defer in [("fast", False), *([("debug", True)] if late else [])]:
        y = np.zeros_like(wanted)
        arguments = [as_argument(x), as_argument(y), n]
        launch(program, arguments, grid=(1,), block=(1,), mode=mode, defer=defer)
        np.testing.assert_array_equal(y, wanted, err_msg=f"seed {seed}, {mode}")


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore:kernels run on the Python oracle")
@pytest.mark.parametrize("seed", range(12))
def test_a_few_known_kernels(seed: int) -> None:
    check(seed)


@pytest.mark.filterwarnings("ignore:kernels run on the Python oracle")
@given(st.integers(100, 1 << 30))
@settings(max_examples=80, deadline=None)
def test_random_kernels(seed: int) -> None:
    check(seed)
