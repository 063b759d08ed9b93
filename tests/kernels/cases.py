"""The sample kernels with the arguments that they are tried with: several shapes and types, tails."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.engine.launch import LaunchResult, launch
from tops_kit.isa.program import Program
from tops_kit.runtime.arguments import Arguments
from tops_kit.runtime.examples import LAUNCH_KEYS
from tops_kit.runtime.kernel import Kernel
from tops_kit.runtime.kernel_files import kernel_of
from tops_kit.topscc.language.types import PointerType

FOLDER = Path(__file__).parents[2] / "sample_apps" / "kernels"


@cache
def sample(name: str) -> Kernel:
    """The kernel of a file."""
    return kernel_of(FOLDER / f"{name}.py", None)


@dataclass(frozen=True)
class Case:
    """A kernel, and options for its example."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: Any = None

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.options.items()]
        return "-".join([self.name, *([str(self.dtype)] if self.dtype else []), *shown])

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return sample(self.name)

    def arguments(self) -> dict[str, Any]:
        """New arguments, always the same."""
        options = dict(self.options)
        if self.dtype is not None:
            options["dtype"] = tops.f32 if self.dtype == tops.bf16 else self.dtype
        given = self.kernel.examples.arguments(options)
        given = {name: value for name, value in given.items() if name not in LAUNCH_KEYS}
        return self._in_bf16(given) if self.dtype == tops.bf16 else given

    def _in_bf16(self, given: dict[str, Any]) -> dict[str, Any]:
        """With torch's tensors where the kernel takes any type."""
        torch = pytest.importorskip("torch", reason="numpy has no bf16")
        free = {
            p.name for p in self.kernel.parameters if isinstance(p.type, PointerType) and p.type.dtype is None
        }
        return {
            name: torch.from_numpy(value).bfloat16() if name in free and value.dtype == np.float32 else value
            for name, value in given.items()
        }

    def launch(
        self, kernel: Kernel, *, threads: int | None = None, **options: Any
    ) -> tuple[LaunchResult, Program, dict[str, Any]]:
        """Launch it on new arguments: the engine's result, the program, and the arguments after it."""
        arguments = self.arguments()
        program = kernel.compile(**arguments)
        matched = Arguments(kernel.parameters)
        values = matched.ordered((), arguments)
        packed, _ = matched.pack(values, matched.described(values))
        grid, block = kernel.shape(threads or arguments.get("THREADS", kernel.part.sips))
        result = launch(program, packed, grid=grid, block=block, spec=kernel.part, **options)
        return result, program, arguments

    def check(self, after: Mapping[str, Any]) -> None:
        """Compare arrays after a launch with the reference."""
        examples = self.kernel.examples
        before = {name: numbers(value) for name, value in self.arguments().items()}
        program = self.kernel.compile(**self.arguments())
        stored = [pointer.name for pointer in program.pointers if pointer.stored or pointer.atomic]
        assert not examples.differences(examples.expected(before, stored), after)


def numbers(value: Any) -> Any:
    """Tensors of bf16 as f32; everything else as it is."""
    return value.float().numpy() if hasattr(value, "bfloat16") else value


def bits(arguments: Mapping[str, Any]) -> dict[str, bytes]:
    """The arrays among arguments, as bytes."""
    arrays = {name: numbers(value) for name, value in arguments.items()}
    return {name: value.tobytes() for name, value in arrays.items() if isinstance(value, np.ndarray)}


def _cases(name: str, *options: str, types: str = "") -> list[Case]:
    """A case for each of the options ("n=3 BLOCK=4"), and for each of the types one with the last of them."""
    read = [
        {key: literal_eval(value) for key, _, value in (part.partition("=") for part in text.split())}
        for text in options
    ]
    halves = [Case(name, read[-1], getattr(tops, dtype)) for dtype in types.split()]
    return [*(Case(name, some) for some in read), *halves]


