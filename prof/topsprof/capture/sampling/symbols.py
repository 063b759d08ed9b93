"""Symbols as people read them: names of C++ without their mangling, arguments and template arguments."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

LONGEST: Final = 80
"""Characters that are kept of a name."""

_MANGLED_MAX: Final = 4096
_PREFIXES: Final = ("_GLOBAL__sub_I_", "_GLOBAL__sub_D_")


def readable(symbol: str) -> str:
    """A symbol as it is shown; what can't be demangled here is kept, up to LONGEST characters."""
    name = symbol
    if symbol.startswith("_Z") and len(symbol) <= _MANGLED_MAX:
        whole = _demangled(symbol)
        name = without_arguments(whole) if whole else symbol
    elif symbol.startswith(_PREFIXES):
        name = f"initializers of {symbol[len(_PREFIXES[0]) :]}"
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def without_arguments(name: str) -> str:
    """A demangled name without its arguments, template arguments and result.

    >>> without_arguments("void at::native::add<float, (int)3>(at::Tensor const&, long) [clone .cold]")
    'at::native::add'
    >>> without_arguments("(anonymous namespace)::Pool::run(int)::{lambda(long)#1}::operator()(long) const")
    '(anonymous)::Pool::run::{lambda}::operator()'
    """
    text = name.replace("(anonymous namespace)", "\0")
    kept: list[str] = []
    depth = 0
    at = 0
    while at < len(text):
        rest = text[at:]
        if not depth and rest.startswith("operator"):
            end = at + len("operator")
            while (
                end < len(text)
                and text[end] in "()<>[]=!+-*/%&|^~,"
                and (text[end] != "(" or text[end:][:2] == "()")
            ):
                end += 2 if text[end] == "(" else 1
            kept.append(text[at:end])
            at = end
            continue
        letter = text[at]
        if letter in "<(":
            depth += 1
        elif letter in ">)" and depth:
            depth -= 1
        elif not depth:
            kept.append(letter)
        at += 1
    short = "".join(kept).split(" [clone")[0].strip().removesuffix(" const").strip()
    short = short.replace("#1}", "}")
    if " " in short and "operator " not in short:
        short = short.rsplit(" ", 1)[1]
    return short.replace("\0", "(anonymous)") or name


@cache
def _demangler() -> Any:
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None  # mangled names are shown, then
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    return function


def _demangled(symbol: str) -> str:
    demangle = _demangler()
    if demangle is None:
        return ""
    status = ctypes.c_int()
    found = demangle(symbol.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if not found:
        return ""
    try:
        return ctypes.string_at(found).decode("utf-8", "replace")
    finally:
        _release(found)


def _release(address: int) -> None:
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free(address)
