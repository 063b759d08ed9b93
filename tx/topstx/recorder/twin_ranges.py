"""Ranges of the Python twin: begun and ended in the right thread and context, or noted when not recorded."""

# Calls spell out what an annotation is made of.
# ruff: noqa: PLR0917

from __future__ import annotations

import itertools

from topstx.recorder import layout, twin_values
from topstx.recorder.twin_process import EXCLUDED, Process
from topstx.recorder.twin_ring import HIDDEN
from topstx.recorder.twin_session import current

TYPE_CHECKING = False  # `typing` is too heavy for `import topstx`
if TYPE_CHECKING:
    from collections.abc import Callable

    from topstx.recorder.twin_ring import Open, Stack, Writer

    Listener = Callable[[int, int, object, str], object]

_ON = layout.RECORDING_ON
_PUSHED, _CAPTURE, _ERROR = layout.FLAG_PUSHED, layout.FLAG_CAPTURE, layout.FLAG_ERROR
_KEPT_FLAGS = 0xFF & ~(_PUSHED | _CAPTURE)  # of an open range, in its record

# -- who hears of ranges and marks as they happen, recorded or not; in C it is crec_listen.h --

MARK, PUSH, POP, ENTER, EXIT, START, END = range(7)
ALONE = 1 << 63  # of a started range's id: nothing was recorded of it, the listener alone knows it


class Listening:
    """Of one process. `on`: whether anybody listens."""

    __slots__ = ("_ids", "_listener", "on")

    def __init__(self) -> None:
        self.on = False
        self._listener: Listener | None = None
        self._ids = itertools.count(1)

    def listen(self, listener: Listener | None) -> None:
        """Call `listener(what, key, message, domain)` from now on; None: nobody."""
        self._listener = listener
        self.on = listener is not None

    def hear(self, what: int, key: int, message: object, domain: str) -> None:
        """Tell it; what the listener raises is forgotten."""
        listener = self._listener
        if listener is not None:
            try:
                listener(what, key, message, domain)
            except Exception:
                pass

    def start(self, handle: int, message: object, domain: str) -> int:
        """A range starts; its id, `handle` where it is recorded."""
        handle = handle or ALONE | next(self._ids)
        self.hear(START, handle, message, domain)
        return handle


listening = Listening()
listen = listening.listen


# -- ranges --


def push(
    process: Process, message: object, color: object, domain: str, category: object, payload: object
) -> None:
    """Begin a range that `pop` ends."""
    flags = _PUSHED
    if process.recording[0] == _ON:
        pass
    elif process.begins_capture(message, domain):
        flags |= _CAPTURE
    else:
        # Not recorded. Above an open range it is noted, so that its pop does not close that one.
        writer: Writer | None = getattr(process.local, "writer", None)
        if writer and any(writer.stacks.values()) and process.allowed(domain):
            stack = writer.stack()
            stack.append((HIDDEN, 0, 0, 0, domain, _PUSHED, b"", stack, writer))
            stack.hidden += 1
        return
    begin(process, message, color, domain, category, payload, flags)


def pop(process: Process, domain: str) -> None:
    """End the innermost range of this domain, thread and context that `push` began."""
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        if process.recording[0] == _ON and process.allowed(domain):
            process.new_writer().unbalanced()
        return
    context = writer.cell[0]
    stack: Stack | None = writer.stacks.get(context)
    opened: Open
    if stack and (opened := stack[-1])[5] & _PUSHED and opened[4] == domain:
        stack.pop()
    else:
        found = _take_pushed(stack, domain)
        if found is None and context:
            found = _take_pushed(writer.stacks.get(0), domain)
        if found is None:
            if process.recording[0] == _ON and process.allowed(domain):
                writer.unbalanced()
            return
        opened = found
    flags = opened[5]
    if opened[0] == HIDDEN:
        opened[7].hidden -= 1
        return
    writer.end(opened, flags & _KEPT_FLAGS, opened[6])
    if flags & _CAPTURE:
        process.end_capture()


def _take_pushed(stack: Stack | None, domain: str) -> Open | None:
    """Take the innermost range of `domain` that was pushed off the stack."""
    if stack:
        for index in range(len(stack) - 1, -1, -1):
            opened: Open = stack[index]
            if opened[5] & _PUSHED and opened[4] == domain:
                del stack[index]
                return opened
    return None


def attr_of(process: Process, color: object, domain: str, category: object) -> int:
    """Id of an ATTR entry, or EXCLUDED when the domain is filtered out."""
    if color is None and category is None and not domain:
        return process.default_attr
    key = (domain, category, color)
    try:
        known = process.attrs.get(key)
        if known is None:
            known = process.attrs[key] = process.attr(domain, category, color)
    except Exception:  # a colour or category that can't be a key
        return process.attr(domain, category, color)
    return known


def name_of(process: Process, message: object) -> int:
    """Id of a NAME entry."""
    try:
        known = process.names.get(message)
    except Exception:  # a message that can't be a key
        known = None
    return known or process.name(message)


def begin(
    process: Process,
    message: object,
    color: object,
    domain: str,
    category: object,
    payload: object,
    flags: int,
) -> Open | None:
    """Open a range of the calling thread, or None when it is not to be recorded."""
    if process.recording[0] != _ON:
        if not process.begins_capture(message, domain):
            return None
        flags |= _CAPTURE
    attr = attr_of(process, color, domain, category)
    if attr == EXCLUDED:
        return None
    more = b""
    if payload is not None:
        more, cut = twin_values.payload(payload)
        flags |= cut
    try:
        writer: Writer = process.local.writer
    except AttributeError:
        writer = process.new_writer()
    return writer.begin(name_of(process, message), attr, domain, flags, more)


def finish(opened: Open, error: type[BaseException] | None) -> None:
    """End a range that `annotate` opened, wherever it is now called from."""
    writer, stack = opened[8], opened[7]
    process = writer.process
    if process is not current.process:
        return  # it belongs to the process that forked this one, or to a session that was left
    if stack and stack[-1] is opened:
        stack.pop()
    else:
        try:
            stack.remove(opened)
        except ValueError:
            return
    flags, more = opened[5] & _KEPT_FLAGS, opened[6]
    if error is not None and error is not GeneratorExit:  # the end of a generator by close() is none
        flags |= _ERROR
        more += twin_values.error(error)
    if getattr(process.local, "writer", None) is writer:
        writer.end(opened, flags, more)
    else:
        process.end_elsewhere(opened, flags, more)
    if opened[5] & _CAPTURE:
        process.end_capture()
