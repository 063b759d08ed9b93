"""Imports of whole files, and of many at once into one session."""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa

from tops_kit.errors import TraceError, UserError
from tops_kit.session import Ledger, SessionWriter
from tops_kit.session.ledger import LedgerEntry
from topsprof import naming
from topsprof.importers import registry
from topsprof.importers.base import ImportOptions, ProcessIds, Source
from topsprof.importers.chrome_meta import integer
from topsprof.importers.trace_files import rank_of
from topsprof.importers.working_folder import beside
from topsprof.importers.writing import FileWriter, Stage

WORKER_BYTES: Final = 600 << 20
"""What one worker holds at most, about: the memory limit of a job divided by it is the number of workers."""
DEFAULT_MEMORY_BYTES: Final = 1536 << 20
_PID: Final = re.compile(rb'"pid"\s*:\s*"?(\d{1,18})')
_ORIGIN: Final = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})')
_COLLISION_STEP: Final = 1 << 32
_NAMED_FILES: Final = 3
_DIGITS: Final = re.compile(r"\d+")
TABLE_FORMATS: Final = ("parquet", "csv")

Report = Callable[[int, int, str], None]
"""(bytes read, bytes in all, name of the file) while importing"""


@dataclass(frozen=True)
class JobOptions:
    """How to import a set of files."""

    options: ImportOptions = field(default_factory=ImportOptions)
    importer: str | None = None  # its name; None: by content
    ranks: frozenset[int] | None = None  # only these
    workers: int = 1
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    overwrite: bool = False
    command: tuple[str, ...] = ()
    report: Report | None = None


def import_files(files: Sequence[Path], target: Path, job: JobOptions) -> Ledger:
    """Import files into a new session at `target`, which appears when all is done, and not at all when it
    fails.

    Returns the session's ledger. TraceError when no file could be imported, SessionError when the session
    can't be written.
    """
    if target.exists() and not job.overwrite:
        raise naming.taken(target)
    with beside(target, job.overwrite) as folder:
        writer = SessionWriter.create(
            folder,
            kind="import",
            command=list(job.command),
            attributes={"files": [str(path) for path in files]},
        )
        writer.durable = False  # the whole is nothing until it is renamed; a lost import is made again
        try:
            _Job(files, writer, job).run()
            ledger = writer.ledger
            writer.close()
        except BaseException:
            writer.abandon()
            raise
    return ledger


class _SharedIds(ProcessIds):
    """Process numbers of one file in a job: the pid, unless another file has it."""

    def __init__(self, taken: dict[int, int], lock: threading.Lock, number: int) -> None:
        super().__init__()
        self._taken = taken
        self._lock = lock
        self._number = number

    def _claim(self, pid: int) -> int:
        with self._lock:
            key = pid
            while self._taken.setdefault(key, self._number) != self._number:
                key += _COLLISION_STEP
            return key


@dataclass
class _File:
    path: Path
    number: int  # files of one number have the same processes, and count time alike
    source: Source
    rank: int | None
    ids: ProcessIds
    shift_ns: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    attributes: dict[str, Any] = field(default_factory=dict)
    error: UserError | None = None


# What parsers and pyarrow raise on values that nobody foresaw: its own errors are ValueErrors, TypeErrors or
# KeyErrors but for a few.
_UNFORESEEN: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    EOFError,
    pa.ArrowException,
    struct.error,
)


@contextmanager
def _malformed(path: Path, importer: str) -> Iterator[None]:
    """Whatever an importer stumbles over in a file becomes a TraceError that names both; its cause stays."""
    try:
        yield
    except _UNFORESEEN as error:
        reason = " ".join(str(error).split())[:160]
        raise TraceError(
            f"{path}: not sound as a trace of type {importer} ({type(error).__name__}: {reason}); "
            "export it again with the tool that wrote it"
        ) from error


class _Stopped(BaseException):
    """Another file failed, or the user wants to stop."""


