"""Finds new names files and ring files of a session that is being recorded."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from tops_kit.collect.names import NamesError, ProcessNames, fork_order
from tops_kit.collect.processes import Processes, Row
from tops_kit.collect.rings import RingError, RingLaterError, RingNotReadyError, RingTable, open_ring

_SETTLE_NS = 50_000_000  # a folder may change again within the grain of its time stamp
_RESCAN_S = 1.0
_PATIENCE_S = 2.0  # how long a file may stay unfinished while its process lives

Note = Callable[[str, str, int, str], None]  # stream, what, count, note: as Ledger.count


class _Folder:
    """Names in a folder that were not there before; looks only when the folder's time stamp moved."""

    def __init__(self, path: Path, suffix: str) -> None:
        self._path = path
        self._suffix = suffix
        self._stamp = -1
        self._looked = -1e9
        self.known: set[str] = set()

    def fresh(self, force: bool) -> list[str]:
        try:
            stamp = self._path.stat().st_mtime_ns
        except OSError:
            return []
        now = time.monotonic()
        if not force and stamp == self._stamp and now - self._looked < _RESCAN_S:
            return []
        self._stamp = stamp if time.time_ns() - stamp > _SETTLE_NS else -1
        self._looked = now
        try:
            with os.scandir(self._path) as entries:
                names = {entry.name for entry in entries if entry.name.endswith(self._suffix)}
        except OSError:
            return []
        found = sorted(names - self.known)
        self.known &= names
        self.known.update(found)
        return found


class Discovery:
    """Opens what is new. Files that are still being made are tried again; bad ones are told to `note` once
    and skipped.
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        table: RingTable,
        *,
        note: Note,
        start_ns: Callable[[ProcessNames], int | None],
    ) -> None:
        self._names = _Folder(folder / "names", ".names")
        self._rings = _Folder(folder / "rings", ".ring")
        self._folder = folder
        self._processes = processes
        self._table = table
        self._texts = processes.texts
        self._note = note
        self._start_ns = start_ns
        self._waiting_names: dict[str, float] = {}
        self._waiting_rings: dict[str, float] = {}
        self._bad: set[int] = set()  # serials whose names file is no use
        self.resume: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # ring -> (tail, thread) that a journal knows
        self.skip: set[str] = set()  # rings that were finished before
        self.watch = True

    def look(self, *, force: bool = False, last: bool = False) -> list[Row]:
        """Take up what is new; the rows of new processes. `last`: what is unfinished now stays so."""
        rows = self._look_names(force, last)
        self._look_rings(force, last)
        return rows

    def _look_names(self, force: bool, last: bool) -> list[Row]:
        fresh = [*self._waiting_names, *self._names.fresh(force)]
        if not fresh:
            return []
        opened: dict[int, ProcessNames] = {}
        for name in fresh:
            names = ProcessNames(self._folder / "names" / name, self._texts)
            try:
                names.read_header()
                opened[names.serial] = names
                self._waiting_names.pop(name, None)
            except NamesError as error:
                since = self._waiting_names.setdefault(name, time.monotonic())
                if last or time.monotonic() - since > _PATIENCE_S:
                    del self._waiting_names[name]
                    self._bad_names(name, error)
        rows = []
        with self._processes.lock:
            for names in fork_order(opened):
                try:
                    names.open(self._processes.names)
                except NamesError as error:
                    self._bad_names(names.path.name, error)
                    continue
                rows.append(self._processes.add(names, self._start_ns(names), watch=self.watch))
        return rows

    def _bad_names(self, name: str, error: NamesError) -> None:
        self._note("collector", "dropped:names_file", 1, f"names file {name} {error}")
        with contextlib.suppress(ValueError):
            self._bad.add(int(name.partition(".")[0], 16))

    def _look_rings(self, force: bool, last: bool) -> None:
        for name in [*self._waiting_rings, *self._rings.fresh(force)]:
            since = self._waiting_rings.pop(name, None)
            if name in self._table.by_name or name in self.skip:
                continue
            if since is None:
                since = time.monotonic()
            try:
                ring = open_ring(self._folder / "rings" / name)
            except FileNotFoundError:
                continue
            except RingNotReadyError:
                # Its process is making it, or died while it was; only the end of the recording tells.
                if not last:
                    self._waiting_rings[name] = since
                continue
            except RingError as error:
                if isinstance(error, RingLaterError) and not last:
                    self._waiting_rings[name] = since
                    continue
                self._note("collector", "dropped:ring_file", 1, f"ring file {name}: {error}")
                continue
            if ring.process not in self._processes.by_serial:
                # A names file comes before the rings, but this folder may have been listed after the other
                # one.
                if not last and time.monotonic() - since < _PATIENCE_S and ring.process not in self._bad:
                    self._waiting_rings[name] = since
                    continue
                with self._processes.lock:
                    row = self._processes.add_unknown(ring.process, ring.pid)
                self._note(
                    f"process:{row.process_id}",
                    "repaired:no_names",
                    1,
                    "its names file is missing or damaged",
                )
            self._table.add(ring, *self.resume.get((ring.process, ring.serial), (None, None)))
