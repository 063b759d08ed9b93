"""Files of saved launches (`.topslaunch`): a kernel with all that it was launched with, as data.

    magic      8 bytes  "TOPSLCH" and 0x1A
    format     uint32   version of this layout
    crc32      uint32   of the header
    size       uint64   bytes of the header
    header              UTF-8 JSON, docs/session-format.md says of what
    pieces              the program (a .topsbin) and memory, each where the header says, with its CRC-32
    outcome             once the launch has ended: "OUTCOME" and 0x1A, uint32 CRC-32, uint32 size, UTF-8 JSON

All numbers are little-endian. Pieces begin at multiples of 64, counted from the beginning of the file (the
header's end) and of the pieces; what is between is 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from tops_kit.errors import UserError

FOLDER: Final = "launches"  # of a session
SUFFIX: Final = ".topslaunch"
REQUEST: Final = "request.json"  # what to save, while it is recorded
REFUSED: Final = "refused"  # lines about what was not saved, while it is recorded
FORMAT_VERSION: Final = 1
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

_MAGIC: Final = b"TOPSLCH\x1a"
_HEADER: Final = struct.Struct("<8sIIQ")
_OUTCOME_MAGIC: Final = b"OUTCOME\x1a"
_OUTCOME: Final = struct.Struct("<8sII")
_ALIGN: Final = 64
_MOST_HEADER: Final = 64 << 20
_MOST_OUTCOME: Final = 16 << 20


class LaunchFileError(UserError):
    """A file of a saved launch that is missing, damaged, or of another version."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """What a file says of a launch: `header`, and `outcome` (None: it had not ended when the program did)."""

    path: Path
    header: Mapping[str, Any]
    outcome: Mapping[str, Any] | None
    size_bytes: int
    _begin: int  # of the pieces

    @property
    def name(self) -> str:
        """The launch's name in its session."""
        return self.path.name.removesuffix(SUFFIX)

    def piece(self, about: object) -> bytes:
        """The bytes that an entry {offset, size, crc32} of the header names. Raises LaunchFileError."""
        offset, size, crc = (_count(self.path, about, key) for key in ("offset", "size", "crc32"))
        with _reading(self.path), self.path.open("rb") as file:
            if self._begin + offset + size > self.size_bytes:
                raise _damaged(self.path, "it is cut short")
            file.seek(self._begin + offset)
            data = file.read(size)
        if len(data) != size or zlib.crc32(data) != crc:
            raise _damaged(self.path, "a checksum does not match")
        return data

    def pieces(self) -> list[object]:
        """The entries of all pieces: the program first. Raises LaunchFileError."""
        memory = self.header.get("memory")
        if not isinstance(memory, list):
            raise _damaged(self.path, "its header names no memory")
        return [self.header.get("program"), *memory]

    def verify(self) -> None:
        """Compare everything with its checksum. Raises LaunchFileError."""
        for about in self.pieces():
            self.piece(about)


