"""Loops that the compiler knows more of, checks, and output."""

from __future__ import annotations

from tops_kit.topscc.language.words import Printed, Scalar, Static, word


@word
def pipeline(
    start: Scalar,
    stop: Scalar,
    step: Scalar = 1,
    /,
    *,
    load: Static,
    pad: Scalar = None,
    ahead: Static = None,
) -> Static:
    """A loop whose loads run ahead: `for r in tops.pipeline(start, stop, step, load=(buffer, source)):`

    `source` is a lambda or function that gives what round r needs: `lambda r: x[r:r+1]`. It may not use
    what the loop's body changes. While the body works on `buffer[r]`, the DTE fills the other slots with the
    next rounds: `slots=2` is double buffering. Several loads: a list of such pairs. Where a source is smaller
    than the slot, so is `buffer[r]`. With `pad`, what lies outside of the array becomes that value.

    Loads run slots - 1 rounds ahead: while round r runs, the slot of round r - 1 is being filled. With
    `ahead` they run fewer ahead, and slots that were worked on stay as they are for slots - 1 - ahead rounds:
    so long may an asynchronous store from one be under way (`slots=3, ahead=1`: store while loading).

        row = tops.l1(tops.f32, (1, COLS), slots=2)
        for r in tops.pipeline(tops.thread_id(), rows, tops.num_threads(), load=(row, lambda r: x[r:r+1])):
            tops.store(y[r:r+1], tops.exp(row[r]))
    """


@word
def range(start: Scalar, stop: Scalar = None, step: Scalar = 1, /) -> Static:  # as Python's
    """`for i in tops.range(n):` is `for i in range(n):`, a loop that runs on the device."""


@word
def static_range(start: Static, stop: Static = None, step: Static = 1, /) -> Static:
    """A loop that is unrolled: its bounds are known when compiling, and so is the loop variable."""


@word
def static_assert(condition: Static, message: Static = "", /) -> None:
    """Refuse to compile unless a condition, which must be known when compiling, holds."""


@word
def print(*parts: Printed, sep: Static = " ") -> None:  # as Python's
    """Print one line: texts, scalars, tiles (`print` is the same; also f-strings, with formats).

    Lines of a thread come in order, threads one after another. The launch's `output` has them too.
    """


@word
def breakpoint() -> None:  # as Python's
    """Stop here under a debugger; nothing otherwise."""
