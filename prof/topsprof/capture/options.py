"""What a person asked of a recording, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topstx.osrt_injection import THRESHOLD_NS
from topstx.recorder.calls import LIMIT, CallOptions
from topstx.recorder.memory import RATE_BYTES, MemoryOptions

from tops_kit.errors import UserError
from topsprof import naming
from topsprof.capture.kinds import DEFAULT_TRACES, TRACE_KINDS

if TYPE_CHECKING:
    from tops_kit.collect.flight.plan import FlightPlan

KNOWN_TRACES: Final = tuple(TRACE_KINDS)
"""What this version records."""

DEFAULT_KEEP_BYTES: Final = 2 << 30
DEFAULT_WHEN_LIMIT: Final = 10
DEFAULT_SAMPLE_HZ: Final = 1000.0
MOST_SAMPLE_HZ: Final = 20_000.0

LATER_TRACES: Final = ("python-gil", "eccl")
"""Names of -t that later versions bring."""

TRACE_ALIASES: Final = {
    "nvtx": "topstx",
    "tx": "topstx",
    "tops": "runtime",
    "cuda": "runtime",
    "hip": "runtime",
}


@dataclass(frozen=True)
class CaptureRange:
    """When recording is on: always, between the program's own start and stop calls, or within a TX range."""

    mode: str = "none"  # none | topsProfilerApi | topstx
    name: str = ""
    domain: str = ""
    end: str = "stop"  # none | stop | stop-shutdown | repeat
    repeats: int = 0  # 0: without end
    skip: int = 0  # so many such ranges pass by before the first


@dataclass(frozen=True)
class FlightOptions:
    """What --keep-last and its like ask for. `output` is a pattern; None: beside the session."""

    keep_s: float
    keep_bytes: int = DEFAULT_KEEP_BYTES
    output: str | None = None
    when: tuple[str, ...] = ()
    when_limit: int = DEFAULT_WHEN_LIMIT
    cooldown_s: float | None = None  # None: as long as the window

    def plan(self, folder: Path, pid: int) -> FlightPlan:
        """The same for the collector of the session in `folder`. Raises UserError."""
        from tops_kit.collect.flight.plan import FlightPlan

        if self.output is None:
            output = str(folder.absolute().with_suffix("")).replace("%", "%%") + "-%s%n"
        else:
            output = naming.snapshot_pattern(self.output, pid=pid)
        naming.check_parent(Path(output))
        output = str(Path(output).absolute())
        cooldown_s = self.keep_s if self.cooldown_s is None else self.cooldown_s
        return FlightPlan(self.keep_s, output, self.keep_bytes, self.when, self.when_limit, cooldown_s)


@dataclass(frozen=True)
class RecordOptions:
    """A recording as `topsprof run` starts it. Times are in seconds."""

    output: str | None = None
    force: bool = False
    traces: tuple[str, ...] = DEFAULT_TRACES
    delay_s: float = 0.0
    duration_s: float | None = None
    from_start: bool = True
    capture: CaptureRange = CaptureRange()
    domain_include: tuple[str, ...] = ()
    domain_exclude: tuple[str, ...] = ()
    policy: str = "block"  # block | drop
    kill: int = 0  # signal for the program when the session ends before it; 0: none
    wait_all: bool = False
    session_name: str | None = None
    kernel_include: str = ""  # regular expressions for names of kernels; "": all, and none
    kernel_exclude: str = ""
    save_launch: str = ""  # regular expression for names of kernels; "": no launches are saved
    save_launch_count: int = 1  # of each kernel in each process
    save_launch_limit: int = 1 << 30  # bytes of all
    backtrace: int = 0  # frames of the stack of each runtime call
    metrics: int = 0  # counters of launches, METRICS_* as bits
    calls: CallOptions | None = None  # which calls of Python functions; None: none
    osrt_threshold_ns: int = THRESHOLD_NS  # shorter calls of the operating system are counted only
    memory: MemoryOptions | None = None  # how memory of Python programs is sampled; None: not
    sample_hz: float = 0.0  # samples of Python programs a second; 0: none
    children: bool = True  # whether what the program starts is sampled, too
    flight: FlightOptions | None = None  # keep the last seconds only
    sample_asked: bool = False  # whether somebody asked for them, rather than getting them as usual

    @property
    def records(self) -> bool:
        """Whether anything is recorded at all."""
        return bool(self.traces) or self.sample_hz > 0


def trace_names(text: str) -> tuple[str, ...]:
    """The checked list of `-t`: names separated by commas. Raises UserError for one that can't be had."""
    if text == "none":
        return ()
    names: list[str] = []
    for word in _words(text):
        kind = word.partition(":")[0].lower()
        name = TRACE_ALIASES.get(kind, kind)
        if ":" in word and name != "python":
            raise UserError(f"-t {word}: only python takes a pattern, as in python:myapp.*")
        if name in LATER_TRACES:
            raise UserError(
                f"-t {word}: this version can't record '{word}' yet; it records {', '.join(KNOWN_TRACES)}"
            )
        if name in ("sample", "samples", "sampling"):
            raise UserError(f"-t {word}: samples are asked for by --sample HZ, beside -t or without it")
        if name not in KNOWN_TRACES:
            raise UserError(f"-t {word}: unknown; this version records {', '.join(KNOWN_TRACES)}")
        if name not in names:
            names.append(name)
    return tuple(names)


