"""Recording a program from its start to its end, and what there is to say about it afterwards."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError
from topsprof.capture import attached, claim, extensions, inject, launches, live, osrt, recording, supervise
from topsprof.capture.held import HeldProgram
from topsprof.capture.options import RecordOptions
from topsprof.capture.program import Program, ProgramError
from topsprof.capture.starts import PythonStarts
from topsprof.capture.unrecorded import NOT_RECORDED, Reason, Unrecorded, of_notes
from topsprof.division import division, is_division

Say = Callable[[str], None]
"""Takes one line for the person who runs us."""

NOT_SAMPLED: Final = "not_sampled"
"""Code of processes that could not be sampled."""

_LEDGER_LINES: Final = 8
_LISTED_PIDS: Final = 3
_ENDING_S: Final = 0.3


@dataclass(frozen=True)
class Outcome:
    """How a recording ended. `exit_code` is the program's; `complete` is what --strict asks about."""

    exit_code: int
    folder: Path
    complete: bool
    readable: bool


def record(program: Program, options: RecordOptions, say: Say) -> Outcome:
    """Run `program`, record it, and return when both have ended.

    Raises ProgramError when it can't be started and UserError when there is no place to record into.
    """
    _prepare_python(program, say)
    preload = osrt.Preload(program, options)
    if options.wait_all and not supervise.adopt_orphans():
        raise UserError("--wait all: this kernel can't hand us the processes that the program leaves behind")
    held = HeldProgram(program)
    claimed: claim.Claim | None = None
    announced: Path | None = None
    try:
        claimed = claim.claim_folder(options, held.pid)
        announced = live.announce(options.session_name, claimed.folder, program.argv, held.pid)
        active = recording.Recording(claimed.folder, options, program.argv, held.pid)
    except BaseException:
        held.cancel()
        _take_back(claimed, announced)
        raise
    active.on_close = lambda: live.withdraw(announced)
    active.say = say
    try:
        status = _run(held, active, preload, say, claimed.settle)
    except ProgramError:
        active.close()
        _take_back(claimed, announced)
        raise
    finally:
        active.close()
    try:
        if not claimed.in_place:
            say(f"{claimed.folder} was removed while it was being recorded: there is no session")
            return Outcome(supervise.exit_code(status), claimed.folder, complete=False, readable=False)
        return conclude(program, active, supervise.exit_code(status), held.pid, say)
    finally:
        claimed.release()


def _take_back(claimed: claim.Claim | None, announced: Path | None) -> None:
    """Leave nothing behind of a recording whose program never ran."""
    if claimed is not None:
        claimed.discard()
    if announced is not None:
        live.withdraw(announced)


def _run(
    held: HeldProgram,
    active: recording.Recording,
    preload: osrt.Preload,
    say: Say,
    started: Callable[[], None],
) -> int:
    """The wait status of the program; `started` is called once it runs."""
    options = active.options
    own = {signal.SIGUSR2: active.flight.on_signal} if active.flight is not None else {}
    with supervise.Supervisor(held.pid, own) as supervisor, PythonStarts(inject.INJECTION) as starts:
        helpers = {active.collector.process.pid}
        watch = Unrecorded(
            held.pid,
            active.folder,
            others=lambda: supervisor.left_behind(helpers) if options.wait_all else [],
            started=starts.seen,
        )
        active.unrecorded = watch.found
        active.obstacle = preload.obstacle

        def wake() -> float | None:
            was_open = not active.closed
            again = watch.wake() if was_open and options.traces else None
            delay = active.wake()
            if was_open and active.closed:
                _ended_early(supervisor, active, options, say)
            return delay if delay is None or again is None else min(delay, again)

        # First the switch: a short program may be done before this process runs again.
        active.begin()
        held.release(
            inject.environment(
                active.folder,
                calls=options.calls,
                memory=options.memory,
                osrt=preload.environment(os.environ),
            )
        )
        started()

        def roots() -> list[int]:
            return [held.pid, *(supervisor.left_behind(helpers) if options.wait_all else [])]

        active.sample(roots)
        active.watch_system(roots)
        status = supervisor.wait(wake)
        if options.wait_all:
            supervisor.wait_for_orphans(wake, lambda: helpers)
        if not active.closed and options.traces:
            watch.look()  # also at the program, which is a zombie until the session is closed
        left = set() if active.closed else _left_behind(active)
        active.close()  # while signals are held back: a second Ctrl-C does not cost the session
        if left:
            say(f"recorded processes still run ({_listed(left)}): --wait all waits for them")
    return status


def _left_behind(active: recording.Recording) -> set[int]:
    """Recorded processes that outlive the program; those that are just ending have a moment to do so."""
    deadline = time.monotonic() + _ENDING_S
    while (left := attached.left_behind(active.folder)) and time.monotonic() < deadline:
        time.sleep(_ENDING_S / 20)
    return left


def _listed(pids: set[int]) -> str:
    first = ", ".join(map(str, sorted(pids)[:_LISTED_PIDS]))
    return first if len(pids) <= _LISTED_PIDS else f"{first} and {len(pids) - _LISTED_PIDS} more"


def _ended_early(
    supervisor: supervise.Supervisor, active: recording.Recording, options: RecordOptions, say: Say
) -> None:
    ended = "the recording ended early" if active.problem else f"session {active.folder} is complete"
    if options.kill:
        say(f"{ended}; the program gets {signal.Signals(options.kill).name}")
        supervisor.kill(options.kill)
    else:
        say(f"{ended}; the program goes on")


