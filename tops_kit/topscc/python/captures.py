"""What a kernel took from the Python around it, so that a change is noticed at the next launch."""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType, FunctionType
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

    def from_function(self, function: FunctionType) -> None:
        """A function that was inlined: its code and the defaults of its parameters."""
        for name in ("__code__", "__defaults__"):
            self.from_attribute(function, name, getattr(function, name))
        keywords = function.__kwdefaults__ or {}
        for name, value in keywords.items():
            self.from_globals(keywords, name, value)

    def watched(
        self,
    ) -> tuple[tuple[tuple[dict[str, Any], str, Any], ...], tuple[tuple[Any, str, Any], ...]] | None:
        """All of it as (variables of modules, attributes): where each is the same object, `hold` is True.

        None: a module's variables are no dict.
        """
        variables = [(m, name, value) for m, name, value in self._globals.values() if type(m) is dict]
        if len(variables) != len(self._globals):
            return None
        cells = [(cell, "cell_contents", value) for cell, value in self._cells.values()]
        return tuple(variables), (*cells, *self._attributes.values())

    def hold(self) -> bool:
        """Whether everything still has its value."""
        for module, name, value in self._globals.values():
            now = module.get(name, _MISSING)
            if now is not value and not _same(now, value):
                return False
        for cell, value in self._cells.values():
            now = _contents(cell)
            if now is not value and not _same(now, value):
                return False
        for owner, name, value in self._attributes.values():
            try:
                now = getattr(owner, name, _MISSING)
            except Exception:
                return False
            if now is not value and not _same(now, value):
                return False
        return True


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable was deleted
        return _MISSING


def _same(now: Any, before: Any) -> bool:
    """The same numbers, texts and tuples of the same types; other objects must be the same one."""
    if type(now) is not type(before):
        return False
    if isinstance(now, tuple):
        return len(now) == len(before) and all(
            a is b or _same(a, b) for a, b in zip(now, before, strict=True)
        )
    if isinstance(now, float):
        return bool(now.hex() == before.hex())  # -0.0 is equal to 0.0, but not the same to a kernel
    return isinstance(now, int | str) and now == before
