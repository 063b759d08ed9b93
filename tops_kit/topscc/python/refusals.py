"""What Python has and kernels don't: why, and what to write instead."""

from __future__ import annotations

import ast

_COMPREHENSION = (
    "comprehensions are not possible in a kernel",
    "work on a tile (tops.iota, tops.where), or write a loop",
)

EXPRESSIONS: dict[type[ast.expr], tuple[str, str]] = {
    ast.ListComp: _COMPREHENSION,
    ast.SetComp: _COMPREHENSION,
    ast.DictComp: _COMPREHENSION,
    ast.GeneratorExp: _COMPREHENSION,
    ast.NamedExpr: ("assignments inside of expressions are not possible", "assign on a line of its own"),
    ast.Dict: ("dictionaries are not possible in a kernel", "use variables, or a tuple"),
    ast.Set: ("sets are not possible in a kernel", "use a tuple"),
    ast.Starred: ("* in a call is not possible", "write each argument"),
    ast.Yield: ("a kernel can't yield", "store results: tops.store(y[...], t)"),
    ast.YieldFrom: ("a kernel can't yield", "store results: tops.store(y[...], t)"),
    ast.Await: ("await in a kernel", "start transfers with tops.load_async, and tops.wait(event)"),
    ast.Slice: ("a slice outside of a subscript", ""),
}

_NO_CLASS = ("classes can't be defined in a kernel", "use functions and tuples")
_NO_ASYNC = ("async is Python's own", "start transfers with tops.load_async, and tops.wait(event)")
_NO_SCOPE = (
    "a kernel can't change variables of the module or of functions around it",
    "give values in as arguments, return them from functions",
)

STATEMENTS: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Try: (
        "there are no exceptions in a kernel",
        "test what could go wrong with if; assert what must hold",
    ),
    ast.TryStar: (
        "there are no exceptions in a kernel",
        "test what could go wrong with if; assert what must hold",
    ),
    ast.Raise: ("there are no exceptions in a kernel", 'write: assert condition, "message"'),
    ast.With: ("with is not possible in a kernel", "transfers end with tops.wait(event)"),
    ast.AsyncWith: _NO_ASYNC,
    ast.AsyncFor: _NO_ASYNC,
    ast.AsyncFunctionDef: _NO_ASYNC,
    ast.ClassDef: _NO_CLASS,
    ast.Global: _NO_SCOPE,
    ast.Nonlocal: _NO_SCOPE,
    ast.Import: ("imports belong at the top of the file", "import outside of the kernel"),
    ast.ImportFrom: ("imports belong at the top of the file", "import outside of the kernel"),
    ast.Delete: (
        "del is not possible in a kernel",
        "variables end with the kernel; buffers keep their place",
    ),
    ast.Match: ("match is not possible in a kernel", "write if and elif"),
}