def read(path: str | os.PathLike[str]) -> LaunchFile:
    """A file's header and outcome; pieces are read when they are asked for. Raises LaunchFileError."""
    path = Path(path)
    if not path.is_file():
        raise LaunchFileError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    with _reading(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(_HEADER.size)
        if len(first) < _HEADER.size or not first.startswith(_MAGIC):
            raise LaunchFileError(f"{path}: no saved launch")
        _, version, crc, length = _HEADER.unpack(first)
        if version != FORMAT_VERSION:
            raise LaunchFileError(
                f"{path}: format version {version}, this TopsKit reads {FORMAT_VERSION}: save it again"
            )
        if length > min(size, _MOST_HEADER):
            raise _damaged(path, "its header is cut short")
        header = _object(path, file.read(length), crc)
        begin = _aligned(_HEADER.size + length)
        return LaunchFile(path, header, _outcome(path, file, begin, header, size), size, begin)


def _outcome(
    path: Path, file: BinaryIO, begin: int, header: Mapping[str, Any], size: int
) -> Mapping[str, Any] | None:
    end = begin + _count(path, header, "pieces_size")
    if end > size:
        raise _damaged(path, "it is cut short")
    if end == size:
        return None
    file.seek(end)
    head = file.read(_OUTCOME.size)
    if len(head) < _OUTCOME.size or not head.startswith(_OUTCOME_MAGIC):
        raise _damaged(path, "what follows its memory is no outcome")
    _, crc, length = _OUTCOME.unpack(head)
    if end + _OUTCOME.size + length != size or length > _MOST_OUTCOME:
        raise _damaged(path, "its outcome is cut short")
    return _object(path, file.read(length), crc)


def create(
    folder: Path,
    name: str,
    header: Mapping[str, Any],
    program: bytes,
    memory: Iterable[tuple[dict[str, Any], bytes | memoryview]],
) -> Path:
    """Write a launch as `name`-N, N the lowest that is free, and return the file's path; it appears whole.

    `memory`: for each piece what the header says of it, and its bytes. Raises OSError.
    """
    at = 0
    about: list[dict[str, Any]] = []
    pieces: list[tuple[dict[str, Any], bytes | memoryview]] = [({}, program), *memory]
    for entry, data in pieces:
        about.append({**entry, "offset": at, "size": len(data), "crc32": zlib.crc32(data)})
        at = _aligned(at + len(data))
    whole = {**header, "program": about[0], "memory": about[1:], "pieces_size": at}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    temporary = folder / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(_HEADER.pack(_MAGIC, FORMAT_VERSION, zlib.crc32(text), len(text)))
            file.write(text)
            _fill(file)
            begin = file.tell()
            for entry, (_, data) in zip(about, pieces, strict=True):
                assert file.tell() == begin + entry["offset"]
                file.write(data)
                _fill(file)
        number = 1
        while True:
            path = folder / f"{name}-{number}{SUFFIX}"
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
                return path
            number += 1
    finally:
        temporary.unlink(missing_ok=True)


def add_outcome(path: Path, outcome: Mapping[str, Any]) -> None:
    """Say how a saved launch ended. Raises OSError."""
    text = json.dumps(outcome, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    with path.open("ab") as file:
        file.write(_OUTCOME.pack(_OUTCOME_MAGIC, zlib.crc32(text), len(text)) + text)


def in_session(session: Path) -> list[Path]:
    """The files of a session's saved launches, by name."""
    try:
        names = [path.name for path in (session / FOLDER).iterdir()]
    except OSError:
        return []  # it has none
    found = [name for name in names if name.endswith(SUFFIX) and is_name(name.removesuffix(SUFFIX))]
    return [session / FOLDER / name for name in sorted(found, key=_order)]


def is_name(name: str) -> bool:
    """Whether it can be the name of a launch: letters of ASCII, digits and `_ . -`, so no path."""
    return NAME.fullmatch(name) is not None


def _order(name: str) -> tuple[str, int, str]:
    kernel, _, number = name.removesuffix(SUFFIX).rpartition("-")
    return kernel, int(number) if number.isdecimal() else 0, name


def _fill(file: BinaryIO) -> None:
    file.write(bytes(_aligned(file.tell()) - file.tell()))


def _aligned(number: int) -> int:
    return -(-number // _ALIGN) * _ALIGN


def _count(path: Path, about: object, key: str) -> int:
    value = about.get(key) if isinstance(about, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise _damaged(path, f"its header has no {key}")
    return value


def _object(path: Path, data: bytes, crc: int) -> Mapping[str, Any]:
    if zlib.crc32(data) != crc:
        raise _damaged(path, "a checksum does not match")
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is no JSON") from None
    if not isinstance(value, dict):
        raise _damaged(path, "its header is no JSON object")
    return value


def _damaged(path: Path, why: str) -> LaunchFileError:
    return LaunchFileError(f"{path} is damaged: {why}; save the launch again")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LaunchFileError(f"{path} can't be read: {error.strerror or error}") from error
