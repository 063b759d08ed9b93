"""The names of topstx when nothing can be recorded: TOPSTX_DISABLE, or a Python that no back end serves.
They do nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from topstx.recorder.interface import F

NAME = "off"


class annotate:  # noqa: N801 - the name that users of annotation libraries know
    """A context manager that does nothing, and a decorator that returns the function itself."""

    def __new__(cls, message: object = None, *more: object, **named: object) -> Any:
        """The object; `@annotate` without parentheses: the function itself."""
        if type(message) is not str and not more and not named:
            from topstx.recorder.twin_values import is_decorated

            if is_decorated(message):
                return message
        return object.__new__(cls)

    def __init__(
        self,
        message: object = None,
        color: object = None,
        domain: object = None,
        category: object = None,
        payload: object = None,
    ) -> None:
        pass

    def __enter__(self) -> annotate:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, func: F) -> F:
        return func


def push_range(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> None:
    """Do nothing."""


def pop_range(domain: object = None) -> None:
    """Do nothing."""


def mark(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> None:
    """Do nothing."""


def start_range(
    message: object = None,
    color: object = None,
    domain: object = None,
    category: object = None,
    payload: object = None,
) -> int:
    """Do nothing. Returns 0."""
    return 0


def end_range(range_id: int | None) -> None:
    """Do nothing."""


def profiler_start() -> None:
    """Do nothing."""


def profiler_stop() -> None:
    """Do nothing."""


class Counter:
    """A counter that records nothing."""

    def __init__(self, name: str, unit: str = "") -> None:
        self.name = name
        self.unit = unit

    def sample(self, value: float) -> None:
        """Do nothing."""


class Domain:
    """A domain that records nothing."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or ""

    def push_range(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> None:
        """Do nothing."""

    def pop_range(self) -> None:
        """Do nothing."""

    def mark(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> None:
        """Do nothing."""

    def start_range(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> int:
        """Do nothing. Returns 0."""
        return 0

    def end_range(self, range_id: int | None) -> None:
        """Do nothing."""

    def annotate(
        self, message: object = None, color: object = None, category: object = None, payload: object = None
    ) -> annotate:
        """An `annotate` that does nothing."""
        if color is None and category is None and payload is None:
            made: annotate = annotate(message)
            return made
        return annotate()

    def counter(self, name: str, unit: str = "") -> Counter:
        """A counter that records nothing."""
        return Counter(name, unit)

    def get_registered_string(self, string: str) -> str:
        """The string itself."""
        return string

    def get_category_id(self, name: str) -> int:
        """Always 1."""
        return 1


def get_domain(name: str | None = None) -> Domain:
    """A domain that records nothing."""
    return Domain(name)


def counter(name: str, unit: str = "", domain: object = None) -> Counter:
    """A counter that records nothing."""
    return Counter(name, unit)


def set_thread_name(name: str, tid: int = 0) -> None:
    """Do nothing."""


def process_entry(key: str, value: str) -> None:
    """Do nothing."""


def attach(folder: Any) -> bool:
    """There is nothing that could record. Returns False."""
    return False


def detach() -> None:
    """Do nothing."""


def session() -> str | None:
    """No session: None."""
    return None


def listen(function: object) -> None:
    """Nobody hears of anything."""


def is_recording() -> bool:
    """Never."""
    return False


def row(  # noqa: PLR0917 - as in C
    kind: int, begin_ns: int, end_ns: int, name: object, body: bytes, correlation_id: int = 0, /
) -> bool:
    """Do nothing. Returns False."""
    return False


def row_wanted(kind: int, /) -> bool:
    """Never."""
    return False


def intern(text: object, /) -> int:
    """No names: 0."""
    return 0


def process_serial() -> int:
    """No session: 0."""
    return 0


def note_exit(known: int, status: int) -> None:
    """Do nothing."""
