"""Sampling of a recording: one thread of topsprof's own that samples all its Pythons while recording is on.

It is in the process that started the program, which the kernel lets look into what it started.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topstx.recorder import layout

from tops_kit.errors import UserError
from topsprof.capture import process_table
from topsprof.capture.chunks import ChunkNumbers

if TYPE_CHECKING:
    from tops_kit.collect.control import Control
    from topsprof.capture.sampling.candidates import Candidate, Candidates
    from topsprof.capture.sampling.sampler import Sampler, SamplingLoop
    from topsprof.capture.sampling.spool import Source, Spool

_TURN_S: Final = 0.02  # how soon a switch of recording, and a new process, is seen
_QUIET_TURN_S: Final = 0.05  # ... where none has come for a while: a turn costs us as much as four samples
_QUIET_AFTER_S: Final = 2.0
_FIRST_TURNS_S: Final = 0.005
_BATCH_S: Final = 0.5
_MOST_STACKS: Final = 250_000


class SamplingService:
    """Samples what `roots` gives (and what they started, where `children`) until `stop`.

    `problems` has, by process number, why a process is not sampled, and whether it is a Python.
    """

    def __init__(
        self,
        folder: Path,
        control: Control,
        rate_hz: float,
        roots: Callable[[], list[int]],
        *,
        children: bool = True,
        renew: bool = False,
        numbers: ChunkNumbers | None = None,
    ) -> None:
        """`renew`: begin anew now and then, so that stacks that nobody keeps don't fill the memory."""
        self.problems: dict[int, tuple[str, bool]] = {}
        self.failure = ""
        self.sampled: set[int] = set()
        self._folder = folder
        self._control = control
        self._rate_hz = rate_hz
        self._roots = roots
        self._children = children
        self._renew = renew
        self._numbers = numbers or ChunkNumbers()
        self._incarnations = 0
        self._sources: dict[int, Source] = {}
        self._end = threading.Event()
        self._loop: SamplingLoop | None = None
        self._thread = threading.Thread(target=self._run, name="topsprof-sampling", daemon=True)

    def start(self) -> None:
        """Begin. Signals are for the other threads."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self) -> None:
        """Hand over what was sampled, and end."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            # Here, not at the top: the program starts meanwhile.
            from topsprof.capture.sampling.candidates import Candidates
            from topsprof.capture.sampling.spool import Spool

            spool = Spool(self._folder, self._rate_hz, self._numbers)
            candidates = Candidates(self._roots, self._folder, children=self._children)
            self._sample(spool, candidates)
        except UserError as error:
            self.failure = str(error)
        except Exception as error:  # of whatever kind: the program and its recording go on, and it is told
            self.failure = f"sampling ended: {type(error).__name__}: {error}"

    def _sample(self, spool: Spool, candidates: Candidates) -> None:
        from topsprof.capture.sampling.sampler import SamplingLoop

        next_batch = last_new = 0.0
        while not self._end.is_set():
            if self._control.recording != layout.RECORDING_ON:
                if self._sources:
                    self._drop_all(spool, candidates)
                self._loop = None
                self._end.wait(_FIRST_TURNS_S)
                continue
            if self._loop is None:
                self._loop = SamplingLoop(self._rate_hz)
            for candidate in candidates.due():
                self._try(candidate, candidates)
                last_new = time.monotonic()
            if not self._sources:
                self._end.wait(min(max(candidates.waits_for(), _FIRST_TURNS_S), _TURN_S))
                continue
            quiet = time.monotonic() - last_new > _QUIET_AFTER_S
            for sampler in self._loop.run(_QUIET_TURN_S if quiet else _TURN_S):
                self._ended(sampler, spool, candidates)
            for source in self._sources.values():
                source.sampler.look_for_asyncio()
            now = time.monotonic()
            if now >= next_batch:
                next_batch = now + _BATCH_S
                if self._batches(spool) > _MOST_STACKS and self._renew:
                    self._drop_all(spool, candidates)
                    self._loop = None
        self._batches(spool)
        spool.sweep()

    def _try(self, candidate: Candidate, candidates: Candidates) -> None:
        from topsprof.capture.sampling.sampler import Sampler
        from topsprof.capture.sampling.spool import Source
        from topsprof.capture.sampling.target import NotPythonError, UnsupportedPythonError

        now = time.monotonic()
        try:
            sampler = Sampler(candidate.pid)
        except NotPythonError as error:
            # What was known of it stands where it has ended, or just ends: its memory goes first.
            _, is_python = self.problems.get(candidate.pid, ("", False))
            if not is_python and process_table.start_time(candidate.pid) is not None:
                self.problems[candidate.pid] = str(error), False
            candidate.postpone(now)
            return
        except UserError as error:
            self.problems[candidate.pid] = str(error), isinstance(error, UnsupportedPythonError)
            candidate.postpone(now)
            if candidate.pause_s >= 0.1:  # a program that just starts may be half there
                candidate.give_up()
            return
        assert self._loop is not None
        self._incarnations += 1
        self._sources[id(sampler)] = Source(
            sampler, self._incarnations, candidate.proc_start, candidate.begin_ns
        )
        self.problems.pop(candidate.pid, None)
        self.sampled.add(candidate.pid)
        self._loop.add(sampler)
        candidates.take(candidate)

    def _ended(self, sampler: Sampler, spool: Spool, candidates: Candidates) -> None:
        source = self._sources.pop(id(sampler))
        batch = sampler.batch()
        spool.put(source, batch, dict)
        if sampler.end == "executed":
            begin_ns = max(batch.time_ns, default=time.monotonic_ns())
            candidates.give_back(sampler.pid, source.proc_start, begin_ns)

    def _batches(self, spool: Spool) -> int:
        """Hand over what there is; the most stacks that a process has had so far."""
        most = 0
        for source in self._sources.values():
            batch = source.sampler.batch()
            most = max(most, batch.first_stack)
            spool.put(source, batch, source.sampler.thread_names)
        return most

    def _drop_all(self, spool: Spool, candidates: Candidates) -> None:
        """Recording was switched off: what comes after it is on again is sampled anew."""
        self._batches(spool)
        self._sources.clear()
        candidates.forget_taken()
