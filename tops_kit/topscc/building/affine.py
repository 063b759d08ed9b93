"""Integer values as sums of other values times numbers, to know how far apart two of them are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Symbol: TypeAlias = int  # the number of a value that nothing more is known of


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + the sum of coefficient * symbol; no coefficient is 0, symbols ascend."""

    constant: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    @classmethod
    def symbol(cls, symbol: Symbol) -> Affine:
        """A value that stands for itself."""
        return cls(0, ((symbol, 1),))

    def plus(self, other: Affine, times: int = 1) -> Affine:
        """self + times * other."""
        if not other.terms:
            return Affine(self.constant + times * other.constant, self.terms)
        terms = dict(self.terms)
        for symbol, coefficient in other.terms:
            terms[symbol] = terms.get(symbol, 0) + times * coefficient
        kept = tuple(sorted((symbol, c) for symbol, c in terms.items() if c))
        return Affine(self.constant + times * other.constant, kept)

    def times(self, factor: int) -> Affine:
        """self * factor."""
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((symbol, c * factor) for symbol, c in self.terms))
