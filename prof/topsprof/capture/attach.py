"""Recording a program that runs already, and never heard of us: its Python is sampled from outside."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError
from topsprof.capture import claim, live, process_table, recording
from topsprof.capture.options import RecordOptions
from topsprof.capture.record import Outcome, Say, sampling_notes, say_ledger

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_POLL_S: Final = 0.1


def attach(pid: int, options: RecordOptions, say: Say) -> Outcome:
    """Sample the process `pid` until it ends, its time is over or somebody interrupts us.

    Raises UserError where it can't be sampled, or there is no place to record into: nothing is left then.
    """
    from topsprof.capture.sampling import target

    target.find(pid)
    words = process_table.command_line(pid).rstrip(b"\0").split(b"\0")
    command = tuple(os.fsdecode(word) for word in words)
    try:
        program = os.pidfd_open(pid)
    except OSError:
        raise UserError(f"process {pid} has ended") from None
    try:
        claimed = claim.claim_folder(options, pid)
        try:
            active = _sampled(claimed, command, pid, program, options, say=say)
            return _concluded(active, claimed, pid, say)
        finally:
            claimed.release()
    finally:
        os.close(program)


def _sampled(
    claimed: claim.Claim,
    command: tuple[str, ...],
    pid: int,
    program: int,
    options: RecordOptions,
    *,
    say: Say,
) -> recording.Recording:
    """The closed recording of a process; `program` is its pidfd."""
    announced: Path | None = None
    try:
        announced = live.announce(options.session_name, claimed.folder, command, pid)
        active = recording.Recording(claimed.folder, options, command, pid, running=True)
    except BaseException:
        if announced is not None:
            live.withdraw(announced)
        claimed.discard()
        raise
    active.on_close = lambda: live.withdraw(announced)
    active.say = say
    taken = _ENDING if active.flight is None else (*_ENDING, signal.SIGUSR2)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, taken)  # not before: the collector would have it, too
    try:
        claimed.settle()
        active.begin()
        poller = select.poll()
        poller.register(program, select.POLLIN)
        while not poller.poll(0):
            delay = active.wake()
            if delay is None:
                break
            came = signal.sigtimedwait(taken, min(delay, _POLL_S))
            if came is not None and came.si_signo == signal.SIGUSR2 and active.flight is not None:
                active.flight.on_signal()
            elif came is not None:
                break
    finally:
        active.close()
        while signal.sigtimedwait(taken, 0) is not None:
            pass  # somebody pressed Ctrl-C again while the session was closed
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return active


def _concluded(active: recording.Recording, claimed: claim.Claim, pid: int, say: Say) -> Outcome:
    folder = active.folder
    if not claimed.in_place:
        say(f"{folder} was removed while it was being recorded: there is no session")
        return Outcome(0, folder, complete=False, readable=False)
    if active.problem:
        say(active.problem)
    if active.flight is not None:
        active.flight.conclude(say)
    try:
        recording.note_end(folder, pid, None, sampling_notes(active, pid, say))
        finding = recording.inspect(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"{folder} is not complete ({error}): 'topsprof recover {folder}' may help")
        return Outcome(0, folder, complete=False, readable=False)
    if not finding.has_events:
        say(f"nothing was sampled: process {pid} ended too soon, or ran no Python")
    say_ledger(folder, finding, "", say)
    say(f"session: {folder}")
    return Outcome(0, folder, complete=finding.complete and not active.problem, readable=True)
