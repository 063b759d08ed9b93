"""The activity API: one noun, its verbs. Buffers come from the tool and go back to it filled.

    client = topspti.activity_register_callbacks(lambda: bytearray(1 << 20), complete)
    topspti.activity_enable(topspti.ActivityKind.KERNEL)

Tools that may share a process with others keep the client that registration gives, and name it in calls;
without `client` a call means the only one there is.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tops_kit.runtime.hooks import HOOKS
from topspti.buffers import Complete, Request
from topspti.client import ActivityClient
from topspti.errors import PtiError, shown
from topspti.kinds import ActivityKind
from topspti.layouts import read_record
from topspti.records import Record


class _Clients:
    """The clients that were registered and are not closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[ActivityClient] = []

    def add(self, client: ActivityClient) -> None:
        with self._lock:
            self._all.append(client)

    def remove(self, client: ActivityClient) -> None:
        with self._lock:
            self._all = [each for each in self._all if each is not client]

    def meant(self, client: ActivityClient | None) -> ActivityClient:
        if isinstance(client, ActivityClient):
            return client
        if client is not None:
            raise PtiError(f"a client is what activity_register_callbacks gave, not {shown(client)}")
        if not self._all:
            raise PtiError(
                "there are no buffers yet: call activity_register_callbacks(request, complete) first"
            )
        if len(self._all) > 1:
            raise PtiError(
                f"{len(self._all)} clients are registered: say which: client=... (what registration gave)"
            )
        return self._all[0]


_CLIENTS = _Clients()


def activity_register_callbacks(request: Request, complete: Complete) -> ActivityClient:
    """A new client: `request()` gives a buffer, `complete(buffer, valid_bytes, dropped)` gets it filled."""
    out = ActivityClient(request, complete)
    _CLIENTS.add(out)
    return out


def activity_unregister(client: ActivityClient | None = None) -> None:
    """Hand over what there is, and forget the client."""
    gone = _CLIENTS.meant(client)
    gone.close()
    _CLIENTS.remove(gone)


def activity_enable(kind: ActivityKind | int, client: ActivityClient | None = None) -> None:
    """Records of a kind from now on. Raises PtiError."""
    _CLIENTS.meant(client).enable(kind)


def activity_disable(kind: ActivityKind | int, client: ActivityClient | None = None) -> None:
    """No more records of a kind. Raises PtiError."""
    _CLIENTS.meant(client).disable(kind)


def activity_flush_all(forced: bool = False, client: ActivityClient | None = None) -> None:
    """Hand over what there is; see ActivityClient.flush_all. Raises PtiError."""
    _CLIENTS.meant(client).flush_all(forced)


def activity_flush_period(period_ms: float | None, client: ActivityClient | None = None) -> None:
    """Hand over at least every so often; see ActivityClient.flush_period. Raises PtiError."""
    _CLIENTS.meant(client).flush_period(period_ms)


def activity_get_num_dropped_records(client: ActivityClient | None = None) -> int:
    """Records that found no place since this was asked last. Raises PtiError."""
    return _CLIENTS.meant(client).num_dropped_records()


def activity_get_next_record(buffer: Any, valid_bytes: int, record: Record | None = None) -> Record | None:
    """The record behind `record` (the first, where None) of a buffer; None at its end. Raises PtiError."""
    return read_record(buffer, 0 if record is None else record.end_offset, valid_bytes)


def records(buffer: Any, valid_bytes: int) -> Iterator[Record]:
    """All records of a buffer, in order. Raises PtiError."""
    record = read_record(buffer, 0, valid_bytes)
    while record is not None:
        yield record
        record = read_record(buffer, record.end_offset, valid_bytes)


def activity_set_kernel_filter(
    wanted: Callable[[str], bool] | None, client: ActivityClient | None = None
) -> None:
    """Records of those kernels only for whose full name `wanted` is true. Raises PtiError."""
    _CLIENTS.meant(client).filter_kernels(wanted)


def activity_push_external_correlation_id(kind: int, external_id: int) -> None:
    """Calls that this thread makes are linked with an id of somebody else's until it is popped.

    Raises PtiError: an id or kind that is no unsigned number of 64 or 32 bits.
    """
    HOOKS.push_external(_unsigned(kind, 32, "a kind"), _unsigned(external_id, 64, "an external id"))


def activity_pop_external_correlation_id(kind: int) -> int:
    """The id that was pushed last for this kind on this thread. Raises PtiError: there is none."""
    number = _unsigned(kind, 32, "a kind")
    out = HOOKS.pop_external(number)
    if out is None:
        raise PtiError(f"no external id of kind {number} is pushed on this thread")
    return out


def _unsigned(value: Any, bits: int, what: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << bits:
        raise PtiError(f"{what} is a number of {bits} bits without a sign, not {shown(value)}")
    return number


def get_timestamp() -> int:
    """Now, in session ns: the time that records have."""
    return HOOKS.now_ns()
