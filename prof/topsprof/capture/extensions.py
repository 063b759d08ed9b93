"""The recorder's C extension for Pythons of other versions: built once into a cache, where they find it.

topstx is installed with an extension for our own Python. A recorded program may run on another; it then uses
topstx from our installation with an extension of its own ABI from the cache, or, without a compiler, the
Python twin.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

OLDEST_PYTHON: Final = (3, 11)
SILENT: Final = "does not answer"
"""What `prospect` says of a command that is no Python that runs."""
_BUILD_TIMEOUT_S: Final = 120
_ASK_TIMEOUT_S: Final = 20
_FLAGS: Final = ("-O2", "-std=gnu11", "-shared", "-fPIC")
_QUESTION: Final = (
    "import sys, sysconfig, json; v = sysconfig.get_config_var; "
    "print(json.dumps([list(sys.version_info[:2]), v('EXT_SUFFIX'), sysconfig.get_path('include'), v('CC')]))"
)


@dataclass(frozen=True)
class Outcome:
    """What became of an extension: `file` when it is there; `problem` says in a few words why it isn't."""

    file: Path | None
    built: bool = False
    problem: str = ""
    twin_serves: bool = True


@cache
def topstx_root() -> Path:
    """The folder that holds the package `topstx` of this installation."""
    spec = importlib.util.find_spec("topstx")
    assert spec is not None and spec.origin is not None, "topstx is part of this distribution"
    return Path(spec.origin).resolve().parent.parent


def recorder_folder() -> Path:
    """The package topstx.recorder: sources, headers and our own extension."""
    return topstx_root() / "topstx" / "recorder"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where extensions of this recorder lie: $XDG_CACHE_HOME (or ~/.cache)/topskit/recorder-HASH.

    For a user without a home, as in some containers, it is a place that can't be made: the twin serves.
    """
    base = environ.get("XDG_CACHE_HOME")
    if not base:
        home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without one
        base = os.path.join(home, ".cache") if home.startswith("/") else os.devnull  # noqa: PTH118
    return Path(base) / "topskit" / f"recorder-{_source_hash()}"


@cache
def _source_hash() -> str:
    digest = hashlib.sha256()
    for file in sorted([*recorder_folder().glob("*.[ch]"), *recorder_folder().glob("include/*.h")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def wanted(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Pythons that met no extension of theirs in an earlier run; each is named once.

    Also makes the folder in which the next ones can leave word.
    """
    found: list[str] = []
    folder = cache_folder(environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return found  # no cache here: other Pythons use the twin, as doctor says
    for marker in folder.glob("wanted*"):
        try:
            found.append(marker.read_text(encoding="utf-8"))
            marker.unlink()
        except (OSError, ValueError):
            continue  # another run took it
    return found


def is_needed(python: str) -> bool:
    """Whether `python` may need an extension that we lack: it is another file than our own Python."""
    return os.path.realpath(python) != os.path.realpath(sys.executable)


def ensure(python: str, environ: Mapping[str, str] = os.environ) -> Outcome:
    """See that `python` finds an extension, and build it when needed. Never raises: the twin serves."""
    if environ.get("TOPSKIT_PURE", "0") not in ("", "0"):
        return Outcome(None, problem="TOPSKIT_PURE is set")
    source = recorder_folder() / "_crec.c"
    answer = _ask(python)
    if answer is None:
        return Outcome(None, problem="it does not answer", twin_serves=False)
    version, suffix, include, compiler = answer
    if tuple(version) < OLDEST_PYTHON:
        return Outcome(
            None, problem=f"Python {version[0]}.{version[1]} is too old to be recorded", twin_serves=False
        )
    ours = recorder_folder() / f"_crec{suffix}"
    if ours.is_file():
        return Outcome(ours)
    folder = cache_folder(environ)
    file = folder / f"_crec{suffix}"
    if file.is_file():
        return Outcome(file)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _build(source, Path(include), _compiler(compiler, environ), file)
    except OSError as error:
        return Outcome(None, problem=f"'{folder}' can't be written ({error.strerror})")


def _ask(python: str) -> tuple[list[int], str, str, str] | None:
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _QUESTION],
            capture_output=True,
            timeout=_ASK_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        version, suffix, include, compiler = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return version, suffix, include, compiler or ""


def _compiler(configured: str, environ: Mapping[str, str]) -> list[str] | None:
    """$CC, else the compiler that built that Python, else gcc or cc; None when there is none."""
    for text in (environ.get("CC"), configured, "gcc", "cc"):
        try:
            words = shlex.split(text) if text else []
        except ValueError:  # quotes without an end
            words = []
        if words and shutil.which(words[0]):
            return words
        if text and text == environ.get("CC"):
            return None  # the user's choice counts, also where it means none
    return None


def _build(source: Path, include: Path, compiler: list[str] | None, file: Path) -> Outcome:
    failed = file.with_name(file.name + ".failed")
    if failed.exists():  # asked once is enough; doctor says how to try again
        return Outcome(None, problem=failed.read_text(encoding="utf-8", errors="replace"))
    if compiler is None:
        return Outcome(None, problem="no C compiler")
    if not (include / "Python.h").is_file():
        return Outcome(None, problem=f"no Python.h in {include}")
    with tempfile.TemporaryDirectory(dir=file.parent) as work:
        built = Path(work) / file.name
        command = [*compiler, *_FLAGS, f"-I{source.parent / 'include'}", f"-I{source.parent}", f"-I{include}"]
        try:
            done = subprocess.run(
                [*command, str(source), "-o", str(built)],
                capture_output=True,
                timeout=_BUILD_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Outcome(None, problem=f"the C compiler did not finish: {error}")
        if done.returncode != 0:
            errors = done.stderr.decode(errors="replace").splitlines()
            line = next((line for line in errors if "error" in line), f"{compiler[0]} failed")
            failed.write_text(f"the build failed: {line}", encoding="utf-8")
            return Outcome(None, problem=f"the build failed: {line}")
        built.replace(file)
    return Outcome(file, built=True)


def own_suffix() -> str:
    """The file name suffix of extensions of the Python that runs us."""
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def prospect(python: str, environ: Mapping[str, str] = os.environ) -> tuple[bool, str]:
    """Whether a program on `python` is recorded in C, and the answer in words. Builds nothing."""
    answer = _ask(python)
    if answer is None:
        return False, SILENT
    version, suffix, include, compiler = answer
    name = f"Python {version[0]}.{version[1]}"
    if tuple(version) < OLDEST_PYTHON:
        return False, f"{name}: not recorded, too old"
    if "t-" in suffix:
        return False, f"{name}, free-threaded: not recorded"
    if (recorder_folder() / f"_crec{suffix}").is_file():
        return True, f"{name}: recorded by the installed C extension"
    if (cache_folder(environ) / f"_crec{suffix}").is_file():
        return True, f"{name}: recorded by a C extension from the cache"
    if _compiler(compiler, environ) and (Path(include) / "Python.h").is_file():
        return True, f"{name}: recorded by a C extension that its first run builds"
    return False, f"{name}: recorded by the Python twin (no compiler, or no Python.h)"
