"""Extents of results, and whether extents fit: pure functions, None or a text where they do not."""

from __future__ import annotations

from collections.abc import Callable

from tops_kit.topscc.kinds import AtMost, Extent, Shape, bound_of, same_extent, shape_text


def broadcast(a: Shape, b: Shape, unknown: Callable[[int | None], AtMost]) -> Shape | str:
    """The shape of an operation by elements: the last axes are aligned, extent 1 is repeated, as in numpy.

    Gives a text that says what does not fit. `unknown` makes an extent of which only the bound is known.
    """
    rank = max(len(a), len(b))
    left: Shape = (1,) * (rank - len(a)) + a
    right: Shape = (1,) * (rank - len(b)) + b
    out: list[Extent] = []
    for axis, (x, y) in enumerate(zip(left, right, strict=True)):
        extent = _broadcast_extent(x, y, unknown)
        if extent is None:
            return f"extents {x} and {y} of axis {axis} of {shape_text(left)} and {shape_text(right)} differ"
        out.append(extent)
    return tuple(out)


def _broadcast_extent(x: Extent, y: Extent, unknown: Callable[[int | None], AtMost]) -> Extent | None:
    if isinstance(x, int) and isinstance(y, int):
        return x if y in (1, x) else y if x == 1 else None
    if y == 1 or same_extent(x, y):
        return x
    if x == 1:
        return y
    if isinstance(y, int):  # x is y or 1 when it runs
        return y
    if isinstance(x, int):
        return x
    bounds = (bound_of(x), bound_of(y))
    return unknown(None if None in bounds else max(bound for bound in bounds if bound is not None))


def differ(a: Extent, b: Extent) -> bool:
    """Whether two extents can't be equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        bound = bound_of(a)
        return bound is not None and b > bound
    return False


def transfer_problem(destination: Shape, source: Shape) -> str:
    """Why a transfer between these shapes can't work, or "".

    The source is repeated where its extent is 1, the last axes aligned; or one has the other's extents and
    axes of extent 1 between them, as (4, 1) and (4,), not (4, 1) and (1, 4). Where an extent is only known
    when the kernel runs, the machine checks.
    """
    text = f"{shape_text(source)} does not fit {shape_text(destination)}"
    if any(isinstance(n, AtMost) for n in (*destination, *source)):
        pairs = zip(destination, source, strict=True) if len(destination) == len(source) else ()
        return text if any(differ(d, s) and s != 1 for d, s in pairs if isinstance(s, int)) else ""
    rank = max(len(destination), len(source))
    padded_d = (1,) * (rank - len(destination)) + destination
    padded_s = (1,) * (rank - len(source)) + source
    if all(s in (1, d) for d, s in zip(padded_d, padded_s, strict=True)):
        return ""
    longer, shorter = sorted((destination, source), key=len, reverse=True)
    return "" if len(longer) > len(shorter) and _with_ones(longer, shorter) else text


def _with_ones(longer: Shape, shorter: Shape) -> bool:
    """Whether a shape is another with axes of extent 1 between its axes."""
    left = list(shorter)
    for extent in longer:
        if left and extent == left[0]:
            left.pop(0)
        elif extent != 1:
            return False
    return not left


def shape_hint(axes: int) -> str:
    """What to write for a shape of a number of axes that is not possible."""
    return "join axes: (a * b, c, d), or loop over one" if axes > 3 else "write the shape as a tuple: (n,)"


def axes_hint(rank: int) -> str:
    """Which axes there are."""
    return "it is 0, or -1" if rank == 1 else f"they are 0 to {rank - 1}, or -1 for the last"
