"""Opening whatever a user calls a session: a session folder, a packed session, a trace file, or many of them.

Traces and packed sessions are imported once, into a cache that is keyed by their content and bounded in size.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tops_kit.errors import SessionError, UserError
from tops_kit.session import Session
from tops_kit.session.in_use import use_of
from topsprof import terminal
from topsprof.digests import Digests
from topsprof.naming import SESSION_SUFFIX

PACK_SUFFIX: Final = ".topspack"
_ZIP_MAGIC: Final = b"PK\x03\x04"
CACHE_BYTES: Final = 16 << 30
"""What the cache may hold; the sessions that were opened longest ago go first."""
_TOLD: Final = ".told"
"""File in a cached session: its ledger has been shown."""
_IMPORT_VERSION: Final = 3  # a new one when importers give other rows for the same file


def open_session(text: str) -> Session:
    """Open a session by what the user typed.

    A folder with or without `.topsprof`, a `.topspack` file, a trace file, a folder of traces or a pattern.
    UserError (one line) when it is none of them or can't be read.
    """
    for path in (Path(text), Path(text.rstrip("/") + SESSION_SUFFIX)):
        if (path / "session.json").exists() or (path.suffix == SESSION_SUFFIX and path.is_dir()):
            session = Session.open(path, recover=_recover)
            use = use_of(path)
            if use is not None and use.recorded:
                terminal.note(f"{path} {use}: this is what it holds by now")
            return session
    if text.endswith(SESSION_SUFFIX) and not Path(text).exists():
        raise UserError(f"{text} does not exist; give a session, or a trace file of another tool")
    path = _cached(text)
    try:
        return Session.open(path)
    except SessionError:  # e.g. files that a power cut emptied: nothing in the cache is the only copy
        shutil.rmtree(path, ignore_errors=True)
        return Session.open(_cached(text))


def ledger_lines(session: Session, *, quiet: bool = False) -> list[str]:
    """What a command that reads a session tells of its ledger.

    Of a trace in the cache the first command tells all, later ones where it is listed (nothing when `quiet`),
    and what they themselves could not read.
    """
    if session.path.parent not in _cache_places():
        return session.ledger.lines()
    told = session.path / _TOLD
    if not told.exists():
        with suppress(OSError):  # then it is told again
            told.touch()
        return session.ledger.lines()
    lines = session.damage.lines()
    count = len(session.ledger.lines()) - len(lines)
    if count > 0 and not quiet:
        words = "1 line" if count == 1 else f"{count} lines"
        lines.insert(0, f"the import repaired or left out something: topsprof info has the {words}")
    return lines


def output_base(text: str) -> Path:
    """Where outputs that are named after a session go, and their name without an ending.

    `text` is what the user typed. Of a trace it is the trace's place and name, not those of the session in
    the cache; of a pattern the folder it looks into (or `job`, for one without a folder).
    """
    from topsprof.importers.trace_files import stem_of

    path = Path(os.path.abspath(text))  # noqa: PTH100 - symbolic links keep their name; "." has none without it
    if not path.exists() and any(c in text for c in "*?["):
        while any(c in path.name for c in "*?["):
            path = path.parent
        if path == Path.cwd():
            path /= "job"
    name = path.name.removesuffix(SESSION_SUFFIX).removesuffix(PACK_SUFFIX)
    return path.with_name(stem_of(path) if name == path.name else name)


def _recover(path: Path) -> None:
    from tops_kit.collect.recovery import recover

    for message in recover(path):
        terminal.note(message)


def _cached(text: str) -> Path:
    """The session in the cache that was made of a trace, many traces or a pack; makes it if need be."""
    from topsprof.importers.trace_files import trace_files
    from topsprof.importers.working_folder import remove_leftovers

    files = trace_files(text)
    cache = cache_folder()
    name = content_key(files, Digests(cache / "digests"))
    target = cache / f"{name}{SESSION_SUFFIX}"
    if (target / "session.json").exists():
        os.utime(target)  # used now: it stays longer than others
        return target
    try:
        _make(files, target)
    except UserError:
        if not (target / "session.json").exists():  # else another process has just made it
            raise
    _bound(cache, keep=target)
    remove_leftovers(cache)
    return target


def _make(files: Sequence[Path], target: Path) -> None:
    if len(files) == 1 and _is_pack(files[0]):
        from tops_kit.session.packing import unpack

        with _temporary(target) as folder:
            unpack(files[0], folder)
            folder.rename(target)
        return
    from topsprof.importers.job import JobOptions, import_files

    with terminal.Progress("importing") as progress:
        import_files(
            files,
            target,
            JobOptions(
                workers=min(os.cpu_count() or 1, 8),
                command=tuple(sys.argv),
                report=progress.update,
            ),
        )


def _is_pack(path: Path) -> bool:
    """By its name, or by its content: `pack -o` takes any name."""
    if path.suffix == PACK_SUFFIX:
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.read(4) != _ZIP_MAGIC:
                return False
        import zipfile
    except OSError:
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "session.json" in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    from topsprof.importers.working_folder import working_folder

    folder = working_folder(target)
    folder.mkdir()
    try:
        yield folder / "session"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def content_key(files: Sequence[Path], digests: Digests) -> str:
    """A name for the content of files, and for what an import takes from their names."""
    from topsprof.importers.trace_files import rank_of

    key = hashlib.blake2b(f"{_IMPORT_VERSION}".encode(), digest_size=16)
    for path in files:
        # of several files the ledger and the attributes state the names, of one only the rank
        said = path.name if len(files) > 1 else rank_of(path)
        key.update(f"\0{said}\0{_is_pack(path)}\0{digests.of(path)}".encode())
    return key.hexdigest()


def cache_folder() -> Path:
    """The folder of the cache, made if need be: XDG_CACHE_HOME, or where the platform keeps caches, else a
    temporary one.
    """
    for folder in _cache_places():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue  # no home, or one that is read-only: the next place may do
        if os.access(folder, os.W_OK) and not folder.is_symlink():
            return folder
    raise UserError(
        "no folder to keep imported traces in; set XDG_CACHE_HOME to one, or use `topsprof import`"
    )


def _cache_places() -> tuple[Path, Path]:
    return _platform_cache(), Path(tempfile.gettempdir()) / f"topsprof-{_user()}"


def _platform_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    if named and Path(named).is_absolute():
        return Path(named) / "topsprof"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/topsprof").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir())) / "topsprof"
    return Path("~/.cache/topsprof").expanduser()


def _user() -> str:
    return str(os.getuid()) if sys.platform != "win32" else os.environ.get("USERNAME", "user")


def _bound(cache: Path, keep: Path) -> None:
    """Remove the sessions that were used longest ago until the rest fits."""
    sizes: list[tuple[float, int, Path]] = []
    for folder in cache.glob(f"*{SESSION_SUFFIX}"):
        try:
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            sizes.append((folder.stat().st_mtime, size, folder))
        except OSError:
            continue  # another process has just removed it
    total = sum(size for _, size, _ in sizes)
    for _, size, folder in sorted(sizes):
        if total <= CACHE_BYTES:
            break
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
