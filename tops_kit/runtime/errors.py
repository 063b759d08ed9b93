"""What runtime calls raise: the vendor's names and numbers, in one line that says what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tops_kit.engine.fault import KernelFault
from tops_kit.errors import UserError
from tops_kit.runtime.codes import Code


class TopsError(UserError):
    """A runtime call failed.

    `code` is the vendor's number, `name` its name ("topsErrorIllegalAddress"), `text` what happened.
    `launched_at`: for what a kernel did, the lines of the program that launched it, innermost first; `fault`
    the KernelFault itself; `made_at`: of a graph's kernel, the lines that made or captured its node.
    """

    fault: KernelFault | None = None
    launched_at: tuple[str, ...] = ()
    made_at: tuple[str, ...] = ()

    def __init__(self, code: int, text: str) -> None:
        self.code = Code(code)
        self.text = text
        super().__init__(f"{self.code.name} ({int(self.code)}): {text}")

    @property
    def name(self) -> str:
        """The vendor's name of the error."""
        return self.code.name

    def again(self) -> TopsError:
        """The same error, to be raised at another call."""
        return _again(type(self), int(self.code), self.text, self.launched_at, self.made_at, self.fault)

    def __reduce__(self) -> Any:
        # to another process without the fault, which holds the program
        return _again, (type(self), int(self.code), self.text, self.launched_at, self.made_at, None)


class LaunchError(TopsError):
    """Arguments, threads or options that a kernel can't be launched with."""

    def __init__(self, text: str, code: int = Code.topsErrorInvalidValue) -> None:
        super().__init__(code, text)
        self.args = (text,)

    def __str__(self) -> str:
        return self.text


def _again(  # noqa: PLR0917 - what it is pickled as
    kind: type[TopsError],
    code: int,
    text: str,
    launched_at: tuple[str, ...],
    made_at: tuple[str, ...],
    fault: KernelFault | None,
) -> TopsError:
    error = kind(text, code) if issubclass(kind, LaunchError) else kind(code, text)
    error.launched_at = launched_at
    error.made_at = made_at
    error.fault = fault
    return error


def fail(code: Code, text: str) -> NoReturn:
    """Raise a TopsError."""
    raise TopsError(code, text)


def shown(value: Any) -> str:
    """A value as an error shows it, in one line: short numbers and texts as they are, else what it is."""
    if isinstance(value, int | float | str | bytes | tuple | list | None):
        try:
            text = ascii(value) if _is_short(value) else "\n"
        except Exception:  # whatever the representation of a program's class raises
            text = "\n"
        if len(text) < 60 and "\n" not in text:
            return text
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _is_short(value: Any) -> bool:
    return not isinstance(value, str | bytes | tuple | list) or len(value) < 60


def is_path(value: Any) -> bool:
    """Whether it is a text or Path that the system can have as a file's name."""
    try:
        if not isinstance(value, str | Path) or b"\0" in os.fsencode(value):
            return False
        os.lstat(value)
    except UnicodeEncodeError:
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def truth_of(value: Any, what: str) -> bool:
    """True or False as it is given to a call. Raises TopsError."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        fail(Code.topsErrorInvalidValue, f"{what} is True or False, not {shown(value)}")


_OF_FAULTS = {
    "assert": Code.topsErrorAssert,
    "timeout": Code.topsErrorLaunchTimeOut,
    "memory": Code.topsErrorLaunchTimeOut,  # more was done than can be kept: it goes on for too long
    **dict.fromkeys(("slot", "view", "bounds", "index", "gather", "space"), Code.topsErrorIllegalAddress),
}


def fault_code(fault: KernelFault) -> Code:
    """The vendor's number for what a kernel did."""
    return _OF_FAULTS.get(fault.kind.name, Code.topsErrorLaunchFailure)


def of_fault(fault: KernelFault, launched_at: Sequence[str], made_at: Sequence[str] = ()) -> TopsError:
    """The error of a kernel that ran by itself, as a later call reports it."""
    place = f", launched at {launched_at[0]}" if launched_at else ""
    if made_at:
        place += f" in a graph, its node made at {made_at[0]}"
    error = TopsError(fault_code(fault), f"kernel {fault.kernel}{place}: {fault.message}")
    error.fault = fault
    error.launched_at = tuple(launched_at)
    error.made_at = tuple(made_at)
    return error
