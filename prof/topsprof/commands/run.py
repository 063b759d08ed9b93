"""`topsprof run`: run a program and record it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Final, TextIO

from topstx.osrt_injection import THRESHOLD_NS
from topstx.recorder.calls import LIMIT

from tops_kit.errors import UserError
from topsprof import naming
from topsprof.capture.kinds import BACKTRACE_FRAMES, DEFAULT_TRACES, METRICS, kernel_regex, metric_bits
from topsprof.capture.options import (
    KNOWN_TRACES,
    RecordOptions,
    call_options,
    capture_range,
    memory_options,
    sample_rate,
    trace_names,
)
from topsprof.capture.platform import require_linux
from topsprof.commands.flight import add_flight, flight_options
from topsprof.commands.values import call_limit, nanoseconds, positive, seconds, signal_number, size
from topsprof.terminal import is_terminal, note, part

EXIT_INCOMPLETE: Final = 99
"""With --strict: the program ended with 0, but the session is empty or not everything came through."""

_DESCRIPTION: Final = (
    "Run a program and record it. Its input, output, signals and exit code stay its own; the session is a "
    "folder NAME.topsprof. Environment variables alone do it, for the program and for what it starts."
)
_EPILOG: Final = (
    "exit code: the program's (128 + n when signal n ended it); 127 when it is not found, 126 when it can't "
    f"be executed, 2 when there is no place to record into; with --strict {EXIT_INCOMPLETE} when the program "
    "ended with 0 but the session is incomplete."
    "\n\n"
    "examples:\n"
    "  topsprof run --stats -- python train.py --epochs 3\n"
    "  topsprof run -o mine -c topstx -p step -m my.module"
)
_STATS_METRICS: Final = "roofline,stalls,per-line"
"""What --stats asks of --metrics where nothing else is asked: what its tables of kernels and lines show."""

_LATER: Final = {
    "--export-visual-profiler": "this export",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `run`, with the spellings of other profilers beside ours."""
    parser.usage = "topsprof run [options] [--] PROGRAM [ARGS ...]"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    _add_output(parser)
    _add_recording(parser)
    add_flight(parser)
    _add_end(parser)
    for option in _LATER:
        parser.add_argument(option, dest="later", action=_Later, help=argparse.SUPPRESS)
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a Python module"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS", help="what to run")


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="NAME",
        help="name of the session: %%p pid, %%h host, %%q{ENV}, %%n free number, %%%% (default: report%%n)",
    )
    _add_switch(group, "-f", "--force-overwrite", help_text="overwrite an existing session of that name")
    _add_switch(group, "--stats", "--print-gcu-summary", help_text="print summary tables afterwards")
    group.add_argument("--print-gcu-trace", action="store_true", help="print the report gcu_trace afterwards")
    group.add_argument(
        "--export", metavar="TYPE", action="append", default=[], help="export the session as TYPE, too"
    )
    group.add_argument(
        "--export-csv", dest="export", action="append_const", const="csv", help="same as --export csv"
    )
    group.add_argument(
        "--log-file", metavar="FILE", help="write our messages and tables there (patterns of -o)"
    )
    group.add_argument("--print-app-log", action="store_true", help=argparse.SUPPRESS)  # it is always shown
    group.add_argument(
        "--strict", action="store_true", help=f"exit with {EXIT_INCOMPLETE} when records are missing"
    )


