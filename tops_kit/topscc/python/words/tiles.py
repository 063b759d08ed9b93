"""Operations on whole tiles, matrices, vectors."""

from __future__ import annotations

from typing import Any

from tops_kit.isa.dtypes import I32, VECTOR_BYTES
from tops_kit.topscc.kinds import ScalarKind
from tops_kit.topscc.python.calls import Call, Meaning
from tops_kit.topscc.tree import Value, Variable


def _full(call: Call) -> Any:
    dtype = call.dtype()
    value = call.operand("value") if "value" in call.values else 0
    if value == 0 and "value" not in call.values and dtype.kind == "b":
        value = False
    return call.calls.builder.full(dtype, call.shape(), value, call.where, at=call.place("value"))


def _iota(call: Call) -> Any:
    dtype = call.dtype()
    axis = call.integer("axis")
    return call.calls.builder.iota(
        dtype, call.shape(), axis, call.where, start=call.operand("start"), step=call.operand("step")
    )


def _arange(call: Call) -> Any:
    builder = call.calls.builder
    start, stop = call.operand("start"), call.optional("stop")
    if stop is None:
        start, stop = 0, start
    return builder.iota(I32, [builder.binary("sub", stop, start, call.where)], 0, call.where, start=start)


def _no_number(call: Call) -> None:
    """max and min of scalars are Python's, or by elements."""
    x = call.values["x"]
    scalar = isinstance(x, int | float) or (isinstance(x, Value) and isinstance(x.kind, ScalarKind))
    if scalar and call.name in ("max", "min"):
        name = call.name
        raise call.calls.error(
            f"tops.{name} reduces a tile, this is {call.calls.describe(x)}",
            call.at("x"),
            f"of numbers write {name}(a, b); by elements tops.{name}imum(a, b)",
        )


def _reduce(name: str, *, rows: bool = False) -> Meaning:
    def meaning(call: Call) -> Any:
        _no_number(call)
        axis = -1 if rows else call.axis()
        return call.calls.builder.reduce(name, call.tile("x"), axis, call.where)

    return meaning


def _cumsum(call: Call) -> Any:
    return call.calls.builder.cumsum(call.tile("x"), call.integer("axis"), call.where)


def _gather(call: Call) -> Any:
    return call.calls.builder.gather(call.tile("x"), call.tile("index"), call.integer("axis"), call.where)


def _scatter(*, add: bool) -> Meaning:
    def meaning(call: Call) -> Any:
        call.calls.builder.scatter(
            call.target("target"),
            call.tile("index"),
            call.tile("values"),
            call.integer("axis"),
            call.where,
            add=add,
        )

    return meaning


def _reshape(call: Call) -> Any:
    return call.calls.builder.reshape(call.tile("x"), call.shape(), call.where)


def _transpose(call: Call) -> Any:
    axes = call.values["axes"]
    if axes is None:
        return call.calls.builder.transpose(call.tile("x"), call.where)
    items = axes if isinstance(axes, tuple) else (axes,)
    order = [call.calls.integer(axis, "an axis", call.at("axes")) for axis in items]
    return call.calls.builder.permute(call.tile("x"), order, call.where)


def _dot(call: Call) -> Any:
    builder = call.calls.builder
    product = builder.matmul(call.tile("a"), call.tile("b"), call.where)
    if not call.given("acc"):
        return product
    acc = call.target("acc")
    before = builder.read(acc, call.where) if isinstance(acc, Variable) else acc
    return builder.binary("add", before, product, call.where)


def _mma(call: Call) -> Any:
    call.calls.builder.mma(call.target("acc"), call.tile("a"), call.tile("b"), call.where)


def _vload(call: Call) -> Any:
    return call.calls.builder.vector_load(call.tile("view"), call.operand("index"), call.where)


def _vstore(call: Call) -> Any:
    call.calls.builder.vector_store(call.tile("view"), call.operand("index"), call.tile("vector"), call.where)


def _vsplat(call: Call) -> Any:
    return call.calls.builder.vector_splat(call.operand("value"), call.dtype(), call.where)


MEANINGS: dict[str, Meaning] = {
    "zeros": _full,
    "full": _full,
    "iota": _iota,
    "arange": _arange,
    **{name: _reduce(name) for name in ("sum", "max", "min", "argmax", "argmin", "any", "all")},
    **{f"row{name}": _reduce(name, rows=True) for name in ("sum", "max", "min")},
    "cumsum": _cumsum,
    "gather": _gather,
    "scatter": _scatter(add=False),
    "scatter_add": _scatter(add=True),
    "reshape": _reshape,
    "transpose": _transpose,
    "dot": _dot,
    "mma": _mma,
    "vload": _vload,
    "vstore": _vstore,
    "vsplat": _vsplat,
    "viota": lambda call: call.calls.builder.vector_iota(call.dtype(), call.where),
    "lanes": lambda call: VECTOR_BYTES // call.dtype().size_bytes,
}
