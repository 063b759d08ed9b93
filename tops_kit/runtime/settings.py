"""How a kernel is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tops_kit.engine.options import MODES, Mode
from tops_kit.gcu import Specification
from tops_kit.runtime.errors import LaunchError, shown

if TYPE_CHECKING:
    from tops_kit.runtime.stream import Stream


@dataclass(frozen=True, slots=True)
class Settings:
    """How a kernel is launched; see `Kernel.options`. `part` None: that of the device."""

    part: Specification | None = None
    mode: Mode = "timed"
    host_threads: int | None = None
    pipeline: bool = False
    budget_s: float = 60.0
    defer: bool = False
    quiet: bool = False
    engine: Literal["c", "oracle"] | None = None
    stream: Stream | None = None
    cooperative: bool = False


OPTIONS = (
    "mode", "host_threads", "pipeline", "budget_s", "defer", "quiet", "engine", "stream", "cooperative"
)  # fmt: skip


def _is_truth(value: Any) -> bool:
    number = isinstance(value, int) and 0 <= value <= 1
    return isinstance(value, np.bool_) or number


def _is_host_threads(value: Any) -> bool:
    return value is None or (isinstance(value, int | np.integer) and 1 <= int(value) <= 1 << 16)


def _is_budget(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(number and value >= 0)


def _is_engine(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in ("c", "oracle"))


# what some options can be, and how that is said
ALLOWED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "pipeline": (_is_truth, "True or False"),
    "defer": (_is_truth, "True or False"),
    "quiet": (_is_truth, "True or False"),
    "cooperative": (_is_truth, "True or False"),
    "host_threads": (_is_host_threads, "a number of threads, or None for all cores"),
    "budget_s": (_is_budget, "a number of seconds, 0 for no limit"),
    "engine": (_is_engine, "'c', 'oracle' or None"),
}


def check_together(name: str, settings: Settings) -> None:
    """Raises LaunchError for options that the mode makes nothing of."""
    if settings.pipeline and settings.mode != "timed":
        raise LaunchError(
            f"{name}: pipeline=True tells what units did when, which a launch of mode {settings.mode} does "
            'not know: leave one out, or mode="timed"'
        )
    if settings.defer and settings.mode not in ("sanitized", "debug"):
        raise LaunchError(
            f"{name}: defer=True is for modes sanitized and debug, not {settings.mode}: leave it out, or "
            'mode="sanitized"'
        )


def check_options(name: str, settings: Mapping[str, Any]) -> None:
    """Raises LaunchError for options that launches don't have."""
    from tops_kit.runtime.stream import Stream

    for option, value in settings.items():
        if option not in OPTIONS:
            raise LaunchError(f"{name}: no option {option}: there are {', '.join(OPTIONS)}, and .on(part)")
        if option == "mode" and (not isinstance(value, str) or value not in MODES):
            raise LaunchError(f"{name}: no mode {shown(value)}: one of {', '.join(MODES)}")
        if option == "stream" and not (value is None or isinstance(value, Stream)):
            raise LaunchError(f"{name}: stream is a tops.Stream, not {type(value).__name__}")
        allowed, what = ALLOWED.get(option, (None, ""))
        if allowed is not None and not allowed(value):
            raise LaunchError(f"{name}: {option} is {what}, not {shown(value)}")
