"""The thread's place in the launch, and waiting for other threads."""

from __future__ import annotations

from typing import Any

from tops_kit.topscc.python.calls import Call, Meaning


def _special(name: str) -> Meaning:
    return lambda call: call.calls.builder.special(name, call.where)


def _by_axis(whole: str, prefix: str) -> Meaning:
    """A number for the whole block or grid, or for one of its axes."""

    def meaning(call: Call) -> Any:
        axis = call.axis()
        if axis is not None and axis not in (0, 1, 2):
            raise call.calls.error(
                f"axis {axis}: there are 0, 1 and 2",
                call.at("axis"),
                "grids and blocks have up to three axes",
            )
        name = whole if axis is None else f"{prefix}_{'xyz'[axis]}"
        return call.calls.builder.special(name, call.where)

    return meaning


def _program(name: str) -> Meaning:
    def meaning(call: Call) -> Any:
        if call.axis() not in (None, 0):
            raise call.calls.error(
                f"{call.name} has axis 0 only",
                call.at("axis"),
                "divide: tile // columns, tile % columns; or tops.block_id(axis) of kernel[grid, block]",
            )
        return call.calls.builder.special(name, call.where)

    return meaning


MEANINGS: dict[str, Meaning] = {
    "thread_id": _special("thread_id"),
    "num_threads": _special("num_threads"),
    "local_id": _by_axis("local_id", "local"),
    "block_id": _by_axis("block_id", "block"),
    "block_size": _by_axis("block_size", "block_dim"),
    "num_blocks": _by_axis("num_blocks", "grid_dim"),
    "program_id": _program("thread_id"),
    "num_programs": _program("num_threads"),
    "barrier": lambda call: call.calls.builder.barrier(call.where),
    "grid_barrier": lambda call: call.calls.builder.grid_barrier(call.where),
    "clock": lambda call: call.calls.builder.clock(call.where),
}
