"""How a kernel is launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tops_kit.engine.options import Mode
from tops_kit.gcu import Specification

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
