"""Events of several processes: when each was recorded last, and is reached, lies in shared memory."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, Final

from tops_kit.deferral import outside
from tops_kit.gcu.shared_memory import PLACE, OpenedFile, SharedFile, SharedMemoryError
from tops_kit.gcu.state.processes import Identity, alive, own_identity
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import TopsError, fail
from tops_kit.runtime.hooks import api
from tops_kit.runtime.ipc import EVENT, pack_handle, unpack_handle
from tops_kit.runtime.process import RUNTIME

if TYPE_CHECKING:
    from tops_kit.gcu.simulation import Operation
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.event import Event

_FILE_BYTES: Final = 4096
_POLL_S: Final = 0.0005
_POLLS_BETWEEN_LOOKS: Final = 100  # whether the other process is still there


class _Words(ctypes.Structure):
    _fields_ = (
        ("recorded", ctypes.c_int64),  # how often
        ("reached", ctypes.c_int64),  # which of these was, last
        ("reached_raw_ns", ctypes.c_int64),  # when, by CLOCK_MONOTONIC; may be to come
        ("pid", ctypes.c_int64),  # who recorded it last
        ("start", ctypes.c_int64),
        ("namespace", ctypes.c_int64),
    )


class SharedEvent:
    """The part of an event that several processes see."""

    def __init__(self, file: SharedFile | OpenedFile) -> None:
        self.file = file
        self._words = _Words.from_address(file.address)

    @property
    def foreign(self) -> bool:
        """Whether another process recorded it last."""
        return self._words.pid not in (0, RUNTIME.pid)

    def record(self) -> int:
        """It is recorded by this process: the number of the record."""
        words, own = self._words, own_identity()
        number = int(words.recorded) + 1
        words.pid, words.start, words.namespace = own
        words.recorded = number
        return number

    def reach(self, number: int, in_ns: int) -> None:
        """A record is reached in so many ns of the device's time."""
        words = self._words
        if number > words.reached:
            words.reached_raw_ns = time.monotonic_ns() + max(in_ns, 0)
            words.reached = number

    def left_ns(self, model: bool) -> int | None:
        """How long it takes until another process's record is reached; None: not known yet."""
        words = self._words
        if words.reached < words.recorded:
            return None
        # a model's time has nothing to do with the other's: only the order counts
        return 0 if model else max(0, int(words.reached_raw_ns) - time.monotonic_ns())

    def wait(self, context: Context, event_id: int) -> int:
        """Wait until it is known when another process's record is reached; how many ns are left then.

        Raises TopsError: that process has ended without reaching it.
        """
        polls = 0
        words = self._words
        while (left_ns := self.left_ns(context.clock.model)) is None:
            context.timeline.advance(context.clock.now_ns())  # it may wait for ours in turn
            if polls % _POLLS_BETWEEN_LOOKS == 0:
                who = Identity(int(words.pid), int(words.start), int(words.namespace))
                if not alive(who) and self.left_ns(context.clock.model) is None:
                    fail(
                        Code.topsErrorLaunchFailure,
                        f"event {event_id} is never reached: process {who.pid}, which recorded it, has ended",
                    )
            polls += 1
            outside(time.sleep, _POLL_S)
        return left_ns


class SharedTag:
    """The tag of a record: tells other processes, and then whoever else listens."""

    def __init__(self, context: Context, shared: SharedEvent, number: int, tag: Any) -> None:
        self._context = context
        self._shared = shared
        self._number = number
        self._tag = tag

    def done(self, op: Operation) -> None:
        """It is known when it is reached."""
        self._shared.reach(self._number, op.end_ns - self._context.clock.now_ns())
        if self._tag is not None:
            self._tag.done(op)


def shared_event() -> SharedEvent:
    """The shared part of a new event. Raises TopsError."""
    try:
        return SharedEvent(SharedFile(_FILE_BYTES))
    except SharedMemoryError as error:
        raise TopsError(Code.topsErrorNotSupported, str(error)) from None


@api("topsIpcGetEventHandle")
def ipc_get_event_handle(event: Event) -> bytes:
    """A handle (64 bytes) of an event that was made with `interprocess=True`. Raises TopsError."""
    from tops_kit.runtime.event import Event

    if not isinstance(event, Event):
        fail(Code.topsErrorInvalidHandle, f"an event is a tops.Event, not {type(event).__name__}")
    event._check()
    if event.shared is None or not isinstance(event.shared.file, SharedFile):
        fail(
            Code.topsErrorInvalidHandle,
            f"event {event.id} is not for other processes: tops.Event(timing=False, interprocess=True)",
        )
    return pack_handle(EVENT, event.context, event.shared.file.place)


@api("topsIpcOpenEventHandle")
def ipc_open_event_handle(handle: bytes) -> Event:
    """The event behind another process's handle: each records it, waits for it and queries it.

    Raises TopsError: it was destroyed, the process has ended.
    """
    from tops_kit.runtime.event import Event

    context, place, _ = unpack_handle(EVENT, "event", handle)
    if PLACE.unpack(place)[0] == RUNTIME.pid:
        fail(Code.topsErrorInvalidContext, "the event is this process's own: use it itself")
    try:
        file = OpenedFile(place)
    except SharedMemoryError as error:
        raise TopsError(Code.topsErrorInvalidHandle, str(error)) from None
    event = Event(timing=False, device=context.device_id)
    event.shared = SharedEvent(file)
    return event
