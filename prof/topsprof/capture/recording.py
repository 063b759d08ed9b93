"""One recording: its folder, its switches, its collector, and when it begins and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from topstx.recorder import layout

from tops_kit.collect import control as control_file
from tops_kit.errors import UserError
from tops_kit.session.files import read_json, write_json
from tops_kit.session.ledger import Ledger
from topsprof.capture import flight, launches
from topsprof.capture.chunks import ChunkNumbers
from topsprof.capture.kinds import rows_off
from topsprof.capture.options import RecordOptions
from topsprof.capture.sampling.service import SamplingService
from topsprof.capture.system import SystemService
from topsprof.capture.unrecorded import Reason

NOTES: Final = "notes"
"""File of a session being recorded in which recorded processes leave lines for `topsprof run`."""

_POLL_S: Final = 0.2
_MANIFEST: Final = "session.json"
_OWN_TABLES: Final = frozenset({"process", "thread", "device", "stream", "overhead", "stack"})

_CAPTURE_END: Final = {
    "none": layout.CAPTURE_END_NONE,
    "stop": layout.CAPTURE_END_STOP,
    "stop-shutdown": layout.CAPTURE_END_STOP_SHUTDOWN,
    "repeat": layout.CAPTURE_END_REPEAT,
}


class Recording:
    """A session being recorded. `close` ends it in order, whatever the program does meanwhile."""

    def __init__(
        self,
        folder: Path,
        options: RecordOptions,
        command: Sequence[str],
        program: int | None = None,
        *,
        running: bool = False,
    ) -> None:
        """`program`: process number of what will be run. Should we be killed, its end is the session's.

        `running`: it runs already, so it is sampled from now on, while the collector starts.
        """
        from tops_kit.collect import start

        self.folder = folder
        self.options = options
        self.ever_on = False
        self.notes: list[str] = []
        self.unrecorded: dict[int, Reason] = {}  # by pid
        self.obstacle: Reason | None = None  # why the program's calls of the system are not recorded
        self.problem = ""
        self.on_close: Callable[[], None] = lambda: None
        self.say: Callable[[str], None] = lambda line: None
        self.sampling: SamplingService | None = None
        self.system: SystemService | None = None
        self.flight: flight.Flight | None = None
        self._chunks = ChunkNumbers()
        self._closed = False
        self._begin = time.monotonic()
        self._on_since: float | None = None
        self._armed = False
        capture = options.capture
        self.control = control_file.create(
            folder,
            policy=options.policy,
            recording=layout.RECORDING_ON if running else layout.RECORDING_OFF,
            capture_name=capture.name,
            capture_domain=capture.domain,
            capture_end=layout.CAPTURE_END_NONE if capture.mode == "none" else _CAPTURE_END[capture.end],
            capture_repeats=capture.repeats,
            capture_skip=capture.skip,
            domain_include=options.domain_include,
            domain_exclude=options.domain_exclude,
            rows_off=rows_off(options.traces),
            backtrace=options.backtrace,
            metrics=options.metrics,
            kernel_include=options.kernel_include,
            kernel_exclude=options.kernel_exclude,
        )
        if options.flight is not None:
            self.flight = flight.Flight(folder, options.flight, program or 0)
        if options.save_launch:
            launches.ask(folder, options)
        if running and program is not None:
            self._on_since = time.monotonic()  # samples come from now on
            self.sample(lambda: [program], children=options.children)
        try:
            self.collector = start(
                folder,
                command=list(command),
                wait="all" if options.wait_all else "primary",
                program=program,
            )
        except BaseException:
            if self.sampling is not None:
                self.sampling.stop()
            raise

    @property
    def closed(self) -> bool:
        """Whether the session is complete: nothing is recorded any more."""
        return self._closed

    def begin(self) -> None:
        """The program starts now: the delay counts from here. Switches recording on where it shall be."""
        self._begin = time.monotonic()
        self.wake()

    def sample(self, roots: Callable[[], list[int]], *, children: bool = True) -> None:
        """Begin to sample the Pythons among these processes and what they start, where that is asked for."""
        if not self.options.sample_hz or self._closed:
            return
        self.sampling = SamplingService(
            self.folder,
            self.control,
            self.options.sample_hz,
            roots,
            children=children,
            renew=self.flight is not None,
            numbers=self._chunks,
        )
        self.sampling.start()

    def watch_system(self, roots: Callable[[], list[int]]) -> None:
        """Begin to read counters of these processes and what they start, where that is asked for."""
        if "system" in self.options.traces and not self._closed:
            self.system = SystemService(self.folder, self.control, roots, self._chunks)
            self.system.start()

    def wake(self) -> float | None:
        """Do what is due; the seconds until something may be due again, None when nothing will."""
        if self._closed:
            return None
        if self.flight is not None:
            self.flight.tell(self.say)
        now = time.monotonic()
        until_start = self._begin + self.options.delay_s - now
        if not self._armed and until_start <= 0:
            self._armed = True
            self._switch_on()
        if self.control.recording == layout.RECORDING_ON:
            self.ever_on = True
            if self._on_since is None:
                self._on_since = now
        if self.is_over(now):
            self.close()
            return None
        waits = [_POLL_S]
        if not self._armed:
            waits.append(until_start)
        if self._on_since is not None and self.options.duration_s is not None:
            waits.append(self._on_since + self.options.duration_s - now)
        return min(waits)

    def is_over(self, now: float) -> bool:
        """Whether the session is to end although the program runs."""
        if self.control.shutdown_request:
            return True
        if self.collector.process.poll() is not None:
            self.problem = "the collector ended before the program"
            return True
        duration = self.options.duration_s
        return duration is not None and self._on_since is not None and now >= self._on_since + duration

    def _switch_on(self) -> None:
        if self.options.capture.mode == "topstx":
            self.control.recording = layout.RECORDING_ARMED
        elif self.options.from_start and self.options.capture.mode == "none" and self.options.records:
            self.control.recording = layout.RECORDING_ON
            self.ever_on = True

    def close(self) -> None:
        """Switch recording off and let the collector finish; what went wrong is kept in `problem`."""
        if self._closed:
            return
        self._closed = True
        self.ever_on = self.ever_on or self.control.capture_count > 0
        if self.sampling is not None:
            self.sampling.stop()
        if self.system is not None:
            self.system.stop()
        self.control.recording = layout.RECORDING_OFF
        self.notes = _take_notes(self.folder)
        try:
            self.collector.stop()
        except UserError as error:
            self.problem = str(error)
        self.on_close()


@dataclass(frozen=True)
class Finding:
    """What a closed session holds, as far as its file names and session.json tell (no data is read)."""

    status: str
    tables: frozenset[str]
    ledger: Ledger
    time: Any = None  # how the time divides, where a device was used: see docs/session-format.md

    @property
    def has_events(self) -> bool:
        """Whether it holds more than the list of processes and threads."""
        return bool(self.tables - _OWN_TABLES)

    @property
    def complete(self) -> bool:
        """Whether it holds events and nothing was lost or repaired."""
        return self.status == "complete" and self.has_events and self.ledger.clean


def inspect(folder: Path) -> Finding:
    """Look at a closed session. Raises OSError, ValueError, KeyError or TypeError when it isn't one."""
    manifest = _manifest(folder)
    segments = folder / "segments"
    names = [path.name for path in segments.iterdir()] if segments.is_dir() else []
    tables = frozenset(name.rpartition("-")[0] for name in names if not name.startswith("."))
    time_ = manifest.get("attributes", {}).get("time")
    return Finding(manifest["status"], tables, Ledger.from_json(manifest["ledger"]), time_)


