"""`capture()`: record this process, and the children it starts, for the length of a block."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from topstx._process import Follower
from topstx.recorder.interface import Backend


def free_name(stem: str) -> Path:
    """`stem`N.topsprof in the working folder, N the lowest number that is free."""
    number = 1
    while Path(f"{stem}{number}.topsprof").exists():
        number += 1
    return Path(f"{stem}{number}.topsprof")


@contextmanager
def capture(
    backend: Backend, follower: Follower, output: str | os.PathLike[str] | None, disabled: bool
) -> Iterator[Path | None]:
    """See `topstx.capture`."""
    current = backend.session()
    if current is not None or disabled or backend.NAME == "off":
        yield Path(current) if current is not None else None
        return
    if find_spec("tops_kit") is None:
        raise RuntimeError("topstx.capture() needs the tops-kit distribution: pip install tops-kit")
    folder = Path(output) if output is not None else free_name("report")
    if folder.suffix != ".topsprof":
        folder = folder.with_name(folder.name + ".topsprof")
    folder = folder.absolute()
    if folder.exists():
        raise FileExistsError(f"{folder} exists: choose another name for the session")
    # By name, as topstx stands below tops_kit and works without it.
    errors, collect = import_module("tops_kit.errors"), import_module("tops_kit.collect")
    try:
        collector = collect.start(folder, command=sys.orig_argv)
    except errors.UserError as error:
        raise RuntimeError(str(error)) from error
    owner, before = os.getpid(), os.environ.get("TOPSTX_SESSION")
    try:
        if not follower.enter(str(folder)):
            raise RuntimeError(f"can't record into {folder}")
        os.environ["TOPSTX_SESSION"] = str(folder)  # children record as well
        try:
            yield folder
        finally:
            if before is None:
                os.environ.pop("TOPSTX_SESSION", None)
            else:
                os.environ["TOPSTX_SESSION"] = before
            if os.getpid() == owner:
                follower.leave()
    finally:
        if os.getpid() == owner:
            _stop(collector, errors.UserError)
        else:  # a child that was forked within the block leaves it; the recording is its parent's
            collector.release()


def _stop(collector: Any, failure: type[Exception]) -> None:
    """End the recording. That it is incomplete is told, and no reason for the program to fail."""
    try:
        collector.stop()  # and not the leash alone: children that live on hold it too
    except failure as error:
        print(f"topstx: {error}", file=sys.stderr)
