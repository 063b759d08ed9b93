"""A row: one claim, what we and a peer measured, the bar, and whether it holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One claim. `ours` and `peer` are in `unit`; `ratio` is ours / peer, and what `bar` limits unless
    `bar_on` is ours.

    `ok` None: there was nothing to compare with, or the claim has no bar (it only informs).
    """

    claim: str
    ours: float | None
    peer: float | None
    peer_name: str
    unit: str
    ratio: float | None = None
    bar: float | None = None
    bar_on: str = "ratio"
    at_least: bool = False
    """the bar is a lower limit"""
    ok: bool | None = None
    backend: str = ""
    """recorder or store code that ran: C or twin"""
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)


def compare(
    claim: str,
    unit: str,
    ours: float | None,
    peer: float | None,
    peer_name: str,
    *,
    bar: float | None = None,
    bar_on: str = "ratio",
    at_least: bool = False,
    limit: float | None = None,
    backend: str = "",
    note: str = "",
) -> Row:
    """The row of a comparison. `limit` is judged instead of the ratio: e.g. its upper 95 % limit."""
    ratio = ours / peer if ours is not None and peer else None
    judged = ours if bar_on == "ours" else limit if limit is not None else ratio
    ok = None if bar is None or judged is None else judged >= bar if at_least else judged <= bar
    return Row(
        claim, ours, peer, peer_name, unit, ratio, bar, bar_on, at_least, ok, backend=backend, note=note
    )


def missing(claim: str, unit: str, ours: float | None, peer_name: str, why: str, *, backend: str = "") -> Row:
    """The row of a peer that can't be measured here."""
    return Row(claim, ours, None, peer_name, unit, backend=backend, note=why)