def _add_recording(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is recorded")
    group.add_argument(
        "-t",
        "--trace",
        "--enable-activities",
        metavar="NAMES",
        help=f"{', '.join(KNOWN_TRACES)}, or none (default: {','.join(DEFAULT_TRACES)}, and samples "
        "of Python programs); python[:GLOB] is "
        "calls of functions in the program's own code, or in modules or files like GLOB; osrt is calls of "
        "the operating system: files, sockets, locks, waits; system is counters of its processes; pymem is "
        "memory of Python programs by call site",
    )
    _add_switch(group, "--python-c-calls", help_text="with -t python: what those functions call in C, too")
    group.add_argument(
        "--python-call-limit",
        metavar="N",
        type=call_limit,
        default=LIMIT,
        help="of a function called more than N times in a second, count further calls only (default: "
        f"{LIMIT}); or off",
    )
    group.add_argument(
        "--osrt-threshold",
        metavar="NS",
        type=nanoseconds,
        default=THRESHOLD_NS,
        help=f"with -t osrt: calls shorter than this are counted, not recorded (default: {THRESHOLD_NS}); 0: "
        "every call is recorded",
    )
    group.add_argument(
        "--pymem-rate",
        metavar="SIZE",
        type=size,
        help="with -t pymem: one sample in so many allocated bytes (default: 512K); 1: every allocation",
    )
    group.add_argument("--pymem-seed", metavar="N", type=positive, default=0, help=argparse.SUPPRESS)
    group.add_argument(
        "--sample",
        metavar="HZ",
        help="sample the stacks of Python programs so often a second, or off (default: 1000; off with -t)",
    )
    group.add_argument("--kernel-include-regex", metavar="REGEX", help="only kernels whose name has this")
    group.add_argument("--kernel-exclude-regex", metavar="REGEX", help="not kernels whose name has this")
    _add_switch(group, "--backtrace", help_text="record the call stack of each runtime call")
    group.add_argument(
        "--metrics",
        metavar="SETS",
        help=f"record counters of each launch: {', '.join(METRICS)}, or all (default: none; with --stats "
        f"{_STATS_METRICS})",
    )
    group.add_argument(
        "--save-launch",
        metavar="REGEX",
        help="save what launches of such kernels are given; 'topscc run SESSION:LAUNCH' runs them again",
    )
    group.add_argument(
        "--save-launch-count",
        metavar="N",
        type=positive,
        default=1,
        help="so many launches of each kernel in each process (default: 1)",
    )
    group.add_argument(
        "--save-launch-limit",
        metavar="SIZE",
        type=size,
        default=1 << 30,
        help="bytes of all saved launches, as 500M or 2G (default: 1G)",
    )
    group.add_argument(
        "--topstx-domain-include", "--nvtx-domain-include", metavar="NAMES", help="only these domains"
    )
    group.add_argument(
        "--topstx-domain-exclude", "--nvtx-domain-exclude", metavar="NAMES", help="not these domains"
    )
    group.add_argument(
        "--policy",
        choices=("block", "drop"),
        default="block",
        help="what a full ring does: block (default), or drop and count",
    )
    group = parser.add_argument_group("when it is recorded")
    group.add_argument("--delay", "-y", metavar="S", type=seconds, default=0.0, help="start after S seconds")
    group.add_argument("--duration", "-d", metavar="S", type=seconds, help="end the session S seconds later")
    group.add_argument(
        "-c", "--capture-range", metavar="MODE", help="none (default), topsProfilerApi or topstx"
    )
    group.add_argument(
        "-p", "--topstx-capture", "--nvtx-capture", metavar="RANGE[@DOMAIN]", help="the range of -c topstx"
    )
    group.add_argument(
        "--iterations",
        metavar="FIRST:LAST",
        help="of the ranges of -p only these, as Python's slices: 10:20 are ten, counted from 0",
    )
    group.add_argument(
        "--capture-range-end", metavar="ACTION", help="none, stop (default), stop-shutdown or repeat[:N]"
    )
    group.add_argument(
        "--profile-from-start", choices=("on", "off"), default="on", help="off: wait for 'topsprof start'"
    )
    group.add_argument(
        "--session", "--session-new", metavar="NAME", help="name for 'topsprof start' and 'stop'"
    )


def _add_end(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the program's end")
    group.add_argument(
        "--kill",
        metavar="SIGNAL",
        type=signal_number,
        default=0,
        help="for the program when the session ends before it: none (default), sigterm, sigkill or a number",
    )
    group.add_argument(
        "--wait",
        choices=("primary", "all"),
        default="primary",
        help="wait for the program (default), or for all processes that it leaves behind",
    )


def _add_switch(group: argparse._ArgumentGroup, *names: str, help_text: str) -> None:
    """A switch that is also understood as `--name=true` and `--name=false`, the spelling of nsys."""
    name = names[-1] if names[0].startswith("-") and len(names[0]) == 2 else names[0]
    target = name.lstrip("-").replace("-", "_")
    group.add_argument(*names, dest=target, action="store_true", help=help_text)
    for value, action in (("true", "store_true"), ("false", "store_false")):
        group.add_argument(f"{name}={value}", dest=target, action=action, help=argparse.SUPPRESS)


class _Later(argparse.Action):
    """An option that later versions bring."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option: str | None = None
    ) -> None:
        parser.error(f"{option}: {_LATER.get(option or '', 'this')} is not part of this version yet")


def run(args: argparse.Namespace) -> int:
    """Run and record; the program's exit code."""
    require_linux("run")
    options = record_options(args)
    words, module = program_words(args)
    _check_exports(args)
    from topsprof.capture import program, record

    target = program.resolve(words, module=module)
    failed = 0
    with _Log(args.log_file) as log:
        outcome = record.record(target, options, log.say)
        if outcome.readable:
            commands = _follow_ups(args, outcome.folder)
            if outcome.complete and not commands:
                log.hint(f"to sum it up: topsprof stats {shlex.quote(str(outcome.folder))}")
            for command in commands:
                failed = log.follow(command) or failed
    if outcome.exit_code != 0:
        return outcome.exit_code
    if failed:
        return failed
    return EXIT_INCOMPLETE if args.strict and not outcome.complete else 0


def record_options(args: argparse.Namespace) -> RecordOptions:
    """What the options of a command line ask of the recording. Raises UserError."""
    include, exclude = _names(args.topstx_domain_include), _names(args.topstx_domain_exclude)
    if include and exclude:
        raise UserError("--topstx-domain-include and -exclude: give one of them")
    return RecordOptions(
        output=args.output,
        force=args.force_overwrite,
        traces=DEFAULT_TRACES if args.trace is None else trace_names(args.trace),
        delay_s=args.delay,
        duration_s=args.duration,
        from_start=args.profile_from_start == "on",
        capture=capture_range(
            args.capture_range, args.topstx_capture, args.capture_range_end, args.iterations
        ),
        domain_include=include,
        domain_exclude=exclude,
        policy=args.policy,
        kill=args.kill,
        wait_all=args.wait == "all",
        session_name=args.session,
        kernel_include=kernel_regex("--kernel-include-regex", args.kernel_include_regex),
        kernel_exclude=kernel_regex("--kernel-exclude-regex", args.kernel_exclude_regex),
        save_launch=kernel_regex("--save-launch", args.save_launch),
        save_launch_count=args.save_launch_count,
        save_launch_limit=args.save_launch_limit,
        backtrace=BACKTRACE_FRAMES if args.backtrace else 0,
        osrt_threshold_ns=args.osrt_threshold,
        calls=call_options(args.trace or "", c_calls=args.python_c_calls, limit=args.python_call_limit),
        memory=memory_options(args.trace or "", args.pymem_rate, args.pymem_seed),
        sample_hz=sample_rate(args.sample, args.trace),
        sample_asked=args.sample is not None or args.trace is not None,
        flight=flight_options(args),
        metrics=metric_bits(_STATS_METRICS if args.stats and args.metrics is None else args.metrics),
    )


def program_words(args: argparse.Namespace) -> tuple[list[str], bool]:
    """What to run, and whether it is a Python module."""
    module = args.module is not None
    if module:
        words = [*args.module, *args.program]  # argparse ends an option's values at a `--` of the module's
    else:
        words = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not words:
        raise UserError("name a program to run: topsprof run [options] -- PROGRAM [ARGS ...]")
    return words, module


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in (text or "").split(","))))


