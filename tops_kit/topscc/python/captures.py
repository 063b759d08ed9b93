"""What a kernel took from the Python around it, so that a change is noticed at the next launch."""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType
from typing import Any

_MISSING = object()


class Captures:
    """Globals, closure variables and attributes that a compilation read, with the values they had."""

    def __init__(self) -> None:
        self._globals: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        self._cells: dict[int, tuple[CellType, Any]] = {}
        self._attributes: dict[tuple[int, str], tuple[Any, str, Any]] = {}

    def from_globals(self, module: Mapping[str, Any], name: str, value: Any) -> None:
        """A global variable of a module."""
        self._globals[id(module), name] = (module, name, value)

    def from_cell(self, cell: CellType, value: Any) -> None:
        """A variable of a function around the kernel."""
        self._cells[id(cell)] = (cell, value)

    def from_attribute(self, owner: Any, name: str, value: Any) -> None:
        """An attribute of an object."""
        self._attributes[id(owner), name] = (owner, name, value)

    def hold(self) -> bool:
        """Whether everything still has its value."""
        for module, name, value in self._globals.values():
            now = module.get(name, _MISSING)
            if now is not value and not _same(now, value):
                return False
        for cell, value in self._cells.values():
            if cell.cell_contents is not value and not _same(cell.cell_contents, value):
                return False
        for owner, name, value in self._attributes.values():
            now = getattr(owner, name, _MISSING)
            if now is not value and not _same(now, value):
                return False
        return True


def _same(now: Any, before: Any) -> bool:
    """Equal numbers, texts and tuples of the same types; other objects must be the same."""
    if type(now) is not type(before):
        return False
    if isinstance(now, tuple):
        return len(now) == len(before) and all(
            a is b or _same(a, b) for a, b in zip(now, before, strict=True)
        )
    return isinstance(now, int | float | str) and now == before
