"""A trace file as a stream of decompressed bytes.

Compression is told by content, never by name: gzip (any number of members), zstd (any number of frames), or
none. A UTF-8 byte order mark is skipped. A damaged or truncated end yields what was readable and is
remembered in `damage`.
"""

from __future__ import annotations

import io
import queue
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from tops_kit.errors import TraceError

HEAD_BYTES = 65536
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_READ_BYTES = 1 << 20


class Source:
    """One trace file. `progress(n)` is told of every n bytes read from disk (compressed bytes, `size` in
    all).
    """

    def __init__(self, path: Path | str, progress: Callable[[int], None] | None = None) -> None:
        self.path = Path(path)
        self.damage: str | None = (
            None  # what is wrong with the compressed stream, once it has been read to there
        )
        self.head_damage: str | None = None  # the same of what `head` has read
        self._progress = progress
        self._head: bytes | None = None
        try:
            found = self.path.stat()
        except OSError as error:
            raise TraceError(
                f"{self.path}: {error.strerror or error}; give the path of a trace file"
            ) from error
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, and can be read but once
            raise TraceError(f"{self.path} is not a regular file; give the path of a trace file")
        self.size = found.st_size

    def head(self) -> bytes:
        """The first HEAD_BYTES decompressed bytes, byte order mark removed."""
        if self._head is None:
            quiet = Source(self.path)
            parts: list[bytes] = []
            have = 0
            for chunk in quiet._decompressed():
                parts.append(chunk)
                have += len(chunk)
                if have >= HEAD_BYTES + len(_BOM):
                    break
            self.head_damage = quiet.damage
            self._head = b"".join(parts).removeprefix(_BOM)[:HEAD_BYTES]
        return self._head

    def open(self) -> BinaryIO:
        """The decompressed bytes as a buffered binary stream; read to its end or close it."""
        return io.BufferedReader(_Stream(self._plain()), _READ_BYTES)

    def chunks(self, ahead: int = 4) -> Iterator[bytes]:
        """The decompressed bytes in pieces of at most some MB, read and decompressed in a thread up to
        `ahead` pieces ahead.
        """
        pieces: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=ahead)
        stop = threading.Event()

        def put(item: bytes | BaseException | None) -> bool:
            while not stop.is_set():
                try:
                    pieces.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def work() -> None:
            try:
                for piece in self._plain():
                    if not put(piece):
                        return
                put(None)
            except BaseException as error:  # handed to the reader, who raises it
                put(error)

        thread = threading.Thread(target=work, name="trace-reader", daemon=True)
        thread.start()
        try:
            while (item := pieces.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join()

    def _plain(self) -> Iterator[bytes]:
        """Decompressed pieces, byte order mark removed."""
        start = b""
        pieces = self._decompressed()
        for piece in pieces:
            start += piece
            if len(start) >= len(_BOM):
                break
        start = start.removeprefix(_BOM)
        if start:
            yield start
        yield from pieces

    def _decompressed(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                magic = file.read(4)
                file.seek(0)
                if magic[:2] == _GZIP:
                    yield from self._gunzip(file)
                elif magic == _ZSTD:
                    yield from self._unzstd(file)
                else:
                    yield from self._raw(file)
        except OSError as error:
            raise TraceError(
                f"{self.path}: {error.strerror or error}; check that it is a readable file"
            ) from error

    def _raw(self, file: BinaryIO) -> Iterator[bytes]:
        while piece := file.read(_READ_BYTES):
            if self._progress is not None:
                self._progress(len(piece))
            yield piece

    def _gunzip(self, file: BinaryIO) -> Iterator[bytes]:
        inflate = zlib.decompressobj(wbits=31)
        fed = False  # whether the current member has had any byte
        for piece in self._raw(file):
            data = piece
            while data:
                if not fed:
                    data = data.lstrip(b"\0")  # padding between members is allowed
                    if not data:
                        break
                try:
                    out = inflate.decompress(data, _READ_BYTES)
                except zlib.error as error:
                    self.damage = f"gzip data is damaged ({error})"
                    return
                fed = True
                if out:
                    yield out
                if inflate.eof:
                    data = inflate.unused_data
                    inflate = zlib.decompressobj(wbits=31)
                    fed = False
                else:
                    data = inflate.unconsumed_tail
                    if not data and not out:
                        break
        if fed:
            rest = inflate.flush()
            if rest:
                yield rest
            if not inflate.eof:
                self.damage = "gzip data ends too early"

    def _unzstd(self, file: BinaryIO) -> Iterator[bytes]:
        import pyarrow as pa

        counted = _Counted(file, self._progress)
        try:
            with pa.CompressedInputStream(pa.PythonFile(counted, mode="r"), "zstd") as stream:
                while piece := stream.read(_READ_BYTES):
                    yield piece
        except OSError as error:
            self.damage = f"zstd data is damaged or ends too early ({str(error).splitlines()[0]})"


class _Counted(io.RawIOBase):
    """Passes reads on and reports their size."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None] | None) -> None:
        self._file = file
        self._progress = progress

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        if self._progress is not None:
            self._progress(len(piece))
        return piece


class _Stream(io.RawIOBase):
    """An iterator of bytes as a raw stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n