class _Log:
    """Where our messages and tables go: stderr and stdout, or the file of --log-file."""

    def __init__(self, pattern: str | None) -> None:
        self._file: TextIO | None = None
        if pattern is not None:
            path = Path(naming.expand(pattern, pid=os.getpid()))
            try:
                self._file = path.open("w", encoding="utf-8", errors="surrogateescape")
            except OSError as error:
                raise UserError(f"--log-file '{path}' can't be written: {error.strerror}") from None

    def say(self, line: str) -> None:
        """One message. Whether anybody can read it or not, the recording and its exit code go on."""
        with contextlib.suppress(OSError):  # a closed pipe, a full disk
            if self._file is None:
                note(line)
            else:
                print(line, file=self._file, flush=True)

    def hint(self, line: str) -> None:
        """What one may do next: only for somebody who sees it."""
        if self._file is None and is_terminal(sys.stderr):
            self.say(line)

    def follow(self, words: list[str]) -> int:
        """Run another command of ours; its exit code. Whatever stops it becomes a message."""
        from topsprof import cli

        with contextlib.ExitStack() as stack:
            if self._file is not None:
                stack.enter_context(contextlib.redirect_stdout(self._file))
                stack.enter_context(contextlib.redirect_stderr(self._file))
            elif words[0] == "stats":
                with contextlib.suppress(OSError):
                    part()
            return cli.main(words)

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # as in `say`
                self._file.close()


def _export_types(args: argparse.Namespace) -> list[str]:
    return list(dict.fromkeys(kind for text in args.export for kind in _names(text)))


def _check_exports(args: argparse.Namespace) -> None:
    """Raise UserError for an unknown type of --export: not only when the program is done."""
    from topsprof.exporters import registry

    for kind in _export_types(args):
        if registry.ALIASES.get(kind, kind) not in registry.EXPORTERS:
            raise UserError(f"--export {kind}: unknown; one of {', '.join(registry.EXPORTERS)}")


def _follow_ups(args: argparse.Namespace, folder: Path) -> list[list[str]]:
    """The commands that --stats, --print-gcu-trace and --export stand for."""
    commands: list[list[str]] = []
    if args.stats:
        commands.append(["stats", str(folder)])
    if args.print_gcu_trace:
        commands.append(["stats", str(folder), "-r", "gcu_trace"])
    overwrite = ["-f"] if args.force_overwrite else []
    for kind in _export_types(args):
        commands.append(["export", str(folder), "-t", kind, *overwrite])
    return commands