def call_options(text: str, *, c_calls: bool = False, limit: int = LIMIT) -> CallOptions | None:
    """What -t asks of calls of Python functions; None: nothing. Raises UserError for a pattern that is none.

    `python` alone is the program's own code; `python:GLOB` is modules of that name, or files.
    """
    found = [word.partition(":") for word in _words(text) if word.partition(":")[0].lower() == "python"]
    if not found:
        if c_calls:
            raise UserError("--python-c-calls needs -t python: it is what those functions call")
        return None
    patterns = [pattern.strip() for _, colon, pattern in found if colon]
    if not all(patterns):
        raise UserError("-t python: needs a pattern after the colon, as in python:myapp.*, or no colon")
    if len(patterns) < len(found) and patterns:
        raise UserError("-t python,python:GLOB: give one of them; python alone is the program's own code")
    return CallOptions(patterns, c_calls=c_calls, limit=limit)


def memory_options(text: str, rate_bytes: int | None, seed: int) -> MemoryOptions | None:
    """What -t asks of the memory of Python programs; None: nothing. Raises UserError."""
    if "pymem" not in (word.lower() for word in _words(text)):
        if rate_bytes is not None or seed:
            raise UserError(
                "--pymem-rate and --pymem-seed need -t pymem: they say which allocations it samples"
            )
        return None
    return MemoryOptions(RATE_BYTES if rate_bytes is None else rate_bytes, seed)


def _words(text: str) -> list[str]:
    return list(filter(None, (part.strip() for part in text.split(","))))


def sample_rate(sample: str | None, trace: str | None) -> float:
    """Samples a second that --sample asks for: 1000 where neither it nor -t says anything; 0: none. Raises
    UserError.
    """
    if sample is None:
        return DEFAULT_SAMPLE_HZ if trace is None else 0.0
    word = sample.strip().lower().removesuffix("hz")
    if word in ("off", "none", "0"):
        return 0.0
    try:
        rate = float(word)
    except ValueError:
        rate = -1.0
    if not 1 <= rate <= MOST_SAMPLE_HZ:
        raise UserError(f"--sample {sample}: give samples a second, 1 to {MOST_SAMPLE_HZ:.0f}, or off")
    return rate


def capture_range(
    mode: str | None, text: str | None, end: str | None, iterations: str | None = None
) -> CaptureRange:
    """The checked value of -c, -p, --capture-range-end and --iterations. Raises UserError when they don't fit
    together.
    """
    modes = {
        "topstx": "topstx",
        "nvtx": "topstx",
        "topsprofilerapi": "topsProfilerApi",
        "cudaprofilerapi": "topsProfilerApi",
    }
    chosen = "topstx" if mode is None and text is not None else modes.get((mode or "none").lower(), "none")
    if mode is not None and mode.lower() not in {*modes, "none"}:
        raise UserError(f"-c {mode}: unknown; use none, topsProfilerApi or topstx")
    if chosen == "topstx" and not text:
        raise UserError("-c topstx needs the range that starts recording: -p RANGE or -p RANGE@DOMAIN")
    if chosen != "topstx" and text:
        raise UserError(f"-p {text}: only with -c topstx")
    if iterations is not None and (chosen != "topstx" or end is not None):
        raise UserError(
            f"--iterations {iterations}: name the range of an iteration, -p RANGE or -p RANGE@DOMAIN"
            + (", without --capture-range-end" if end is not None else "")
        )
    name, domain = _range_and_domain(text or "")
    action, repeats = _range_end(end or "stop")
    skip = 0
    if iterations is not None:
        skip, repeats = _iterations(iterations)
        action = "repeat"
    for what, value, limit in (("RANGE", name, 511), ("DOMAIN", domain, 255)):
        if len(value.encode("utf-8", "surrogateescape")) > limit:
            raise UserError(f"-p: {what} is longer than {limit} bytes")
    return CaptureRange(chosen, name, domain, action, repeats, skip)


def _range_and_domain(text: str) -> tuple[str, str]:
    """RANGE@DOMAIN, where `\\@` is an @ of a name itself; DOMAIN `default` or none is the default one."""
    marked = text.replace("\\@", "\0")
    name, _, domain = marked.rpartition("@") if "@" in marked else (marked, "", "")
    name, domain = name.replace("\0", "@"), domain.replace("\0", "@")
    if domain == "*":
        raise UserError(f"-p {text}: name one domain; '@*' is not supported")
    return name, "" if domain == "default" else domain


def _iterations(text: str) -> tuple[int, int]:
    """FIRST:LAST, as Python's slices: how many pass by, and how many are recorded (0: all that come)."""
    first, colon, last = text.partition(":")
    numbers = [
        int(word) if word.isdecimal() and len(word) < 10 else -1 for word in (first or "0", last or "0")
    ]
    if not text.strip(":") or min(numbers) < 0 or (last and numbers[1] <= numbers[0]):
        raise UserError(
            f"--iterations {text}: write FIRST:LAST, counted from 0 and without LAST itself: 10:20 are ten "
            "iterations, 10: all from the tenth on, 10 one"
        )
    if not colon:
        return numbers[0], 1
    return numbers[0], numbers[1] - numbers[0] if last else 0


def _range_end(text: str) -> tuple[str, int]:
    action, colon, number = text.partition(":")
    if action not in ("none", "stop", "stop-shutdown", "repeat"):
        raise UserError(f"--capture-range-end {text}: unknown; use none, stop, stop-shutdown or repeat[:N]")
    if not colon:
        return action, 0
    if action != "repeat" or not number.isdecimal() or int(number) < 1:
        raise UserError(f"--capture-range-end {text}: only repeat takes a number, 1 or more, as in repeat:3")
    return action, int(number)
