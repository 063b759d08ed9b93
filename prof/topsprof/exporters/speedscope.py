"""Exports to speedscope: slices as evented profiles, one a track; samples as sampled profiles, one a
thread."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.session.schema import Kind
from topsprof.exporters import assemble as asm
from topsprof.exporters import timeline
from topsprof.exporters.base import Exported, ExportOptions, FileExporter, nothing
from topsprof.exporters.codes import combine
from topsprof.exporters.frames import FrameTable, stack_paths
from topsprof.exporters.output import stream
from topsprof.exporters.timeline import NONE, Part, Timeline, TrackKey, or_none
from topsprof.importers.json_columns import floats

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

Int64s = npt.NDArray[np.int64]

STRETCH_EVENTS = 1 << 19
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "bytes": "bytes"}


class SpeedscopeExporter(FileExporter):
    """speedscope's JSON. Its own viewer counts in doubles, so times are written from the first on;
    `topsprof.originNs`, which it passes over, says when that was."""

    name = "speedscope"
    suffix = ".speedscope.json"
    help = "speedscope (.speedscope.json)"
    text = True

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        line = timeline.lay_out(timeline.load(session, selection))
        samples = timeline.load(session, selection, tables=("sample",), kinds=(Kind.INSTANT,))
        if not len(line) and not samples:
            raise nothing(session, "slice or sample")
        exported = Exported(len(line) + sum(len(part.start_ns) for part in samples))
        with stream(out, options.compress) as file:
            _Writing(session, line, samples).write(file)
        return exported


class _Writing:
    """One export under way."""

    def __init__(self, session: Session, line: Timeline, samples: list[Part]) -> None:
        self._session = session
        self._line = line
        self._frames = FrameTable()
        self._frame = self._frames.of_timeline(line)
        self._samples = samples
        self._paths = stack_paths(session, self._frames) if samples else {}
        starts = [part.start_ns for part in samples] + [line.start_ns]
        self._origin = min((int(array.min()) for array in starts if len(array)), default=0)
        self._threads = {
            (row["process_id"], row["thread_id"]): row["name"] for row in session.table("thread").to_pylist()
        }

    def write(self, file: BinaryIO) -> None:
        """Write the document."""
        frames = [
            {"name": frame.name}
            | ({} if frame.file is None else {"file": frame.file})
            | ({} if frame.line is None else {"line": frame.line})
            for frame in self._frames.frames
        ]
        head = {
            "$schema": SCHEMA,
            "exporter": "topsprof",
            "name": self._session.path.name.removesuffix(".topsprof"),
            "activeProfileIndex": 0,
            "topsprof": {"originNs": self._origin},
            "shared": {"frames": frames},
        }
        file.write(json.dumps(head, ensure_ascii=False)[:-1].encode() + b',"profiles":[')
        first = True
        for profile in (*self._evented(), *self._sampled()):
            if not first:
                file.write(b",\n")
            first = False
            for piece in profile:
                file.write(piece if isinstance(piece, bytes) else piece.data)
        file.write(b"]}\n")

    def _evented(self) -> Iterator[Iterator[bytes | npt.NDArray[np.uint8]]]:
        line = self._line
        order, bounds = timeline.tracks_by(line)
        for track, key in enumerate(line.tracks):
            yield self._track(key, order[bounds[track] : bounds[track + 1]])

    def _track(self, key: TrackKey, mine: Int64s) -> Iterator[bytes | npt.NDArray[np.uint8]]:
        """The pieces of one evented profile."""
        line = self._line
        start, end = line.start_ns[mine] - self._origin, line.end_ns[mine] - self._origin
        place = {
            "process": or_none(key.process_id),
            "thread": or_none(key.stream_id if key.on_device else key.thread_id),
        }
        yield (
            _opening(
                "evented", self._title(key), "nanoseconds", int(start.min()), int(end.max()), place=place
            )
            + b',"events":['
        )
        slices, begins, time = timeline.switches(start, end)
        frame = self._frame[mine][slices]
        for at in range(0, len(slices), STRETCH_EVENTS):
            part = slice(at, at + STRETCH_EVENTS)
            opening = begins[part]
            rows = asm.assemble(
                len(opening),
                [
                    asm.constant(b',\n{"type":"O","at":', opening),
                    asm.constant(b',\n{"type":"C","at":', ~opening),
                    asm.number(asm.INTEGER, time[part]),
                    asm.number(asm.INTEGER, frame[part], b',"frame":', b"}"),
                ],
            )
            yield rows.data if at else rows.data[1:]
        yield b"]}"

    def _title(self, key: TrackKey) -> str:
        if key.on_device:
            title = f"device {or_none(key.device_id)} stream {or_none(key.stream_id)}"
        else:
            name = self._threads.get((key.process_id, key.thread_id))
            title = f"thread {or_none(key.thread_id)}{f' {name}' if name else ''}"
        more = (
            [f"task {key.task_id}"] * (key.task_id != NONE)
            + [key.apart] * bool(key.apart)
            + ["overlapping"] * bool(key.overflow)
        )
        return f"process {or_none(key.process_id)} {title}{f' ({chr(44).join(more)})' if more else ''}"

    def _sampled(self) -> Iterator[Iterator[bytes | npt.NDArray[np.uint8]]]:
        for part in self._samples:
            process, thread = part.integers("process_id"), part.integers("thread_id")
            units = part.array("unit")
            words = [*units.dictionary.to_pylist(), None]
            unit = np.asarray(units.indices.fill_null(len(words) - 1)).astype(np.int64)
            group, first = combine(process, thread, unit)
            for number, row in enumerate(first.tolist()):
                pid, tid, code = int(process[row]), int(thread[row]), int(unit[row])
                rows = np.flatnonzero(group == number)
                yield self._samples_of(
                    part, rows[np.argsort(part.start_ns[rows], kind="stable")], pid, tid, words[code]
                )

    def _samples_of(
        self, part: Part, rows: Int64s, process: int, thread: int, unit: str | None
    ) -> Iterator[bytes | npt.NDArray[np.uint8]]:
        """The pieces of one sampled profile."""
        weights = part.array("weight").fill_null(1.0).take(pa.array(rows))
        begin = int(part.start_ns[rows[0]]) - self._origin
        name = self._threads.get((process, thread))
        title = f"process {or_none(process)} thread {or_none(thread)}{f' {name}' if name else ''}"
        total = float(np.asarray(weights).sum())
        place = {"process": or_none(process), "thread": or_none(thread)}
        stacks, code = np.unique(part.integers("stack_id")[rows], return_inverse=True)
        words = pa.array([json.dumps(self._paths.get(stack, [])) for stack in stacks.tolist()], pa.string())
        texts = pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), words)
        samples = asm.assemble(len(rows), [asm.text(texts, asm.BYTES, b",")])
        yield (
            _opening("sampled", title, _UNITS.get(unit or "", "none"), begin, begin + total, place=place)
            + b',"samples":['
        )
        yield samples.data[1:]
        yield b'],"weights":['
        yield asm.assemble(len(rows), [asm.text(floats(weights), asm.BYTES, b",")]).data[1:]
        yield b"]}"


def _opening(kind: str, title: str, unit: str, begin: float, end: float, *, place: dict[str, Any]) -> bytes:
    head = {
        "type": kind,
        "name": title,
        "unit": unit,
        "startValue": begin,
        "endValue": end,
        "topsprof": place,
    }
    return json.dumps(head, ensure_ascii=False)[:-1].encode()
