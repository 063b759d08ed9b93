"""The C extension, which sampling can't do without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from tops_kit import extension
from tops_kit.errors import UserError

_INTERFACE: Final = 2  # of _sampler.c, which says when to raise it


class Process(Protocol):
    """A process whose memory is read; see process_object.c. All methods may be called while a loop runs."""

    end: str
    tasks_wanted: bool

    def read(self, address: int, size_bytes: int, /) -> bytes | None: ...

    def read_each(self, addresses: list[int], size_bytes: int, /) -> list[bytes | None]: ...

    def look(self) -> list[dict[str, Any] | None]: ...

    def code(self, code_id: int, /) -> tuple[str, str, int]: ...

    def resolve(self, code_address: int, instruction: int, /) -> tuple[int, int] | None: ...

    def take(self) -> dict[str, Any]: ...

    def counts(self) -> dict[str, int]: ...

    def set_tasks(self, address: int, /) -> None: ...


class Loop(Protocol):
    """A loop that samples processes; see loop_object.c."""

    def add(self, process: Process, /) -> None: ...

    def remove(self, process: Process, /) -> None: ...

    def run(self, seconds: float, /) -> list[Process]: ...

    def stop(self) -> None: ...

    def counts(self) -> dict[str, int]: ...


class Extension(Protocol):
    """What `_sampler` offers."""

    STATES: tuple[str, ...]
    WAITS: tuple[str, ...]
    SYSCALLS: dict[int, str]

    def Process(  # noqa: N802, PLR0917 - a class; its arguments are named by nobody but us
        self,
        pid: int,
        layout: Mapping[str, int],
        runtime: int,
        types: tuple[int, int, int, int],
        interpreter: list[tuple[int, int]],
        depth: int,
        native: bool,
    ) -> Process: ...

    def Loop(self, period_ns: int) -> Loop: ...  # noqa: N802 - a class

    def read_memory(self, pid: int, address: int, size_bytes: int, /) -> bytes | None: ...

    def elf_symbols(
        self, path: str, names: tuple[str, ...], /
    ) -> tuple[dict[str, int], list[tuple[int, int, int]], int]: ...

    def elf_nearest(self, path: str, addresses: list[int], /) -> dict[int, str]: ...


def problem() -> str:
    """Why there is no sampling here; "" where there is."""
    return extension.load("topsprof.capture.sampling._sampler", _INTERFACE)[1]


def load() -> Extension:
    """The extension. Raises UserError where it is missing."""
    module, why_not = extension.load("topsprof.capture.sampling._sampler", _INTERFACE)
    if module is None:
        raise UserError(
            f"sampling needs topsprof's C extension ({why_not}): install a C compiler, then TopsKit again"
        )
    return cast(Extension, module)
