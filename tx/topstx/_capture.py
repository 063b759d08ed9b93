"""`capture()`: record this process, and the children it starts, for the length of a block."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from topstx._process import Follower
from topstx.recorder.interface import Backend

READY_S = 30.0


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
    collector, leash = _start_collector(folder)
    before = os.environ.get("TOPSTX_SESSION")
    try:
        if not follower.enter(str(folder)):
            raise RuntimeError(f"can't record into {folder}")
        os.environ["TOPSTX_SESSION"] = str(folder)  # children record as well
        try:
            yield folder
        finally:
            if before is None:
                del os.environ["TOPSTX_SESSION"]
            else:
                os.environ["TOPSTX_SESSION"] = before
            backend.detach()
    finally:
        os.close(leash)
        collector.wait()


def _start_collector(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A collector process for `folder`, ready; it ends when the descriptor returned is closed."""
    held, leash = os.pipe()
    command = [sys.executable, "-m", "tops_kit.collect", str(folder), "--leash", str(held)]
    command += ["--", *sys.orig_argv]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    environment["TOPSTX_DISABLE"] = "1"  # the collector records nothing of itself
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=[held],
            env=environment,
            start_new_session=True,  # Ctrl-C is for the program
        )
    finally:
        os.close(held)
    assert process.stdout is not None
    with process.stdout as out:
        line = out.readline()
    if line.strip() != b"ready":
        os.close(leash)
        code = process.wait()
        message = line.decode(errors="replace").strip()
        raise RuntimeError(message or f"the collector for {folder} did not start (it ended with {code})")
    return process, leash
