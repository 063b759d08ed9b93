"""Buffers in L1 and L2, and transfers by the DTE between them and arrays in L3."""

from __future__ import annotations

from tops_kit.topscc.language.words import Event, Operand, Scalar, Shape, Static, Tile, View, word


@word
def l1(dtype: Static, shape: Shape, slots: Static = 1) -> View:
    """A buffer in the L1 memory of each thread: `slots` times `shape` (1 to 3 extents, constexprs).

    With one slot the buffer is itself a view: `b[0:4]`, `b[i, j]`. With more, the first subscript is the
    slot: `b[slot]`, `b[slot, i, j]`; inside of its `pipeline` loop it is the loop variable: `b[r]`.

        row = tops.l1(tops.f32, (1, COLS), slots=2)
    """


@word
def l2(dtype: Static, shape: Shape, slots: Static = 1) -> View:
    """A buffer in the L2 memory that the threads of a block share. As `l1`, but computing needs L1: load it.

    part = tops.l2(tops.f32, (12, COLS))
    """


@word
def load(first: View, second: View = None, /, *, pad: Scalar = None, channel: Static = None) -> Tile:
    """`t = tops.load(x[i:i+n])`: a part of an array or buffer as a tile, there when the call is over.
    `tops.load(buffer, x[i:i+n])`: into a buffer of yours.

    Extents must have a bound known when compiling: `x[i:i+BLOCK]`, `x[i:min(i+BLOCK, n)]` (a tail is a
    smaller tile). With `pad`, what lies outside of the array becomes that value, and the tile is whole. An
    element, `tops.load(x[i])`, gives a scalar.
    """


@word
def load_async(
    destination: View, source: View, /, *, pad: Scalar = None, after: Event = None, channel: Static = None
) -> Event:
    """Start a load into a buffer; gives the event to `wait` for. It starts when event `after` is complete.

    ready = tops.load_async(row[0], x[r:r+1])
    """


@word
def store(destination: View, source: View, /, *, clip: Static = False) -> None:
    """A tile, a view of L1 or L2, or a number to a part of an array: `tops.store(y[i:i+n], t)`.

    The source may be reused at once. Extents must be equal, or 1 in the source. With `clip`, what lies
    outside of the array is left out.
    """


@word
def store_async(
    destination: View, source: View, /, *, clip: Static = False, after: Event = None, channel: Static = None
) -> Event:
    """Start a store; gives the event to `wait` for before the source is reused."""


@word
def copy(
    destination: View, source: View, /, *, pad: Scalar = None, clip: Static = False, channel: Static = None
) -> None:
    """Copy between any two memories (L1, L2, L3) by the DTE, and wait for it.

    Both sides may be slices with steps, transposed (`x.T`), or reach outside with `pad` (source) or `clip`
    (destination). Element types are equal; extents equal but for 1, which in the source is repeated.
    """


@word
def copy_async(
    destination: View,
    source: View,
    /,
    *,
    pad: Scalar = None,
    clip: Static = False,
    after: Event = None,
    channel: Static = None,
) -> Event:
    """Start a copy between any two memories; gives its event. `after` chains it to another's end.

    `channel`: 0 to 254, or "block" for the DTE of the block; None chooses one for each line.
    """


@word
def memset(destination: View, value: Scalar, /, *, channel: Static = None) -> None:
    """Fill a view with one value by the DTE, and wait for it: `tops.memset(y[0:n], 0.0)`."""


@word
def memset_async(
    destination: View, value: Scalar, /, *, after: Event = None, channel: Static = None
) -> Event:
    """Start filling a view with one value; gives the event."""


@word
def wait(*events: Event) -> None:
    """Until the transfers are complete: events, or tuples of them."""


@word
def wait_all() -> None:
    """Until all transfers that this thread started are complete."""


@word
def no_event() -> Event:
    """An event that is complete: a first value for a variable that will hold events."""


@word
def atomic_add(target: View, value: Operand) -> Scalar:
    """Add to one element of L1, L2 or L3 (i32 or f32), gives the old value: `tops.atomic_add(h[k], 1)`.

    Or add a tile, element by element, to a part of L2 or L3: `tops.atomic_add(c[0:n], t)`.
    The order between threads is fixed: results do not change from run to run.
    """


@word
def atomic_min(target: View, value: Scalar) -> Scalar:
    """The lesser into one element (i32 or f32); gives the old value."""


@word
def atomic_max(target: View, value: Scalar) -> Scalar:
    """The greater into one element (i32 or f32); gives the old value."""


@word
def atomic_and(target: View, value: Scalar) -> Scalar:
    """Bitwise and into one element (i32); gives the old value."""


@word
def atomic_or(target: View, value: Scalar) -> Scalar:
    """Bitwise or into one element (i32); gives the old value."""


@word
def atomic_xor(target: View, value: Scalar) -> Scalar:
    """Bitwise exclusive or into one element (i32); gives the old value."""


@word
def atomic_exchange(target: View, value: Scalar) -> Scalar:
    """Write one element (i32 or f32); gives the old value."""


@word
def atomic_cas(target: View, expected: Scalar, value: Scalar) -> Scalar:
    """Write `value` to one element (i32) if it is `expected`; gives the old value."""
