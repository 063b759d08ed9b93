"""What recording depends on at this machine, looked at one by one for `topsprof doctor`."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import topsprof
from tops_kit import libraries, own_path, own_process
from tops_kit.errors import UserError
from topsprof import faults
from topsprof.capture import extensions
from topsprof.terminal import size_text

GOOD: Final = "ok"
NOTE: Final = "note"
BROKEN: Final = "broken"

COMMANDS: Final = ("topsprof", "topsgdb", "topscc", "efsmi")
"""Names of our commands that the vendor's tools have as well."""

_LOW_SPACE_BYTES: Final = 1_000_000_000
_SELF_TEST_TIMEOUT_S: Final = 60
_PYTHON_COMMAND: Final = re.compile(r"python3(\.\d+)?t?")


@dataclass(frozen=True)
class Check:
    """One line of the doctor: `state` is ok, note (worth knowing) or broken (recording does not work)."""

    section: str
    name: str
    value: str
    state: str = GOOD

    def to_json(self) -> dict[str, str]:
        """The fields as a dict."""
        return asdict(self)


def checks(self_test: bool = True) -> Iterator[Check]:
    """All checks, in sections. `self_test` records a tiny program."""
    parts: list[Callable[[], Iterator[Check]]] = [
        *(versions, recorder, pythons, stand_ins, clock, limits, space, commands)
    ]
    for part in parts:
        try:
            yield from part()
        except Exception as error:  # a library that this part needs: the other parts tell what they can
            line = _why(error)
            if line is None:
                raise
            yield Check(part.__name__, "not looked at", line, BROKEN)
    if self_test:
        yield trial()


def _why(error: Exception) -> str | None:
    return str(error) if isinstance(error, UserError) else faults.explained(error)


def versions() -> Iterator[Check]:
    """Versions of what takes part."""
    from topstx._version import VERSION

    yield Check("versions", "tops-kit", VERSION)
    yield Check("versions", "Python", f"{platform.python_version()} ({sys.executable})")
    for name in libraries.LIBRARIES:
        try:
            version = str(importlib.import_module(name).__version__)
        except Exception as error:  # whatever a library that is broken raises
            yield Check("versions", name, _why(error) or f"{type(error).__name__}: {error}", BROKEN)
        else:
            yield Check("versions", name, version)
    yield Check("versions", "system", platform.platform())


def recorder() -> Iterator[Check]:
    """The recorder and collector that this installation uses, and what could build others."""
    import topstx
    from topstx import _backend

    name = topstx.backend()
    reason = _backend.choose()[1]
    texts = {"c": "C extension", "twin": f"Python twin, slower ({reason})", "off": f"off ({reason})"}
    yield Check("recorder", "recorder", texts.get(name, name), {"c": GOOD, "off": BROKEN}.get(name, NOTE))
    yield from _parts()
    yield _compiler()
    folder = extensions.cache_folder()
    yield Check("recorder", "built for others", ", ".join(_built(folder)) or f"none yet ({folder})")
    for failed in sorted(folder.glob("*.failed")):
        text = failed.read_text(encoding="utf-8", errors="replace")
        yield Check("recorder", failed.name, f"{text}; remove {failed} to try again", NOTE)


def _parts() -> Iterator[Check]:
    """What else is in C, and why where it isn't."""
    from topstx import nvtx_injection

    from tops_kit.collect import backend as collector
    from tops_kit.session import backend as session
    from topsprof.exporters import assemble
    from topsprof.importers import scan, wire

    for name, problem in (
        ("collector", collector.problem()),
        ("session's sorting", session.problem()),
        ("trace JSON", scan.problem()),
        ("protobuf", wire.problem()),
        ("export", assemble.problem()),
    ):
        text = f"Python twin, slower ({problem})" if problem else "C"
        yield Check("recorder", name, text, NOTE if problem else GOOD)
    problem = nvtx_injection.problem()
    text = f"not recorded: {problem}" if problem else "recorded"
    yield Check("recorder", "calls of NVTX", text, NOTE if problem else GOOD)


def _built(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("_crec*.so"))


def _compiler() -> Check:
    name = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not name:
        return Check("recorder", "C compiler", "none: Pythons of other versions use the twin", NOTE)
    line = _first_line([*name.split(), "--version"])
    return Check("recorder", "C compiler", line or f"'{name}' does not work", GOOD if line else NOTE)


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.decode(errors="replace").splitlines() or [""])[0]


def pythons() -> Iterator[Check]:
    """The Pythons on PATH, and how a program on each would be recorded."""
    seen: set[str] = set()
    silent: list[str] = []
    for path in _on_path(lambda name: _PYTHON_COMMAND.fullmatch(name) is not None):
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        state, text = extensions.prospect(str(path))
        if text == extensions.SILENT:
            silent.append(str(path))
        else:
            yield Check("pythons", str(path), text, GOOD if state else NOTE)
    if silent:  # e.g. pyenv's shims, of which there is one for each version that is not in use
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        yield Check("pythons", silent[0] + more, extensions.SILENT, NOTE)


def stand_ins() -> Iterator[Check]:
    """What stands on PYTHONPATH in place of modules of Python's or of ours."""
    names = sys.stdlib_module_names | {"topstx", "topsprof", "tops_kit", *libraries.LIBRARIES}
    for folder in map(Path, own_path.python_path()):
        try:
            found = sorted(path for path in folder.iterdir() if path.name.removesuffix(".py") in names)
        except OSError:
            continue  # PYTHONPATH, too, often names folders that don't exist
        for path in found:
            if path.suffix != ".py" and not (path / "__init__.py").is_file():
                continue
            if path.stem in ("topstx", "topsprof", "tops_kit") and path.is_dir():
                continue  # a copy of ours, e.g. a checkout
            text = f"{path} stands in for it in recorded programs; topsprof itself looks there last"
            yield Check("pythons", f"module {path.stem}", text, NOTE)


