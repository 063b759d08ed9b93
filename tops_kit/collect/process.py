"""What the collector process does: it collects into a folder until it is told to stop. It prints `ready` once
programs may record, or one line that says why not.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from topstx.recorder import cuts as shared_cuts
from topstx.recorder import layout

from tops_kit.collect import control as control_file
from tops_kit.collect import finishing
from tops_kit.collect.backend import load
from tops_kit.collect.clock import best_clock
from tops_kit.collect.collector import Collector, begin
from tops_kit.collect.compacting import LiveCompaction, compact_afterwards
from tops_kit.collect.control import Control
from tops_kit.collect.system import Watch, stat
from tops_kit.errors import SessionError, UserError
from tops_kit.session import SessionWriter

EXIT_INCOMPLETE = 3
_GRACE_S = 5.0

_KILLED = "repaired:topsprof_killed"
_KILLED_NOTE = (
    "topsprof was killed: recording went on until the program ended, but what topsprof itself does from then "
    "on was not done (samples, --duration, --kill, --export, the exit code, naming Pythons that can't be "
    "recorded)"
)


class _Ends:
    """Says when to stop: when the holder of the leash says so or closed it, and then perhaps at the program's
    end and that of the last recorded process. SIGTERM is the system's shutdown: programs that got it, too,
    have `_GRACE_S` to end, and what they record meanwhile is taken; a second one ends that.

    `program` is that of a holder who tells us when to stop: a leash that ends unsaid is its death.
    """

    def __init__(self, leash: int | None, wait_all: bool, program: Watch | None) -> None:
        self.leash = leash
        self.wait_all = wait_all
        self.program = program
        self.told = False
        self.asked: float | None = None
        self.leash_gone = False
        self.collector: Collector | None = None

    def on_signal(self, *_: object) -> None:
        self.told = self.asked is not None
        self.asked = time.monotonic()
        if self.collector is not None:
            self.collector.wake()

    def __call__(self) -> bool:
        if self.told:
            return True
        if self.leash is not None and not self.leash_gone:
            poller = select.poll()
            poller.register(self.leash, select.POLLIN)
            if poller.poll(0):
                if os.read(self.leash, 64):
                    self.told = True
                    return True
                self._lose_leash()
        if self.asked is not None and (self.leash is None or time.monotonic() - self.asked > _GRACE_S):
            return True
        if not self.leash_gone:
            return False
        if self.program is not None and self.program.alive() and not self._shutdown_wanted():
            return False
        return not self.wait_all or self.collector is None or not self.collector.anyone_left()

    def _lose_leash(self) -> None:
        self.leash_gone = True
        if self.collector is not None:
            self.collector.drop_leash()
            if self.program is not None:
                self.collector.samples.killed_ns = time.monotonic_ns()
                self.collector.note("collector", _KILLED, 1, _KILLED_NOTE)

    def _shutdown_wanted(self) -> bool:
        return self.collector is not None and bool(self.collector.control.shutdown_request)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tops_kit.collect", description="Collect what programs record into a session folder."
    )
    parser.add_argument("folder", type=Path, help="session folder; made when it does not exist")
    parser.add_argument("--leash", type=int, help="read end of a pipe: when its other end is closed, finish")
    parser.add_argument(
        "--wait",
        choices=("primary", "all"),
        default="primary",
        help="what to wait for when the leash is gone",
    )
    parser.add_argument(
        "--program", type=int, help="process number: when the leash is gone, record on until this one ends"
    )
    parser.add_argument(
        "--policy", choices=tuple(control_file.POLICIES), default="block", help="what a full ring does"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a session at this place")
    words = list(sys.argv[1:] if argv is None else argv)
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    # What is recorded is kept with the session, as JSON: words that are no UTF-8 get escapes.
    options.command = [os.fsencode(word).decode("utf-8", "backslashreplace") for word in words[cut + 1 :]]
    return options


def _open(options: argparse.Namespace) -> tuple[Collector, Control]:
    folder: Path = options.folder.absolute()
    loops, backend = load()
    writer = SessionWriter.create(
        folder,
        overwrite=options.overwrite,
        kind="recording",
        command=options.command,
        attributes={"collector": backend},
    )
    try:
        exists = (folder / control_file.FILE).exists()
        control = (
            control_file.open_control(folder)
            if exists
            else control_file.create(folder, policy=options.policy)
        )
        mode = "model" if os.environ.get("TOPS_CLOCK") == "model" else "virtual"
        control.clock = layout.CLOCK_MONOTONIC if mode == "model" else best_clock(loops)
        shared_cuts.create(str(folder), mode)
        collector = begin(folder, control, writer, loops)
    except OSError as error:
        writer.abandon()
        raise SessionError(f"cannot record in {folder}: {error.strerror or error}") from error
    except BaseException:
        writer.abandon()
        raise
    control.collector_pid = os.getpid()
    collector.beat()
    return collector, control


def _say(folder: Path, error: Exception) -> None:
    """One line on stderr when recording had to stop. Of a folder that was removed, who waits for us tells."""
    if (folder / control_file.FILE).exists():
        print(_line(folder, error), file=sys.stderr, flush=True)


def _line(folder: Path, error: Exception) -> str:
    if isinstance(error, UserError):
        text = str(error)
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        text = f"cannot write {folder}: the disk is full; free some space"
    elif isinstance(error, MemoryError):
        text = f"cannot write {folder}: there is not enough memory ({error or 'none is left'})"
    else:
        text = f"cannot write {folder}: {type(error).__name__}: {error}"
    return f"topsprof: {text}. Recording stopped; `topsprof recover {folder}` completes the session"


def main(argv: Sequence[str] | None = None) -> int:
    """Collect until told to stop; 0, or EXIT_INCOMPLETE when the session could not be completed."""
    options = _arguments(argv)
    sys.meta_path.insert(0, _WithoutPandas)
    program = None if options.program is None else Watch(options.program, _start_of(options.program))
    ends = _Ends(options.leash, options.wait == "all", program)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, ends.on_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # whoever started us may have held it back
    _raise_file_limit()
    # The thread that empties the rings must not wait 5 ms (the default) for the one that writes segments.
    sys.setswitchinterval(0.0005)
    try:
        collector, control = _open(options)
    except UserError as error:
        print(error, flush=True)
        return 2
    ends.collector = collector
    if options.leash is not None:
        collector.hold_leash(options.leash)
    with contextlib.suppress(BrokenPipeError):
        print("ready", flush=True)
    compaction = LiveCompaction(collector)
    # What is deleted in a while is not worth sorting, and a merged segment would keep old rows with new ones.
    collector.every_second = compaction.look if collector.flight is None else collector.flight.every_second
    collector.run(ends)
    if collector.failure is not None:
        # The programs run on without being recorded; what was published stays in rings and journal.
        control.recording = layout.RECORDING_OFF
        control.policy = layout.POLICY_DROP
        collector.note_failure()
        _say(collector.folder, collector.failure)
        collector.idle(ends)
    compaction.stop()
    failed_before = collector.failure
    finishing.finish(collector, "complete")
    if collector.failure is None:
        compact_afterwards(collector.folder, sum(row.written for row in collector.processes.rows.values()))
        return 0
    if failed_before is None:
        _say(collector.folder, collector.failure)
    return EXIT_INCOMPLETE


def _start_of(pid: int) -> int:
    """When a process began, so that another one of its number is not taken for it; 0: unknown."""
    found = stat(pid)
    return 0 if found is None else found.start


class _WithoutPandas:
    """Finds no pandas: where there is one, pyarrow loads it with the first array that it makes, and that
    takes longer than all the rest of our start, and 40 MB.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """The import system asks."""
        if name == "pandas":
            raise ModuleNotFoundError("the collector does without pandas", name=name)


def _raise_file_limit() -> None:
    """Each watched process takes a descriptor."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ImportError, ValueError, OSError):
        return  # then /proc serves for the processes past the limit