def _prepare_python(program: Program, say: Say) -> None:
    """See that the program's Python, and those that an earlier run met, find a recorder of their ABI."""
    pythons = extensions.wanted()
    if program.python is not None and extensions.is_needed(program.python):
        pythons.append(program.python)
    for python in dict.fromkeys(pythons):
        outcome = extensions.ensure(python)
        if outcome.built:
            say(f"built the recorder for {python} (once)")
        elif outcome.file is None and outcome.twin_serves and not _is_ours(python):
            say(f"{python} records by the slower Python recorder: {outcome.problem}")


def _is_ours(python: str) -> bool:
    """Whether it is the interpreter we run on: what it lacks is known since the install, and to `doctor`."""
    return Path(python).resolve() == Path(sys.executable).resolve()


def conclude(program: Program, active: recording.Recording, code: int, pid: int, say: Say) -> Outcome:
    """Say what a closed recording holds, and what it lacks; `code` and `pid` were the program's."""
    for line in active.notes:
        say(line)
    if active.flight is not None:
        active.flight.conclude(say)
    if active.problem:
        say(active.problem)
    folder = active.folder
    if not active.collector.ended:
        say(f"what {folder} holds is not known yet: 'topsprof info {folder}' says it later")
        return Outcome(code, folder, complete=False, readable=False)
    try:
        lost = [(f"process:{process}", reason) for process, reason in active.unrecorded.items()]
        if active.obstacle is not None:
            lost.append((f"process:{pid}", active.obstacle))
        refused = launches.conclude(folder) if active.options.save_launch else []
        unsampled = sampling_notes(active, pid, say)
        recording.note_end(folder, pid, code, [*lost, *of_notes(active.notes), *unsampled], refused)
        finding = recording.inspect(folder)
    except FileNotFoundError:
        say(f"{folder} holds no session: its files were removed while it was being recorded")
        return Outcome(code, folder, complete=False, readable=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"{folder} is not complete ({error}): 'topsprof recover {folder}' may help")
        return Outcome(code, folder, complete=False, readable=False)
    if not finding.has_events and finding.status != "recording":  # else `recover` finds what there is
        say(f"nothing recorded: {_likely_reason(program, active, finding)}")
    elif _is_disabled():
        say("nothing but samples recorded: TOPSTX_DISABLE is set")
    told = NOT_RECORDED if active.notes else ""
    say_ledger(folder, finding, told, say)
    if active.options.save_launch:
        say(launches.told(folder))
    if is_division(finding.time) and active.options.traces:
        say(f"time: {division(finding.time, _length)}")
    say(f"session: {folder}")
    return Outcome(code, folder, complete=finding.complete and not active.problem, readable=True)


def say_ledger(folder: Path, finding: recording.Finding, told: str, say: Say) -> None:
    """Say what the ledger of a closed session has that is not clean, but for the code `told`."""
    lines = [entry.line for entry in finding.ledger.entries if not entry.clean and entry.code != told]
    for line in lines[:_LEDGER_LINES]:
        say(line)
    if len(lines) > _LEDGER_LINES:
        say(f"{len(lines) - _LEDGER_LINES} more: topsprof info {folder}")


def sampling_notes(active: recording.Recording, pid: int, say: Say) -> list[tuple[str, Reason]]:
    """Ledger streams and reasons of what was not sampled. That a program is no Python counts where samples
    were asked for.
    """
    if active.system is not None and active.system.failure:
        say(active.system.failure)
    service = active.sampling
    if service is None:
        return []
    asked = active.options.sample_asked
    if service.failure:
        if not asked:
            say(f"not sampled: {service.failure}")
            return []
        return [("sampling", Reason(NOT_SAMPLED, service.failure))]
    found = [
        (f"process:{process}", Reason(NOT_SAMPLED, text))
        for process, (text, is_python) in service.problems.items()
        if is_python
    ]
    if asked and not found and not service.sampled:
        text, _ = service.problems.get(pid, ("the program ended before it could be looked at", False))
        found.append((f"process:{pid}", Reason(NOT_SAMPLED, text)))
    return found


def _length(ns: int) -> str:
    return f"{ns / 1e9:.3f} s" if ns >= 1_000_000 else "0 s" if not ns else f"{ns / 1e3:.0f} us"


def _is_disabled() -> bool:
    return os.environ.get("TOPSTX_DISABLE", "0") not in ("", "0")


def _likely_reason(program: Program, active: recording.Recording, finding: recording.Finding) -> str:
    options = active.options
    if _is_disabled():
        return "TOPSTX_DISABLE is set"
    if (flag := program.python_flag) is not None:
        return (
            f"python {flag}: the environment is ignored, so the recorder never started; run it without {flag}"
        )
    if not options.records:
        return "-t none"
    if active.notes or (active.problem and finding.status != "complete"):
        return "see above"
    if active.unrecorded:
        return "see below"
    if not active.ever_on:
        return _never_on(options)
    if "process" not in finding.tables:
        return (
            "no process of the program has a recorder; it has to keep the environment, "
            "and be a Python 3.11+ that imports site, or use topstx.h, or NVTX"
        )
    if options.domain_include or options.domain_exclude:
        return "no call in a domain that --topstx-domain-include/-exclude lets through"
    return "the program made no topstx call (see 'import topstx' in the README)"


def _never_on(options: RecordOptions) -> str:
    capture = options.capture
    if capture.mode == "topstx":
        domain = f" of domain '{capture.domain}'" if capture.domain else ""
        often = f" more than {capture.skip} times (--iterations)" if capture.skip else ""
        return f"the range '{capture.name}'{domain} never began{often}"
    if capture.mode == "topsProfilerApi":
        return "the program never called topstx.profiler_start()"
    if not options.from_start:
        return "recording was never switched on ('topsprof start' does it, after --profile-from-start off)"
    return f"the program ended before its --delay of {options.delay_s:g} s"
