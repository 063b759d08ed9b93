"""Values of options, as command lines write them."""

from __future__ import annotations

import argparse
import signal


def seconds(text: str) -> float:
    """A time of the command line: seconds, 0 or more. Raises ArgumentTypeError."""
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no time in seconds")
    return value


def duration(text: str) -> float:
    """A time of the command line as 30s, 500ms, 5m or 2h, or in seconds; in seconds. Raises
    ArgumentTypeError.
    """
    from tops_kit.collect.flight.rules import time_ns

    found = time_ns(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no time: write it as 30s, 500ms, 5m or 2h")
    return found / 1e9


def nanoseconds(text: str) -> int:
    """A time of the command line in ns: a whole number, or with us or ms behind it. Raises
    ArgumentTypeError.
    """
    word = text.strip().lower()
    factor = 1_000_000 if word.endswith("ms") else 1000 if word.endswith("us") else 1
    digits = word.removesuffix("ms").removesuffix("us").removesuffix("ns")
    if not digits.isdecimal() or len(digits) > 12:
        raise argparse.ArgumentTypeError(f"'{text}' is no time in nanoseconds, as 1000, 5us or 1ms")
    return int(digits) * factor


def positive(text: str) -> int:
    """A number of the command line, 1 or more. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of 1 or more")
    return int(text)


def call_limit(text: str) -> int:
    """The value of --python-call-limit; 0 for off. Raises ArgumentTypeError."""
    return 0 if text.strip().lower() == "off" else positive(text)


def size(text: str) -> int:
    """A size of the command line in bytes; K, M and G are 1024 of each other. Raises ArgumentTypeError."""
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(word[-1:], 1)
    digits = word[:-1] if factor > 1 else word
    if not digits.isdecimal() or len(digits) > 15 or not int(digits):
        raise argparse.ArgumentTypeError(f"'{text}' is no size: bytes, or as 500M, 2G")
    return int(digits) * factor


def signal_number(text: str) -> int:
    """The signal of --kill by name or number; 0 for none. Raises ArgumentTypeError."""
    word = text.strip().lower()
    if word == "none":
        return 0
    name = word.upper()
    try:
        if word.isdecimal():
            return int(signal.Signals(int(word)))
        return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no signal: none, sigterm, sigkill or a number"
        ) from None
