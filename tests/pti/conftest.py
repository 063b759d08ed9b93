"""What the tests of topspti share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import topspti

from tops_kit.engine.launch import ENGINES
from tops_kit.runtime.hooks import Hooks


class Tool:
    """A tool with buffers of a size; `records` are those that came back."""

    def __init__(self, size_bytes: int = 4096, hooks: Hooks | None = None) -> None:
        self.size_bytes = size_bytes
        self.handed: list[tuple[Any, int, int]] = []
        self.given = 0
        self.hooks = hooks or Hooks()
        self.client = topspti.ActivityClient(self.request, self.complete, self.hooks)

    def request(self) -> Any:
        self.given += 1
        return bytearray(self.size_bytes)

    def complete(self, buffer: Any, valid_bytes: int, dropped: int) -> None:
        self.handed.append((buffer, valid_bytes, dropped))

    @property
    def records(self) -> list[topspti.Record]:
        return [each for buffer, valid, _ in self.handed for each in topspti.records(buffer, valid)]

    @property
    def dropped(self) -> int:
        return sum(dropped for *_, dropped in self.handed)


@pytest.fixture
def tool() -> Iterator[Tool]:
    out = Tool()
    yield out
    out.client.close()


@pytest.fixture(scope="session")
def needs_c() -> None:
    """Skips where the C engine isn't built: programs of this size take minutes on the Python oracle."""
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")
