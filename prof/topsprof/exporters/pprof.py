"""Exports stacks to pprof's protobuf (profile.proto), gzipped as `go tool pprof` expects it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from topsprof.exporters.base import Exported, ExportOptions, FileExporter, nothing
from topsprof.exporters.collapsed import weighted_stacks
from topsprof.exporters.frames import FrameTable
from topsprof.exporters.output import stream
from topsprof.exporters.protobuf import encode, message, varint
from topsprof.importers.stacks import Frame

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

# Fields of profile.proto's messages.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _TIME, _DURATION = 1, 2, 4, 5, 6, 9, 10
_UNITS = {"ns": ("wall", "nanoseconds"), "bytes": ("space", "bytes"), "samples": ("samples", "count")}


class PprofExporter(FileExporter):
    """Stacks with what they weigh, innermost function first; a function is a name and a file."""

    name = "pprof"
    suffix = ".pb.gz"
    help = "pprof: samples, or self times of slices in ns (.pb.gz)"
    text = False

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        exported, table = Exported(), FrameTable()
        stacks, weights, weighed_in = weighted_stacks(session, selection, table, exported)
        if not stacks:
            raise nothing(session, "sample or slice")
        texts = _Texts()
        kind, unit = _UNITS.get(weighed_in, _UNITS["samples"])
        pieces = [encode(_SAMPLE_TYPE, message((1, texts.number(kind)), (2, texts.number(unit))))]
        for path, weight in zip(stacks, weights.tolist(), strict=True):
            places = b"".join(varint(frame + 1) for frame in reversed(path))
            pieces.append(encode(_SAMPLE, message((1, places), (2, varint(round(weight))))))
        pieces += _frames(table.frames, texts)
        pieces += [encode(_STRING, text) for text in texts.all]
        start_ns, end_ns = session.start_ns or 0, session.end_ns or 0
        pieces += [encode(_TIME, start_ns), encode(_DURATION, end_ns - start_ns)]
        with stream(out, compress=True) as file:
            file.write(b"".join(pieces))
        return exported


class _Texts:
    """The table of strings; number 0 is the empty one."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all))


def _frames(frames: list[Frame], texts: _Texts) -> list[bytes]:
    """A location for each frame, numbered from 1, and their functions."""
    functions: dict[tuple[str, str | None], int] = {}
    pieces: list[bytes] = []
    for number, frame in enumerate(frames, 1):
        function = functions.setdefault((frame.name, frame.file), len(functions) + 1)
        line = message((1, function), (2, frame.line))
        pieces.append(encode(_LOCATION, message((1, number), (4, line))))
    for (name, file), number in functions.items():
        text = texts.number(name)
        pieces.append(
            encode(_FUNCTION, message((1, number), (2, text), (3, text), (4, texts.number(file or ""))))
        )
    return pieces
