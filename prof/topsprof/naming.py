"""Names of outputs: the patterns of `-o`, the default `reportN`; nothing is overwritten unasked."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError

SESSION_SUFFIX: Final = ".topsprof"
DEFAULT_PATTERN: Final = "report%n"

_LATER: Final = re.compile(r"(%[ns%])")
_FIELD: Final = re.compile(r"%(?:([phn%])|q\{([^{}]*)\})")


def has_counter(pattern: str) -> bool:
    """Whether `pattern` holds `%n`, so that there is always a free name."""
    return any(match[1] == "n" for match in _FIELD.finditer(pattern))


def expand(
    pattern: str,
    *,
    pid: int,
    number: int = 1,
    host: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """`pattern` with `%p` (pid), `%h` (host), `%q{ENV}`, `%n` (number) and `%%` replaced.

    Raises UserError for a variable that is not set and for any other `%`.
    """
    fields = {"p": str(pid), "h": host or platform.node() or "localhost", "n": str(number), "%": "%"}
    out: list[str] = []
    position = 0
    while (start := pattern.find("%", position)) >= 0:
        out.append(pattern[position:start])
        match = _FIELD.match(pattern, start)
        if match is None:
            raise UserError(
                f"output name '{pattern}': '{pattern[start : start + 2]}' is no pattern; "
                "use %p, %h, %q{ENV}, %n, and %% for a percent sign"
            )
        if (variable := match[2]) is None:
            out.append(fields[match[1]])
        elif environ.get(variable):
            out.append(environ[variable])
        else:
            raise UserError(f"output name '{pattern}': the environment variable '{variable}' is not set")
        position = match.end()
    out.append(pattern[position:])
    return "".join(out)


def snapshot_pattern(pattern: str, *, pid: int, environ: Mapping[str, str] = os.environ) -> str:
    """A pattern of snapshots with `%p`, `%h` and `%q{ENV}` replaced; the collector makes names of it, and
    knows `%n`, `%s` and `%%`. Raises UserError.
    """
    parts = _LATER.split(pattern)
    return "".join(
        part if _LATER.fullmatch(part) else expand(part, pid=pid, environ=environ).replace("%", "%%")
        for part in parts
    )


def with_suffix(text: str, suffix: str) -> Path:
    """`text` as a path that ends in `suffix` (added where it lacks, never doubled)."""
    text = text.rstrip("/") if len(text) > 1 else text
    return Path(text if text.endswith(suffix) else text + suffix)


def candidates(
    pattern: str | None,
    *,
    pid: int,
    suffix: str = SESSION_SUFFIX,
    host: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[Path]:
    """The paths to try in turn: one without `%n`, endless with it. Those that exist are included."""
    text = DEFAULT_PATTERN if pattern is None else pattern
    if not text.strip("/"):
        raise UserError(f"output name '{text}' is empty: give a name, as in -o NAME")
    number = 1
    while True:
        yield with_suffix(expand(text, pid=pid, number=number, host=host, environ=environ), suffix)
        if not has_counter(text):
            return
        number += 1


def check_parent(path: Path) -> None:
    """Raises UserError where the folder that `path` is to lie in isn't there: that is a slip of the pen more
    often than a wish.
    """
    if path.parent.is_dir():
        return
    if path.parent.exists():
        raise UserError(f"'{path}' can't be made ({path.parent} is a file): name another place with -o NAME")
    raise UserError(f"'{path.parent}' does not exist: make that folder, or name another place with -o NAME")


def taken(path: Path) -> UserError:
    """The error for an output that exists and must not be overwritten."""
    from tops_kit.session import in_use

    return in_use.taken(path, "use -f to overwrite it, or another name with -o")


def output_path(
    pattern: str | None,
    *,
    pid: int,
    force: bool,
    suffix: str = SESSION_SUFFIX,
    environ: Mapping[str, str] = os.environ,
    exists: Callable[[Path], bool] = os.path.lexists,
) -> Path:
    """The path that an output gets: the first free one of `%n`, else the one named.

    Raises UserError when that exists and `force` is not given.
    """
    for path in candidates(pattern, pid=pid, suffix=suffix, environ=environ):
        if not exists(path):
            return path
        if not has_counter(DEFAULT_PATTERN if pattern is None else pattern):
            if force:
                return path
            raise taken(path)
    raise AssertionError("candidates never ends without a path")
