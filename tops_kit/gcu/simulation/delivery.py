"""What is final goes to who wants it."""

from __future__ import annotations

from tops_kit.gcu.simulation.operation import Operation


def deliver(ended: list[Operation]) -> None:
    """Empties a list of operations that are final, in their order; a callback may come back here.

    One that raises does not keep the others from being told.
    """
    if len(ended) > 1:
        ended.sort(key=_final_order)
    while ended:
        operation = ended.pop(0)
        try:
            hand_out(operation)
        except BaseException:
            deliver(ended)
            raise


def hand_out(operation: Operation) -> None:
    """One operation, to its device's sink and to whoever gave it."""
    sink = operation.stream.device.sink
    try:
        if sink is not None:
            sink(operation)
    finally:
        if operation.on_done is not None:
            operation.on_done(operation)


def _final_order(operation: Operation) -> tuple[int, int]:
    return operation.end_ns, operation.sequence
