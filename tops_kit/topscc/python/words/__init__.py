"""What the words of the language mean: one function for each, from a call to the builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tops_kit.topscc import language
from tops_kit.topscc.python.calls import Meaning
from tops_kit.topscc.python.words import arithmetic, launch, memory, output, tiles

MEANINGS: dict[str, tuple[Callable[..., Any], Meaning]] = {
    name: (getattr(language, name), meaning)
    for module in (arithmetic, launch, memory, output, tiles)
    for name, meaning in module.MEANINGS.items()
}