# the first of each kernel is its smallest: the oracle runs it too
CASES = [
    *_cases(
        "vector_add", "n=70 BLOCK=32", "n=1 BLOCK=32", "n=0", "n=5000 BLOCK=128", types="f16 bf16 i8 i32"
    ),
    *_cases("axpy", "n=70 BLOCK=32", "n=1 BLOCK=32", "n=5000 BLOCK=128", types="f16 bf16"),
    *_cases(
        "softmax", "rows=3 COLS=20", "rows=1 COLS=1", "rows=30 COLS=1000", "rows=53 COLS=77", types="f16 bf16"
    ),
    *_cases(
        "layer_norm",
        "rows=5 COLS=20 ROWS=2",
        "rows=1 COLS=7",
        "rows=1024 COLS=2",
        "rows=130 COLS=333",
        types="f16 bf16",
    ),
    *_cases("rms_norm", "rows=5 COLS=20 ROWS=2", "rows=1 COLS=7", "rows=130 COLS=333", types="f16 bf16"),
    *_cases("bias_gelu", "rows=3 COLS=20 ROWS=2", "rows=1 COLS=1", "rows=101 COLS=77", types="f16 bf16"),
    *_cases(
        "rotary", "n=5 HEADS=2 D=8 BLOCK=2", "n=1 HEADS=1 D=2", "n=101 HEADS=3 D=20 BLOCK=4", types="f16 bf16"
    ),
    *_cases(
        "top_k",
        "rows=3 COLS=12 K=2 ROWS=2",
        "rows=1 COLS=4 K=4",
        "rows=101 COLS=77 K=5 ROWS=4",
        types="f16 bf16 i8",
    ),
    *_cases("gemm_naive", "m=3 N=5 K=4", "m=1 N=1 K=1", "m=30 N=40 K=20"),
    *[
        case
        for name in ("gemm_tiled", "gemm_double_buffered")
        for case in _cases(
            name,
            "m=5 n=6 k=7 BM=4 BN=4 BK=4",
            "m=1 n=1 k=1",
            "m=64 n=64 k=64 BM=32 BN=32 BK=16",
            "m=100 n=70 k=50 BM=32 BN=16 BK=16",
            types="f16 bf16",
        )
    ],
    *_cases(
        "gemm_split_k",
        "m=5 n=6 k=20 SPLITS=3 BM=4 BN=4 BK=4",
        "m=1 n=1 k=1",
        "m=64 n=64 k=256 SPLITS=6 BM=32 BN=32 BK=16",
        "m=50 n=33 k=300 SPLITS=7 BM=32 BN=16 BK=16",
        types="f16 bf16",
    ),
    *_cases(
        "gemm_int8",
        "m=5 n=6 k=7 BM=4 BN=4 BK=4",
        "m=1 n=1 k=1",
        "m=100 n=70 k=200 BM=32 BN=16 BK=32",
        types="f16 bf16",
    ),
    *[
        case
        for causal in (False, True)
        for case in _cases(
            "flash_attention",
            f"heads=1 length=6 D=4 BQ=4 BK=4 CAUSAL={causal}",
            f"heads=2 length=1 D=8 CAUSAL={causal}",
            f"heads=2 length=64 D=16 BQ=16 BK=32 CAUSAL={causal}",
            f"heads=3 length=75 D=16 BQ=32 BK=16 CAUSAL={causal}",
            types="f16 bf16",
        )
    ],
    *_cases(
        "paged_attention",
        "sequences=2 key_heads=1 GROUP=2 PAGE=4 MOST=2 D=4",
        "sequences=3 key_heads=2 GROUP=1 PAGE=8 MOST=3 D=16",
        "sequences=7 key_heads=3 GROUP=4 PAGE=16 MOST=5 D=20",
        types="f16 bf16",
    ),
    *[
        case
        for name in ("conv2d_direct", "conv2d_im2col")
        for case in _cases(
            name,
            "images=1 C=2 OUT=3 height=4 width=5 BX=4",
            "images=2 C=3 OUT=4 height=9 width=11 STRIDE=2 BX=4",
            "images=1 C=4 OUT=2 height=8 width=8 R=1 S=1 PAD=0 BX=8",
            "images=2 C=5 OUT=6 height=12 width=20 R=5 S=3 PAD=2 STRIDE=2 BX=8",
            types="f16 bf16",
        )
    ],
    *_cases(
        "embedding",
        "n=10 vocabulary=5 D=8 BLOCK=4",
        "n=1 D=3",
        "n=333 vocabulary=50 D=40 BLOCK=16",
        types="f16 bf16 i8",
    ),
    *_cases(
        "transpose",
        "rows=5 cols=7 BM=4 BN=4",
        "rows=1 cols=1",
        "rows=64 cols=128 BM=16 BN=32",
        "rows=101 cols=77 BM=16 BN=32",
        types="f16 bf16 i8 i32",
    ),
    *_cases(
        "stencil",
        "rows=5 cols=6 steps=2 BM=4 BN=4",
        "rows=1 cols=1 steps=2",
        "rows=40 cols=100 steps=4 BM=16 BN=32",
    ),
    *_cases(
        "histogram", "n=70 BINS=10 BLOCK=32", "n=0 BINS=4", "n=20000 BINS=100 BLOCK=512", types="i16 i32 i8"
    ),
    *_cases("block_reduction", "n=70 BLOCK=32", "n=1", "n=9999 BLOCK=128", types="f16 bf16 i32"),
    *_cases(
        "prefix_scan",
        "n=70 THREADS=4 BLOCK=16",
        "n=1 THREADS=24 BLOCK=16",
        "n=5000 THREADS=24 BLOCK=64",
        "n=6144 THREADS=12 BLOCK=128",
        types="f32",
    ),
]


def smallest() -> list[Case]:
    """The smallest case of each kernel; of flash attention both forms."""
    seen: dict[tuple[str, Any], Case] = {}
    for case in CASES:
        seen.setdefault((case.name, case.options.get("CAUSAL")), case)
    return list(seen.values())
