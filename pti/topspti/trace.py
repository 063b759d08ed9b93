"""Records without buffers of one's own: what a block of a program did, as a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from topspti.activity import activity_register_callbacks, activity_unregister, records
from topspti.client import ActivityClient
from topspti.kinds import ActivityKind
from topspti.records import Record

_BUFFER_BYTES = 1 << 18
RecordT = TypeVar("RecordT", bound=Record)


class Trace:
    """`with Trace(ActivityKind.KERNEL) as trace: ...`, then `trace.of(KernelRecord)`.

    Buffers are kept as they come and read when they are looked at. `client` is there for what else it can do.
    """

    def __init__(self, *kinds: ActivityKind | int, buffer_bytes: int = _BUFFER_BYTES) -> None:
        self._kinds = kinds
        self._buffer_bytes = buffer_bytes
        self._filled: list[tuple[Any, int]] = []
        self.dropped = 0
        self.client: ActivityClient = activity_register_callbacks(self._request, self._complete)

    def _request(self) -> bytearray:
        return bytearray(self._buffer_bytes)

    def _complete(self, buffer: Any, valid_bytes: int, dropped: int) -> None:
        self.dropped += dropped
        if valid_bytes:
            self._filled.append((buffer, valid_bytes))

    def __enter__(self) -> Trace:
        for kind in self._kinds:
            self.client.enable(kind)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more; what was recorded stays. Harmless when it is closed."""
        activity_unregister(self.client)

    def __iter__(self) -> Iterator[Record]:
        """All records that were handed over, in order."""
        for buffer, valid_bytes in self._filled:
            yield from records(buffer, valid_bytes)

    def of(self, record: type[RecordT]) -> list[RecordT]:
        """The records of a type."""
        return [each for each in self if isinstance(each, record)]