def _on_path(wanted: Callable[[str], bool]) -> Iterator[Path]:
    for folder in dict.fromkeys(os.environ.get("PATH", os.defpath).split(os.pathsep)):
        try:
            names = sorted(entry.name for entry in os.scandir(folder or "."))
        except OSError:
            continue  # PATH often names folders that don't exist
        for name in filter(wanted, names):
            path = Path(folder) / name
            if path.is_file() and os.access(path, os.X_OK):
                yield path


def clock() -> Iterator[Check]:
    """Whether the time stamp counter can be the clock."""
    from topstx.recorder import layout

    from tops_kit.collect.backend import load
    from tops_kit.collect.clock import best_clock

    tsc = best_clock(load()[0]) == layout.CLOCK_TSC
    source = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    name = (
        "time stamp counter"
        if tsc
        else "CLOCK_MONOTONIC (no invariant time stamp counter, or no C collector)"
    )
    yield Check("clock", "recorder's clock", name, GOOD if tsc else NOTE)
    yield Check("clock", "system's clock source", source)


def limits() -> Iterator[Check]:
    """Limits of the system and of this user."""
    import resource

    for name, path, meaning in (
        ("perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", "above 2: no hardware counters"),
        ("ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope", "above 0: sampling reads own children only"),
    ):
        yield Check("limits", name, f"{_read(path) or 'not there'} ({meaning})")
    for name, number, unit in (
        ("open files", resource.RLIMIT_NOFILE, ""),
        ("file size", resource.RLIMIT_FSIZE, " bytes"),
        ("address space", resource.RLIMIT_AS, " bytes"),
        ("processes", resource.RLIMIT_NPROC, ""),
    ):
        soft, hard = (
            "unlimited" if value == resource.RLIM_INFINITY else f"{value}{unit}"
            for value in resource.getrlimit(number)
        )
        limited = number in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS) and soft != "unlimited"
        yield Check(
            "limits", name, soft if soft == hard else f"{soft} (at most {hard})", NOTE if limited else GOOD
        )


def space() -> Iterator[Check]:
    """Room for rings and sessions, and whether the working folder takes them."""
    here = Path.cwd()
    for name, folder in (("working folder", here), ("/dev/shm", Path("/dev/shm"))):
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            yield Check("space", name, f"{error.strerror}", NOTE)
            continue
        kind = _file_system(folder)
        low = free < _LOW_SPACE_BYTES and folder == here
        yield Check("space", name, f"{size_text(free)} free, {kind}", NOTE if low else GOOD)
    if not os.access(here, os.W_OK):
        yield Check("space", "sessions", f"{here} is read-only: give a place with -o", NOTE)


def _file_system(folder: Path) -> str:
    best, kind = "", "unknown file system"
    for line in (_read("/proc/self/mounts") or "").splitlines():
        fields = line.split()
        mount = fields[1].replace("\\040", " ")
        if len(mount) >= len(best) and folder.resolve().is_relative_to(mount):
            best, kind = mount, fields[2]
    return kind


def commands() -> Iterator[Check]:
    """Commands of the vendor's that have our names: which of both a shell finds."""
    ours = Path(sysconfig.get_path("scripts"))
    for name in COMMANDS:
        found = list(_on_path(lambda entry, name=name: entry == name))  # type: ignore[misc]
        others = [path for path in found if path.parent.resolve() != ours.resolve()]
        if not others:
            continue
        first = found[0]
        verdict = "it comes first on PATH" if first in others else f"{first} comes first on PATH and hides it"
        yield Check("commands", name, f"another one is {others[0]}: {verdict}", NOTE)
    if not any(_on_path(lambda entry: entry == "topsprof")):
        yield Check("commands", "topsprof", f"not on PATH: it is in {ours}", NOTE)


def trial() -> Check:
    """Record a program of one range, and look whether it is there."""
    import topstx

    code = "import topstx\nwith topstx.annotate('doctor'):\n    pass"
    with tempfile.TemporaryDirectory(prefix="topsprof-doctor-") as folder:
        name = str(Path(folder) / "trial")
        begin = time.monotonic()
        environ = {key: value for key, value in os.environ.items() if key != "TOPSTX_DISABLE"}
        environ = own_process.environment(topsprof.__file__, topstx.__file__, base=environ)
        command = own_process.module_command(
            "topsprof", "run", "--strict", "-o", name, "--", sys.executable, "-c", code
        )
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                timeout=_SELF_TEST_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
                cwd=folder,  # the user's may hold a topstx.py of theirs
                env=environ,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return Check("trial", "recording", f"failed: {error}", BROKEN)
        if done.returncode != 0:
            reason = _failure(done.stderr.decode(errors="replace")) or f"exit code {done.returncode}"
            return Check("trial", "recording", f"failed: {reason}", BROKEN)
        return Check(
            "trial", "recording", f"works ({time.monotonic() - begin:.1f} s for a program of one range)"
        )


def _failure(output: str) -> str:
    """The line of a run's stderr that says most of why it failed: our first one, else the last."""
    lines = [line for line in output.splitlines() if line.strip() and "session:" not in line]
    ours = [line.removeprefix("topsprof: ") for line in lines if line.startswith("topsprof: ")]
    return next(iter([*ours, *lines[-1:]]), "")


def as_json(found: list[Check]) -> str:
    """The checks as one JSON object: `state` of all, and a list of `checks`."""
    worst = next((state for state in (BROKEN, NOTE) if any(c.state == state for c in found)), GOOD)
    return json.dumps({"state": worst, "checks": [c.to_json() for c in found]}, indent=1, ensure_ascii=False)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
