"""What to write instead of names that people bring from elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from tops_kit.topscc import language
from tops_kit.topscc.language.types import WIDE

# names of Triton, numpy, torch and TopsCC for which ours differ
_OTHERS = {
    "exp2": "tops.exp(x * 0.6931472)", "log2": "tops.log(x) * 1.442695", "log10": "tops.log(x) * 0.4342945",
    "softmax": "e = tops.exp(x - tops.rowmax(x)); e / tops.rowsum(e)", "relu": "tops.maximum(x, 0.0)",
    "float32": "tops.f32", "float16": "tops.f16", "bfloat16": "tops.bf16", "int32": "tops.i32",
    "int16": "tops.i16", "int8": "tops.i8", "uint8": "tops.u8", "int1": "tops.bool_",
    "make_block_ptr": "a slice: x[i:i+BLOCK]", "advance": "a slice: x[i:i+BLOCK]",
    "expand_dims": "tops.reshape(t, (n, 1)), or t[:, None]", "broadcast_to": "nothing: extents of 1 stretch",
    "trans": "t.T", "permute": "tops.transpose(t, axes)", "view": "tops.reshape(t, shape)",
    "ravel": "tops.reshape(t, (-1,))", "debug_barrier": "tops.barrier()", "device_print": "print(...)",
    "static_print": "print(...), which prints when the kernel runs", "device_assert": "assert",
    "matmul": "a @ b, or tops.mma(acc, a, b)", "power": "x ** n", "pow": "x ** n",
    "square": "x * x", "mean": "tops.sum(x, axis) / n", "atomic_xchg": "tops.atomic_exchange",
    "syncthreads": "tops.barrier()", "syncblocks": "tops.grid_barrier()", "fabs": "tops.abs(x)",
    "ones": "tops.full(dtype, shape, 1)", "empty": "tops.zeros(dtype, shape)",
    "shared": "tops.l2(dtype, shape)", "private": "tops.l1(dtype, shape)",
    "clamp": "tops.minimum(tops.maximum(x, low), high)", "clip": "tops.minimum(tops.maximum(x, low), high)",
    "take": "tops.gather(t, index, axis)", "concatenate": "slices of one L1 buffer",
    "cat": "slices of one L1 buffer",
}  # fmt: skip
# what a word takes, where the names of its parameters don't tell
FORMS = {
    "load": "x[...], pad=), or (buffer, x[...], pad=, channel=",
    "print": "any values, sep=",
}
_MASKS = "no masks: x[i:min(i+B, n)], or load with pad= and store with clip=True what may reach outside"
_KEYWORDS = {
    "mask": _MASKS, "other": _MASKS, "boundary_check": _MASKS, "padding_option": _MASKS,
    "keepdims": "leave it out: the axis always stays, with extent 1; t[:, 0] takes it away",
    "keep_dims": "leave it out: the axis always stays, with extent 1; t[:, 0] takes it away",
}  # fmt: skip
FOREIGN = ("numpy", "torch", "triton", "jax", "cupy", "scipy", "math", "cmath", "numba")


def module_hint(module: ModuleType, name: str, reason: str) -> tuple[str, str]:
    """What is wrong with `module.name`, which does not exist, and what to write."""
    if not module.__name__.startswith("tops_kit"):
        return f"{reason or f'{module.__name__} has no {name}'}", "look for its name in the module"
    if name in WIDE:
        return f"the GCU has no 64-bit types such as {name}", f"use tops.{WIDE[name]}"
    if name in _OTHERS:
        return f"there is no tops.{name}", f"write {_OTHERS[name]}"
    near = difflib.get_close_matches(name, language.__all__, 1)
    return (
        f"there is no tops.{name}",
        f"did you mean tops.{near[0]}?" if near else "docs/kernel-language.md names every operation",
    )


def keyword_hint(keywords: Iterable[str]) -> str:
    """What to write instead of an argument that others' functions have; empty: nothing is known."""
    return next((_KEYWORDS[keyword] for keyword in keywords if keyword in _KEYWORDS), "")


def foreign_hint(function: Any) -> tuple[str, str]:
    """What is wrong with calling a function that Python has and the device doesn't, and what to write."""
    name = getattr(function, "__name__", None) or type(function).__name__
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    root = module.partition(".")[0]
    shown = f"{root}.{name}" if root not in ("builtins", "__main__") else name
    what = f"{shown} can't be called in a kernel"
    if name in language.__all__:
        return what, f"write tops.{name}"
    if name in _OTHERS:
        return what, f"write {_OTHERS[name]}"
    if root in FOREIGN:
        near = difflib.get_close_matches(name, language.__all__, 1)
        return what, f"did you mean tops.{near[0]}?" if near else "see the operations of tops"
    return what, "call plain Python functions (they are inlined), and the operations of tops"
