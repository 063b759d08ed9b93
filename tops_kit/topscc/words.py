"""How the surface language writes things, for the hints of error texts."""

from __future__ import annotations

from dataclasses import dataclass

from tops_kit.isa.dtypes import DType


@dataclass(frozen=True, slots=True)
class Words:
    """The spelling of TopsKit's Python surface; another front end gives its own. {}: what stands there."""

    cast_form: str = ".to(tops.{})"
    load_form: str = "tops.load({})"
    number_form: str = "tops.{}({})"

    def cast(self, dtype: DType) -> str:
        """Conversion to a type."""
        return self.cast_form.format(spoken(dtype))

    def load(self, what: str) -> str:
        """Loading a part of an array."""
        return self.load_form.format(what)

    def number(self, dtype: DType, what: str) -> str:
        """A scalar converted to a type."""
        return self.number_form.format(spoken(dtype), what)


def spoken(dtype: DType) -> str:
    """A type as the surface names it; `bool` would hide Python's own."""
    return "bool_" if dtype.name == "bool" else dtype.name