def _take_notes(folder: Path) -> list[str]:
    path = folder / NOTES
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        path.unlink()
    except OSError:
        return []  # no notes: the usual case
    return list(dict.fromkeys(lines))


def note_end(
    folder: Path,
    pid: int,
    code: int | None,
    unrecorded: Iterable[tuple[str, Reason]],
    refused: Iterable[tuple[str, str]] = (),
) -> None:
    """Keep the program's exit code with the session, as attributes `program_pid` and `exit_code`, and in the
    ledger the processes that were not recorded (ledger stream and reason of each), and the kernels whose
    launches were not saved (name and reason of each). `code` None: nobody knows it.
    """
    manifest = _manifest(folder)
    ledger = Ledger.from_json(manifest["ledger"])
    for stream, reason in unrecorded:
        ledger.count(stream, f"unsupported:{reason.code}", 1, reason.note)
    for kernel, why in refused:
        ledger.count(f"launch:{kernel}", "dropped:not_saved", 1, why)
    manifest["ledger"] = ledger.to_json()
    manifest["attributes"] |= {"program_pid": pid}
    if code is not None:
        manifest["attributes"]["exit_code"] = code
    write_json(folder / _MANIFEST, manifest)


def _manifest(folder: Path) -> dict[str, Any]:
    """session.json as it is: tops_kit.session.manifest would load pyarrow to check it, 0.1 s at each run."""
    manifest: dict[str, Any] = read_json(folder / _MANIFEST)
    return manifest
