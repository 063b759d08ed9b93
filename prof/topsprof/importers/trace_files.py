"""Which files a user means, and what their names say."""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError

_RANK: Final = re.compile(
    r"(?:rank|worker|process|node\d+_)[-_.]?(\d+)|(?:^|[-_.])r(\d+)(?=[-_.])", re.IGNORECASE
)
_SUFFIXES: Final = (
    ".gz",
    ".zst",
    ".json",
    ".pt.trace",
    ".trace",
    ".pftrace",
    ".perfetto-trace",
    ".speedscope",
    ".folded",
    ".collapsed",
    ".sqlite",
)


def trace_files(text: str) -> list[Path]:
    """The files that a path, a folder or a glob pattern names, sorted. UserError when there are none."""
    path = Path(text)
    if path.is_dir():
        found = sorted(
            entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")
        )
        if not found:
            raise UserError(f"{text}: there is no file in this folder; give a trace, or a folder of traces")
        return found
    if path.is_file():
        return [path]
    if path.exists():
        raise UserError(f"{text} is not a regular file; give a session, or a trace in a file")
    if any(c in text for c in "*?["):
        names = glob(text, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        found = sorted(path for name in names if (path := Path(name)).is_file())
        if found:
            return found
        raise UserError(f"{text}: no file matches this pattern")
    raise UserError(f"{text} does not exist; give the path of a trace, a folder of traces, or a pattern")


def rank_of(path: Path) -> int | None:
    """The rank that a file's name gives: trace_rank3.json, worker-3.pt.trace.json.gz, 3.json.

    >>> rank_of(Path("job_rank12_step3.json.gz")), rank_of(Path("7.json")), rank_of(Path("alexnet.json"))
    (12, 7, None)
    """
    found = _RANK.search(path.name)
    if found:
        return int(found[1] or found[2])
    stem = stem_of(path)
    return int(stem) if stem.isdigit() and len(stem) < 7 else None


def stem_of(path: Path) -> str:
    """The name of a trace without the suffixes that traces have."""
    name = path.name
    while True:
        short = next(
            (
                name.removesuffix(suffix)
                for suffix in _SUFFIXES
                if name.lower().endswith(suffix) and len(name) > len(suffix)
            ),
            name,
        )
        if short == name:
            return name
        name = short
