"""What a kernel's file says about trying it: arguments to launch it with, and what should come out.

@softmax.example
def _(rng, rows=4096, COLS=4096):
    x = rng.standard_normal((rows, COLS), dtype=numpy.float32)
    return dict(x=x, y=numpy.empty_like(x), rows=rows, COLS=COLS)

@softmax.reference(rtol=1e-5)
def _(x):
    e = numpy.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tops_kit.errors import UserError
from tops_kit.runtime.errors import LaunchError

_APART = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # neighbours near 1, by the names of numpy and torch
LAUNCH_KEYS = ("threads", "grid", "block")


@dataclass(frozen=True, slots=True)
class Reference:
    """A function that computes what a kernel should, and how near the kernel must come."""

    function: Callable[..., Any]
    rtol: float
    atol: float
    half_atol: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an array is from what it should be."""

    name: str
    wrong: int  # elements beyond the tolerances
    elements: int
    largest: float  # absolute difference
    at: tuple[int, ...]  # where it is largest
    got: Any
    expected: Any


class Examples:
    """Example and reference of one kernel."""

    def __init__(self) -> None:
        self._example: Callable[..., Any] | None = None
        self._reference: Reference | None = None

    def example(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator of a function that makes arguments: it takes `rng` (a numpy Generator) and options with
        defaults (`topscc run --arg rows=100` gives others), and gives a dict of the kernel's arguments.

        The dict may also have `threads`, or `grid` and `block`, to be launched with.
        """
        self._example = function
        return function

    def reference(
        self,
        function: Callable[..., Any] | None = None,
        *,
        rtol: float = 1e-5,
        atol: float = 1e-6,
        half_atol: float = 0.0,
    ) -> Any:
        """Decorator of a function that computes what the kernel should.

        It takes those of the kernel's arguments that it names, as they were before the launch, and gives the
        array that should be stored: several as a dict by name, or as a tuple in the order of the parameters.
        Elements may differ by atol + rtol * |expected|; in arrays of ints and bools not at all. In arrays of
        f16 and bf16 rtol is at least what numbers of the type are apart near 1, and atol `half_atol` times
        that: for kernels that round on the way, not only the result.
        """

        def decorate(chosen: Callable[..., Any]) -> Callable[..., Any]:
            self._reference = Reference(chosen, rtol, atol, half_atol)
            return chosen

        return decorate if function is None else decorate(function)

    @property
    def has_example(self) -> bool:
        """Whether there is an example."""
        return self._example is not None

    @property
    def has_reference(self) -> bool:
        """Whether there is a reference."""
        return self._reference is not None

    def options(self) -> dict[str, Any]:
        """The options of the example with their defaults."""
        if self._example is None:
            return {}
        parameters = list(inspect.signature(self._example).parameters.values())[1:]
        return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}

    def arguments(self, options: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
        """The example's arguments. LaunchError: it doesn't give a dict."""
        if self._example is None:
            raise LaunchError("there is no example")
        out = _run(self._example, "example", np.random.default_rng(seed), **options)
        if not isinstance(out, Mapping):
            raise LaunchError(f"the example gives a {type(out).__name__}: it must give a dict of arguments")
        return dict(out)

    def expected(self, before: Mapping[str, Any], stored: Sequence[str]) -> dict[str, Any]:
        """What the reference says should be in the arrays that are stored to."""
        assert self._reference is not None
        parameters = inspect.signature(self._reference.function).parameters
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        taken = {name: value for name, value in before.items() if takes_all or name in parameters}
        missing = [
            name
            for name, p in parameters.items()
            if name not in taken and p.default is inspect.Parameter.empty and p.kind is not p.VAR_KEYWORD
        ]
        if missing:
            raise LaunchError(f"the reference asks for {missing[0]}, which is no argument of the kernel")
        out = _run(self._reference.function, "reference", **taken)
        if isinstance(out, Mapping):
            return dict(out)
        given = out if isinstance(out, tuple) else (out,)
        if len(given) != len(stored):
            raise LaunchError(
                f"the reference gives {len(given)} arrays, the kernel stores to "
                f"{', '.join(stored) or 'none'}: give a dict by name"
            )
        return dict(zip(stored, given, strict=True))

    def differences(self, expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[Difference]:
        """The arrays with elements that are further off than the tolerances."""
        assert self._reference is not None
        out = []
        for name, should in expected.items():
            if name not in got:
                raise LaunchError(f"the reference gives {name}, which is no array of the kernel")
            found = compare(name, got[name], should, self._reference)
            if found.wrong:
                out.append(found)
        return out


def compare(name: str, got: Any, expected: Any, tolerance: Reference) -> Difference:
    """How far an array is from what it should be; NaN equals NaN. LaunchError: the shapes differ.

    The tolerances are those of Examples.reference.
    """
    try:
        one, other = _numbers(got), _numbers(expected)
    except (TypeError, ValueError) as reason:
        raise LaunchError(f"the reference gives no numbers for {name}: {reason}") from None
    if one.shape != other.shape:
        raise LaunchError(f"{name} has the shape {one.shape}, the reference gives {other.shape}")
    exact = not (_floats(got) and _floats(expected))
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
        distance = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, distance)
        distance = np.where(np.isnan(distance), np.inf, distance)
        apart = _APART.get(str(getattr(got, "dtype", "")).rpartition(".")[2], 0.0)
        rtol, atol = max(tolerance.rtol, apart), max(tolerance.atol, tolerance.half_atol * apart)
        # what should be infinite or NaN allows for nothing else
        allowed = np.where(np.isfinite(other) & (not exact), atol + rtol * np.abs(other), 0.0)
        wrong = distance > allowed
    if not wrong.size:
        return Difference(name, 0, 0, 0.0, (), None, None)
    at = np.unravel_index(int(np.argmax(distance)), distance.shape)
    place = tuple(int(index) for index in at)
    return Difference(
        name, int(wrong.sum()), int(wrong.size), float(distance[at]), place, one[at].item(), other[at].item()
    )


def _run(function: Callable[..., Any], what: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of the user's; LaunchError: it raised something, with the line of its file."""
    try:
        return function(*arguments, **options)
    except UserError:
        raise
    except Exception as error:
        path = function.__code__.co_filename if hasattr(function, "__code__") else ""
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path
        ]
        place = f" ({path}:{lines[-1]})" if lines else ""
        said = " ".join(str(error).split()) or "no message"
        raise LaunchError(f"the {what}{place} raises {type(error).__name__}: {said}") from None


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    """An array as float64, which holds every number of the GCU's types exactly."""
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().double().numpy()
    return np.atleast_1d(np.asarray(value, np.float64))


def _floats(value: Any) -> bool:
    return "float" in str(value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype)
