"""Programs that are recorded by a collector of their own, and may be killed at any moment."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout

from tops_kit.collect import CollectorHandle, start
from tops_kit.collect.recovery import recover
from tops_kit.session import Session

# Programs tell through a mapped file how far they are, so that a test knows what was published before a kill.
PRELUDE = """
import mmap, os, struct, sys, threading, time
import topstx
with open(os.environ["PROGRESS"], "r+b") as file:
    _progress = mmap.mmap(file.fileno(), 4096)
_slot = int(os.environ.get("PROGRESS_SLOT", "0")) * 8
def tell(value): struct.pack_into("<q", _progress, _slot, value)
def told(): return struct.unpack_from("<q", _progress, _slot)[0]
"""


class Recorded:
    """A recording, and the programs started in it."""

    def __init__(self, folder: Path, pure: bool) -> None:
        self.folder = folder
        self.programs: list[subprocess.Popen[str]] = []
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
        self.environment["TOPSKIT_PURE"] = "1" if pure else "0"
        self.environment["TOPSTX_SESSION"] = str(folder)
        progress = folder.with_suffix(".progress")
        progress.write_bytes(b"\0" * 4096)
        self.environment["PROGRESS"] = str(progress)
        with progress.open("r+b") as file:
            self._progress = mmap.mmap(file.fileno(), 4096)
        self.handle: CollectorHandle | None = None
        self._pure = pure

    def start(self, **options: Any) -> CollectorHandle:
        """Start the collector (with the same back end as the programs)."""
        before = os.environ.get("TOPSKIT_PURE")
        os.environ["TOPSKIT_PURE"] = "1" if self._pure else "0"
        try:
            self.handle = start(self.folder, **options)
        finally:
            os.environ.pop("TOPSKIT_PURE")
            if before is not None:
                os.environ["TOPSKIT_PURE"] = before
        return self.handle

    def program(
        self, source: str, *arguments: str, slot: int = 0, **environment: str
    ) -> subprocess.Popen[str]:
        """Start a Python program; `tell(n)` in it is `progress(slot)` here."""
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(source), *arguments],
            env=self.environment | {"PROGRESS_SLOT": str(slot)} | environment,
            text=True,
            stdin=subprocess.PIPE,  # a program that reads it waits, whatever our own stdin is
            stdout=subprocess.PIPE,
        )
        self.programs.append(process)
        return process

    def run(self, source: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Run a Python program to its end."""
        process = self.program(source, *arguments, **environment)
        process.communicate(timeout=120)
        return process

    def progress(self, slot: int = 0) -> int:
        return int(struct.unpack_from("<q", self._progress, slot * 8)[0])

    def answer(self, value: int, slot: int = 0) -> None:
        """Make `told()` in a program give `value`."""
        struct.pack_into("<q", self._progress, slot * 8, value)

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        """Poll until `condition()` is true and return it; fails after a deadline."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
            time.sleep(0.002)
        return value

    def drained(self, pid: int) -> bool:
        """Whether the collector has taken all that the process has written so far (so it knows it)."""
        taken = []
        for ring in self.folder.glob("rings/*.ring"):
            values = struct.unpack_from(layout.RING_FORMAT, ring.read_bytes())
            header = dict(zip(layout.RING_FIELDS, values, strict=True))
            if header["pid"] == pid:
                taken.append(header["head"] == header["tail"])
        return bool(taken) and all(taken)

    def stop(self) -> Session:
        assert self.handle is not None
        self.handle.stop()
        return Session.open(self.folder)

    def kill_collector(self) -> None:
        assert self.handle is not None
        self.handle.process.kill()
        self.handle.process.wait()
        self.handle.release()

    def recover(self) -> Session:
        recover(self.folder)
        return Session.open(self.folder)

    def close(self) -> None:
        for process in self.programs:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self.handle is not None and self.handle.process.poll() is None:
            self.handle.process.kill()
            self.handle.process.wait()
        if self.handle is not None:
            self.handle.release()
            if self.handle.process.stdout is not None:
                self.handle.process.stdout.close()


@pytest.fixture(params=["C", "twin"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recorded]:
    """A `Recorded` whose programs and collector use the C extensions, or the twins."""
    pure = request.param == "twin"
    if not pure:
        for module in ("topstx.recorder._crec", "tops_kit.collect._drain"):
            pytest.importorskip(module, reason="the C extension is not built here")
        if os.environ.get("TOPSKIT_PURE", "") not in {"", "0"}:
            pytest.skip("TOPSKIT_PURE is set")
    made = Recorded(tmp_path / "run.topsprof", pure)
    yield made
    made.close()
