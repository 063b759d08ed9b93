"""What the names of device activities say: short kernel names, collectives, kinds of copies, Python
functions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_ANONYMOUS = re.compile(r"\(anonymous(?: namespace)?\)::|`anonymous namespace'::|_GLOBAL__N__\w+::")
_COLLECTIVE = re.compile(
    r"(?:nccl|rccl|eccl|hccl|oneccl)\w*?(all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all\w*?|send_?recv|"
    r"send|recv|reduce|gather|scatter|barrier)",
    re.IGNORECASE,
)
_COPY = re.compile(
    r"(?:Memcpy|CopyKernel|memcpy)\s*([A-Za-z]+to[A-Za-z]+|[HDPAMS]2[HDPAMS])?\s*(?:\(\s*(.*?)\s*->\s*(.*?)\s*\))?"
)
_KIND = re.compile(
    r"(?:(H|D|P|A|M|S|Host|Device|Peer|Array|Memory|Shared)(?:to|2)"
    r"(H|D|P|A|M|S|Host|Device|Peer|Array|Memory|Shared))\b",
    re.IGNORECASE,
)
_SET = re.compile(r"\((.*)\)")
_PYTHON = re.compile(r"(.+?)\((\d+)\): (.+)", re.DOTALL)

MODULE = "nn.Module: "
"""What the name of a traced function begins with that stands for the call of a module."""


@lru_cache(maxsize=65536)
def short_kernel_name(full: str) -> str:
    """The kernel's qualified name without return type, template arguments, parameters and anonymous
    namespaces.

    >>> short_kernel_name("void at::native::(anonymous namespace)::fill<4, float>(int, float*)")
    'at::native::fill'
    """
    if "<" not in full and "(" not in full:
        return full
    text = _ANONYMOUS.sub("", full)
    kept: list[str] = []
    depth = 0
    i = 0
    while i < len(text):
        c = text[i]
        if text.startswith("operator", i) and not depth:
            symbol = re.match(r"operator\s*(?:\(\)|<=>|<<=?|>>=?|<=|>=|->\*?|<|>)", text[i:])
            if symbol:
                kept.append(symbol[0])
                i += len(symbol[0])
                continue
        if c in "<{[":
            depth += 1
        elif c in ">}]":
            if not (c == ">" and i and text[i - 1] == "-"):
                depth = max(depth - 1, 0)
        elif c == "(":
            if not depth and kept:
                break
            depth += 1
        elif c == ")":
            depth = max(depth - 1, 0)
        elif not depth:
            kept.append(c)
        i += 1
    name = "".join(kept).strip()
    word = name.rsplit(" ", 1)[-1] if "operator" not in name else name
    return word.lstrip("*&") or full


@lru_cache(maxsize=65536)
def collective_of(kernel: str) -> str | None:
    """The collective that a communication kernel carries out, from its name; None when it is no such kernel.

    >>> collective_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)")
    'allreduce'
    """
    found = _COLLECTIVE.search(kernel)
    return plain_collective(found[1]) if found else None


def plain_collective(name: str) -> str:
    """One spelling for all: AllReduce, all_reduce and _allgather_base become allreduce and allgather."""
    return name.lower().replace("_", "").removesuffix("base")


class Copy(NamedTuple):
    """What a copy's name says; None what it doesn't."""

    kind: str | None
    source: str | None
    target: str | None


@lru_cache(maxsize=4096)
def copy_of(name: str) -> Copy:
    """
    >>> copy_of("Memcpy HtoD (Pageable -> Device)")
    Copy(kind='HtoD', source='Pageable', target='Device')
    """
    kind = _KIND.search(name)
    ends = _COPY.search(name)
    return Copy(
        f"{_memory(kind[1])}to{_memory(kind[2])}" if kind else None,
        ends[2] if ends else None,
        ends[3] if ends else None,
    )


def _memory(word: str) -> str:
    """Its letter; Level Zero calls the host's pageable memory M."""
    letter = word[0].upper()
    return "H" if letter == "M" else letter


@lru_cache(maxsize=4096)
def fill_of(name: str) -> str | None:
    """The memory that a fill writes.

    >>> fill_of("Memset (Device)")
    'Device'
    """
    found = _SET.search(name)
    return found[1] if found and found[1] else None


class Function(NamedTuple):
    """A traced Python function."""

    name: str
    module: str | None
    file: str | None
    line: int | None


def function_of(name: str) -> Function:
    """
    >>> function_of("torch/nn/modules/module.py(1501): _call_impl")
    Function(name='_call_impl', module=None, file='torch/nn/modules/module.py', line=1501)
    >>> function_of("nn.Module: Linear_0")
    Function(name='nn.Module: Linear_0', module='Linear_0', file=None, line=None)
    """
    found = _PYTHON.fullmatch(name)
    if found and len(found[2]) < 10:
        return Function(found[3], None, found[1], int(found[2]))
    if name.startswith(MODULE):
        return Function(name, name.removeprefix(MODULE), None, None)
    return Function(name, None, None, None)


_ITEM_BYTES = {
    "float": 4,
    "float32": 4,
    "int": 4,
    "int32": 4,
    "half": 2,
    "float16": 2,
    "bfloat16": 2,
    "short": 2,
    "int16": 2,
    "double": 8,
    "float64": 8,
    "long": 8,
    "int64": 8,
    "char": 1,
    "int8": 1,
    "byte": 1,
    "uint8": 1,
    "bool": 1,
}


def item_bytes(dtype: str) -> int | None:
    """Bytes of an element of a framework's type, e.g. 4 of Float; None when unknown."""
    name = dtype.lower().removeprefix("c10::").removeprefix("torch.")
    if name.startswith("float8"):
        return 1
    return _ITEM_BYTES.get(name)
