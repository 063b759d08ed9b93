"""What a flight recorder was asked for, and how snapshots are asked for: files in the session's folder."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tops_kit.errors import SessionError
from tops_kit.session.files import read_json, write_json

FOLDER: Final = "snapshots"
"""Folder of requests, in a session that keeps its last seconds only (and in no other)."""
LOG: Final = "told"
"""File in FOLDER: a JSON line for each snapshot that was made, or was not."""
REQUEST: Final = ".request"
REPLY: Final = ".reply"

_PLAN: Final = "plan.json"
_LABEL_CHARACTERS: Final = 60
_UNSAFE: Final = re.compile(r"[^\w.+-]+")
_FIELD: Final = re.compile(r"%[ns%]")


@dataclass(frozen=True, slots=True)
class FlightPlan:
    """`output` is the path of snapshots without its ending, `%n` a free number, `%s` what they are of, `%%` a
    percent sign. `when` are rules as `rules.parse` takes them; at most `when_limit` snapshots come of them,
    `cooldown_s` apart, and at most `ask_limit` of the program's own calls.
    """

    keep_s: float
    output: str
    keep_bytes: int = 2 << 30
    when: tuple[str, ...] = ()
    when_limit: int = 10
    cooldown_s: float = 0.0
    ask_limit: int = 100

    def save(self, folder: Path) -> None:
        """Make the session in `folder`, not yet recorded, one that follows this plan. Raises OSError."""
        (folder / FOLDER).mkdir(exist_ok=True)
        write_json(folder / FOLDER / _PLAN, asdict(self))


def load(folder: Path) -> FlightPlan | None:
    """The plan of a session; None when it keeps everything. SessionError when it can't be read."""
    try:
        value = read_json(folder / FOLDER / _PLAN)
        return FlightPlan(**{**value, "when": tuple(value["when"])})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SessionError(f"{folder / FOLDER / _PLAN} can't be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Request:
    """A snapshot that somebody wants. `output`: its path, complete; "": as the plan says. `who`: program,
    command, signal or trigger. `key` names the file of the reply; "": nobody waits for one.
    """

    who: str
    label: str = ""
    output: str = ""
    key: str = ""
    text: str = ""
    """Why, for people."""


def ask(folder: Path, request: Request) -> str:
    """Ask the collector of `folder` for a snapshot; the key of its reply, see `reply`. Raises OSError."""
    key = request.key or f"{os.getpid()}-{time.monotonic_ns():x}"
    path = folder / FOLDER / f"{key}{REQUEST}"
    write_json(path, {**asdict(request), "key": key})
    return key


def reply(folder: Path, key: str) -> dict[str, Any] | None:
    """What came of a request: `path`, or `error`; None as long as it is not known. It is taken away."""
    path = folder / FOLDER / f"{key}{REPLY}"
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError):
        path.unlink()
    return found


def take_requests(folder: Path) -> list[Request]:
    """All requests that are there, oldest first; their files are gone then. What is none is deleted."""
    try:
        paths = [path for path in (folder / FOLDER).iterdir() if path.name.endswith(REQUEST)]
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
    except OSError:
        return []
    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            value = read_json(path)
            fields = {key: str(value.get(key, "")) for key in ("label", "output", "text")}
            who = str(value.get("who", "program"))
            key = path.name.removesuffix(REQUEST) if who == "command" else ""
            found.append(Request(who=who, key=key, **fields))
        with contextlib.suppress(OSError):
            path.unlink()
    return found


def answer(folder: Path, key: str, value: dict[str, Any]) -> None:
    """Tell who asked (by `key`; "": nobody), and whoever follows the log, as far as that can be written."""
    with contextlib.suppress(OSError):
        if key:
            write_json(folder / FOLDER / f"{key}{REPLY}", value)
        with (folder / FOLDER / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")


def safe_label(text: str) -> str:
    """A text as a part of a file's name."""
    return _UNSAFE.sub("-", text)[:_LABEL_CHARACTERS].strip("-.") or "snapshot"


def path_of(output: str, label: str, number: int) -> Path:
    """The path of a snapshot by the plan's `output`; without `%n` in it, numbers past 1 are appended."""
    fields = {"%n": str(number), "%s": safe_label(label), "%%": "%"}
    text = _FIELD.sub(lambda match: fields[match[0]], output)
    if number > 1 and not has_number(output):
        text += f"-{number}"
    return Path(text if text.endswith(".topsprof") else text + ".topsprof")


def has_number(output: str) -> bool:
    """Whether `output` has a `%n` of its own."""
    return "%n" in _FIELD.findall(output)
