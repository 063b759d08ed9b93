"""Deleting files without holding up anything: freeing the blocks of one takes milliseconds on some file
systems.
"""

from __future__ import annotations

import contextlib
import glob
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

_FEW = 64  # files that are deleted on the spot
_REMOVE = "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)"


class Sweeper:
    """A thread that deletes files one after the other. `pending` are the names of those that it has not
    come to yet.
    """

    def __init__(self) -> None:
        self.pending: set[str] = set()
        self._queue: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def remove(self, paths: Iterable[Path]) -> None:
        """Delete files, later."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tops-collect-sweep", daemon=True)
            self._thread.start()
        for path in paths:
            self.pending.add(path.name)
            self._queue.put(path)

    def stop(self) -> None:
        """Give up what is pending."""
        self._stopped = True
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (path := self._queue.get()) is not None and not self._stopped:
            with contextlib.suppress(OSError):  # what can't be deleted goes with the folder
                path.unlink(missing_ok=True)
            self.pending.discard(path.name)


def remove_folders(parent: Path, names: Iterable[str]) -> None:
    """Remove folders of `parent`: at once when they hold few files, else by a process that nobody waits for.

    Either way they are gone from their names when this returns.
    """
    folders = [parent / name for name in names if (parent / name).is_dir()]
    if sum(1 for folder in folders for _ in folder.iterdir()) <= _FEW:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return
    # Beside the session, so that whoever moves or deletes that doesn't meet the process at work.
    trash = parent.with_name(f".{parent.name}.trash-{os.getpid()}")
    try:
        trash.mkdir(exist_ok=True)
        for folder in folders:
            folder.rename(trash / folder.name)
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _REMOVE, str(trash)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        for folder in [*folders, trash]:
            shutil.rmtree(folder, ignore_errors=True)


def remove_trash(parent: Path) -> None:
    """Remove what such a process left when it was killed."""
    for folder in parent.parent.glob(f".{glob.escape(parent.name)}.trash-*"):
        shutil.rmtree(folder, ignore_errors=True)
