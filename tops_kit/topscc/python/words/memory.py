"""Buffers, transfers, events, atomic operations."""

from __future__ import annotations

from typing import Any

from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.python.calls import Call, Meaning
from tops_kit.topscc.tree import Value


def _buffer(space: str) -> Meaning:
    def meaning(call: Call) -> Any:
        dtype = call.dtype()
        shape = [call.calls.integer(extent, f"an extent of {call.name}", call.at("shape"))
                 for extent in call.shape()]  # fmt: skip
        name = call.calls.naming or space.lower()
        return call.calls.builder.buffer(name, space, dtype, shape, call.where, slots=call.integer("slots"))

    return meaning


def _load(call: Call) -> Any:
    builder = call.calls.builder
    pad = call.optional("pad")
    if call.given("second"):
        builder.copy(call.tile("first"), call.tile("second"), call.where, pad=pad, channel=call.channel())
        return None
    if call.given("channel"):
        raise call.calls.error(
            "channel goes with a buffer", call.at("channel"), "write tops.load(buffer, x[...], channel=0)"
        )
    source = call.tile("first")
    if isinstance(source.kind, ViewKind) and source.kind.rank == 0:
        one = builder.load(builder.reshape(source, [1], call.where), call.where, pad=pad)
        return builder.element(one, [0], call.where)
    return builder.load(source, call.where, pad=pad)


def _transfer(call: Call) -> Any:
    options = call.values
    return call.calls.builder.transfer(
        call.tile("destination"),
        call.tile("source"),
        call.where,
        pad=call.optional("pad") if "pad" in options else None,
        clip=call.flag("clip") if "clip" in options else False,
        after=call.event("after"),
        channel=call.channel(),
    )


def _copy(call: Call) -> Any:
    call.calls.builder.copy(
        call.tile("destination"),
        call.tile("source"),
        call.where,
        pad=call.optional("pad"),
        clip=call.flag("clip"),
        channel=call.channel(),
    )


def _store(call: Call) -> Any:
    call.calls.builder.store(
        call.tile("destination"),
        call.operand("source"),
        call.where,
        clip=call.flag("clip"),
        at=call.place("source"),
    )


def _memset(call: Call) -> Any:
    builder = call.calls.builder
    event = builder.memset(
        call.tile("destination"),
        call.operand("value"),
        call.where,
        channel=call.channel(),
        at=call.place("value"),
    )
    builder.wait(event, call.where)


def _memset_async(call: Call) -> Any:
    return call.calls.builder.memset(
        call.tile("destination"),
        call.operand("value"),
        call.where,
        after=call.event("after"),
        channel=call.channel(),
        at=call.place("value"),
    )


def _wait(call: Call) -> Any:
    if not call.values["events"]:
        raise call.calls.error(
            "wait for which event?", call.node, "write tops.wait(event), or tops.wait_all()"
        )
    given = [
        (event, node)
        for value, node in call.values["events"]
        for event in (value if isinstance(value, tuple) else (value,))
    ]
    for value, node in given:
        one = Call(call.calls, "wait", call.node, call.where, {"event": value}, {"event": node}, {})
        event = one.event("event")
        if event is None:
            raise call.calls.error("None is no event", node, "an event of nothing is tops.no_event()")
        call.calls.builder.wait(event, call.where)


def _atomic(name: str) -> Meaning:
    def meaning(call: Call) -> Any:
        return call.calls.builder.atomic(
            name, call.tile("target"), call.operand("value"), call.where, at=call.place("value")
        )

    return meaning


def _atomic_add(call: Call) -> Any:
    builder = call.calls.builder
    value = call.operand("value")
    if isinstance(value, Value) and isinstance(value.kind, TileKind | ViewKind) and value.kind.rank:
        builder.atomic_add_tile(call.tile("target"), value, call.where)
        return None
    return builder.atomic("add", call.tile("target"), value, call.where, at=call.place("value"))


def _atomic_cas(call: Call) -> Any:
    return call.calls.builder.atomic(
        "cas",
        call.tile("target"),
        call.operand("value"),
        call.where,
        expected=call.operand("expected"),
        at=call.place("value"),
    )


MEANINGS: dict[str, Meaning] = {
    "l1": _buffer("L1"),
    "l2": _buffer("L2"),
    "load": _load,
    "load_async": _transfer,
    "store": _store,
    "store_async": _transfer,
    "copy": _copy,
    "copy_async": _transfer,
    "memset": _memset,
    "memset_async": _memset_async,
    "wait": _wait,
    "wait_all": lambda call: call.calls.builder.wait_all(call.where),
    "no_event": lambda call: call.calls.builder.no_event(call.where),
    "atomic_add": _atomic_add,
    **{f"atomic_{name}": _atomic(name) for name in ("min", "max", "and", "or", "xor", "exchange")},
    "atomic_cas": _atomic_cas,
}