class _Job:
    def __init__(self, files: Sequence[Path], writer: SessionWriter, job: JobOptions) -> None:
        self._paths = list(files)
        self._writer = writer
        self._job = job
        self._stage = Stage(writer)
        self._taken: dict[int, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._origin: int | None = None  # what the times of shifted files count from
        self._failed: list[tuple[Path, UserError]] = []
        self._read = 0
        self._total = 1

    def run(self) -> None:
        files = self._files()
        self._total = max(sum(file.source.size for file in files), 1)
        if len(files) > 1:
            self._claim_main_processes(files)
            self._one_origin(files)
        workers = max(1, min(self._job.workers, self._job.memory_bytes // WORKER_BYTES, len(files)))
        if workers == 1:
            for file in files:
                self._import(file)
                self._check(file)
        else:
            self._in_threads(files, workers)
        self._stage.flush()
        self._summarise(files)

    def _files(self) -> list[_File]:
        files: list[_File] = []
        exports: dict[Path, int] = {}  # folder of an export of ours -> number of its first table
        for number, path in enumerate(self._paths):
            rank = rank_of(path)
            try:
                source = Source(path, self._progress(path))
                if len(self._paths) > 1 and self._is_table(source):
                    number = exports.setdefault(path.parent, number)  # noqa: PLW2901 - the first file's serves all
            except TraceError as error:
                self._bad(path, error)
                continue
            if self._job.ranks is not None:
                stated = _stated_rank(source)
                rank = rank if stated is None else stated
                if rank is None or rank not in self._job.ranks:
                    continue
            ids = _SharedIds(self._taken, self._lock, number) if len(self._paths) > 1 else ProcessIds()
            files.append(_File(path, number, source, rank, ids))
        if not files:
            raise TraceError(
                f"{self._where()}: no file to import"
                + ("; check --ranks" if self._job.ranks is not None else "")
            )
        return files

    def _is_table(self, source: Source) -> bool:
        """Whether a file is a table of our own export, which is a file for each table."""
        if self._job.importer is not None:
            return self._job.importer in TABLE_FORMATS
        try:
            head = source.head()
        except TraceError:
            return False  # told when the file is imported
        return any(registry.load(name).detects(head, source.path) for name in TABLE_FORMATS)

    def _where(self) -> str:
        return str(self._paths[0]) if len(self._paths) == 1 else f"{len(self._paths)} files"

    def _claim_main_processes(self, files: list[_File]) -> None:
        """In the order of the files, so that a job gets the same numbers however its workers run."""
        for file in files:
            try:
                found = _PID.search(file.source.head())
            except TraceError:
                continue  # told when the file is imported
            if found:
                file.ids.key(int(found[1]))

    def _one_origin(self, files: list[_File]) -> None:
        """Files whose times count from different origins, and say so, get those of the first file."""
        origins = [_time_origin(file) for file in files]
        if len(set(origins)) == 1:
            return
        self._origin = origins[0]
        for file, origin in zip(files, origins, strict=True):
            file.shift_ns = (origin or 0) - (origins[0] or 0)

    def _in_threads(self, files: list[_File], workers: int) -> None:
        with ThreadPoolExecutor(workers, "import") as pool:
            running: dict[Future[None], _File] = {pool.submit(self._import, file): file for file in files}
            try:
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        file = running.pop(future)
                        future.result()
                        self._check(file)
            except BaseException:
                self._stop.set()
                for future in running:
                    future.cancel()
                raise

    def _import(self, file: _File) -> None:
        if self._stop.is_set():
            return
        options = replace(self._job.options, rank=file.rank, process_ids=file.ids, shift_ns=file.shift_ns)
        out = FileWriter(self._stage)
        try:
            importer = registry.choose(file.source, self._job.importer)
            with _malformed(file.path, importer.name):
                importer.run(file.source, cast(SessionWriter, out), options)
        except UserError as error:
            file.error = error
            if out.rows:  # they may lie in a segment already, among rows of other files
                kept = f"{error} (the {out.rows:,} rows before that are kept)"
                file.error = type(error)(kept)
        file.ledger = out.ledger
        file.attributes = out.attributes

    def _check(self, file: _File) -> None:
        if file.error is None:
            return
        if len(self._paths) == 1 or self._job.options.on_error == "strict":
            raise file.error
        self._bad(file.path, file.error)

    def _bad(self, path: Path, error: UserError) -> None:
        if len(self._paths) == 1:
            raise error
        self._failed.append((path, error))

    def _summarise(self, files: list[_File]) -> None:
        good = [file for file in files if file.error is None]
        if not good:
            raise TraceError(
                f"{self._where()}: none of them could be imported; the first one: {files[0].error}"
            )
        self._tell_failed()
        for entry in _merged(good, many=len(self._paths) > 1):
            self._writer.ledger.count(entry.stream, f"{entry.kind}:{entry.code}", entry.count, entry.note)
        if len(good) == 1:
            for key, value in good[0].attributes.items():
                self._writer.set_attribute(key, value)
            if good[0].shift_ns:
                self._set_origin(self._origin)
            return
        self._writer.set_attribute("traces", {_label(file, good): file.attributes for file in good})
        moved = sum(file.shift_ns != 0 for file in good)
        self._writer.ledger.count(
            "import:job",
            "moved:time_origin",
            moved,
            "these files count time from another origin: shifted to that of the first file",
        )
        self._set_origin(self._origin if moved else good[0].attributes.get("time_origin_ns"))
        if len({file.number for file in good}) > 1:
            self._writer.ledger.count(
                "import:job",
                "unsupported:alignment",
                len(good),
                "each file keeps its own clock: how far they are apart is not known",
            )

    def _tell_failed(self) -> None:
        """Files that could not be imported: a line each, but one for more than a few with the same fault."""
        groups: dict[str, list[tuple[Path, str]]] = {}
        for path, error in self._failed:
            fault = str(error).removeprefix(f"{path}: ")
            groups.setdefault(_DIGITS.sub("0", fault), []).append((path, fault))
        for group in groups.values():
            if len(group) > _NAMED_FILES:
                named = ", ".join(path.name for path, _ in group[:_NAMED_FILES])
                note = f"{named} and {len(group) - _NAMED_FILES} more files: {group[0][1]}"
                self._writer.ledger.count("import:job", "dropped:file", len(group), note)
                continue
            for path, fault in group:
                self._writer.ledger.count(f"import:{path.name}", "dropped:file", 1, f"{path}: {fault}")

    def _set_origin(self, origin: int | None) -> None:
        if origin is not None:
            self._writer.set_attribute("time_origin_ns", origin)

    def _progress(self, path: Path) -> Callable[[int], None]:
        def advance(size: int) -> None:
            if self._stop.is_set():
                raise _Stopped
            with self._lock:
                self._read += size
                if self._job.report is not None:
                    self._job.report(self._read, self._total, path.name)

        return advance


def _label(file: _File, files: list[_File]) -> str:
    """What tells a file from the others: its name, or its path where another one has that name."""
    same = sum(other.path.name == file.path.name for other in files)
    return file.path.name if same == 1 else str(file.path)


def _merged(files: list[_File], *, many: bool) -> list[LedgerEntry]:
    """The ledgers of all files as one. With `many` the notes name the first file, and how many there are."""
    found: dict[tuple[str, str, str], list[tuple[_File, LedgerEntry]]] = {}
    for file in files:
        for entry in file.ledger.entries:
            found.setdefault((entry.stream, entry.kind, entry.code), []).append((file, entry))
    entries: list[LedgerEntry] = []
    for (stream, kind, code), parts in found.items():
        file, first = parts[0]
        note = first.note
        if many and not first.clean:
            others = f" and {len(parts) - 1} more files" if len(parts) > 2 else ""
            others = " and 1 more file" if len(parts) == 2 else others
            note = f"in {_label(file, files)}{others}" + (f": {note}" if note else "")
        entries.append(LedgerEntry(stream, kind, code, sum(entry.count for _, entry in parts), note))
    return entries


def _time_origin(file: _File) -> int | None:
    """What a Kineto trace says its times count from (Unix ns), which may stand at its end. None: they are
    absolute.
    """
    found = _ORIGIN.search(file.source.head())
    if found is None and b'"traceEvents"' in file.source.head():
        before = b""
        for piece in Source(file.path).chunks():
            found = _ORIGIN.search(before + piece)
            if found:
                break
            before = piece[-64:]
    return int(found[1]) if found else None


def _stated_rank(source: Source) -> int | None:
    """The rank that stands in the file's head; None when none does."""
    found = re.search(rb'"distributedInfo"\s*:\s*"?\{[^{}]*?\\?[\'"]rank\\?[\'"]\s*:\s*(\d+)', source.head())
    return integer(found[1].decode()) if found else None
