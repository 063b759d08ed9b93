"""Imports speedscope files: evented profiles become slices, sampled ones samples with their stacks.

Slices of frames with a Python file go to table python, others become TX ranges. Each profile is a thread of
its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import TraceError
from topsprof.importers.base import ImportOptions, Source, Tally
from topsprof.importers.decimals import nanoseconds
from topsprof.importers.pairing import pair
from topsprof.importers.stacks import Frame, StackTree

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

Int64s = npt.NDArray[np.int64]

_DIGITS = {"nanoseconds": 0, "microseconds": 3, "milliseconds": 6, "seconds": 9}
_EVENT = pa.struct([("type", pa.string()), ("at", pa.string()), ("frame", pa.string())])
_PYTHON = (".py", ".pyx", ".pyi")


class SpeedscopeImporter:
    """speedscope's JSON, format 0.0.1 and later."""

    name = "speedscope"
    suffixes = (".speedscope.json", ".speedscope")

    def detects(self, head: bytes, path: Path) -> bool:
        start = head.lstrip()
        if not start.startswith(b"{"):
            return False
        return b"speedscope.app/file-format-schema.json" in head or (
            path.name.removesuffix(".gz").removesuffix(".zst").endswith(self.suffixes)
            and b'"profiles"' in head
        )

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        with source.open() as stream:
            text = stream.read()
        try:
            # Numbers stay text: doubles would round times.
            document = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"{source.path}: not valid JSON ({error}); check that the file is whole"
            ) from None
        del text
        try:
            _Import(source, writer, options).run(document)
        except (KeyError, TypeError, AttributeError, IndexError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())[:120]
            raise TraceError(
                f"{source.path}: not a speedscope file ({type(error).__name__}: {reason}); "
                "export it again with the tool that wrote it"
            ) from error


class _Import:
    """One import under way."""

    def __init__(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        self._source = source
        self._writer = writer
        self._options = options
        self._tally = Tally(writer.ledger, "speedscope", source, options)
        self._process = options.process_ids.fresh(0)
        self._frames: list[Frame] = []
        self._origin = 0
        self._tree = StackTree.of_process(self._process)

    def run(self, document: dict[str, Any]) -> None:
        self._frames = [
            Frame(
                str(frame["name"]),
                frame.get("file"),
                None if frame.get("line") is None else int(frame["line"]),
            )
            for frame in document["shared"]["frames"]
        ]
        own = document.get("topsprof")
        if isinstance(own, dict):
            self._origin = int(own.get("originNs", 0))
        names: dict[tuple[int, int], str] = {}
        for number, profile in enumerate(document["profiles"], 1):
            if not isinstance(profile, dict):
                self._tally.dropped("no_profile", 1, f"profile {number} is not an object")
                continue
            place = self._place(profile, number)
            names.setdefault(place, str(profile.get("name") or f"profile {number}"))
            digits = _DIGITS.get(profile.get("unit", "none"), 0)
            if profile["type"] == "evented":
                self._evented(profile, place, digits)
            elif profile["type"] == "sampled":
                self._sampled(profile, place, digits)
            else:
                self._tally.unsupported("profile_type", 1, f"type {profile['type']}")
        if self._source.damage:
            self._tally.repaired("damaged_compression", 1, self._source.damage)
        if names:
            self._writer.append(
                "thread",
                {
                    "process_id": [place[0] for place in names],
                    "thread_id": [place[1] for place in names],
                    "name": [*names.values()],
                },
            )
        name = document.get("name") or self._source.path.name
        self._writer.append(
            "process",
            {"process_id": [self._process], "name": [str(name)], "runtime": [document.get("exporter")]},
        )

    def _place(self, profile: dict[str, Any], number: int) -> tuple[int, int]:
        """Process and thread of a profile: what our exporter noted, else a thread of its own."""
        own = profile.get("topsprof")
        if not isinstance(own, dict):
            return self._process, number
        process, thread = own.get("process"), own.get("thread")
        return (
            self._process if process is None else self._options.process_id(int(process)),
            0 if thread is None else int(thread),
        )

    def _evented(self, profile: dict[str, Any], place: tuple[int, int], digits: int) -> None:
        events = pa.array(profile["events"], _EVENT)
        self._tally.read(len(events))
        at = self._times(events.field("at"), digits)
        frame = np.asarray(pc.cast(events.field("frame"), pa.int64()))
        type_ = events.field("type")
        is_begin = np.asarray(pc.equal(type_, "O"))
        known = is_begin | np.asarray(pc.equal(type_, "C"))
        known &= (frame >= 0) & (frame < len(self._frames))
        self._tally.dropped(
            "unknown_event", int((~known).sum()), "neither O nor C, or of a frame that is not listed"
        )
        at, frame, is_begin = at[known], frame[known], is_begin[known]
        sorted_at = np.maximum.accumulate(at) if len(at) else at
        self._tally.repaired(
            "time_goes_back", int((sorted_at != at).sum()), "such events happen when the ones before them do"
        )
        pairs = pair(np.zeros(len(at), np.int64), sorted_at, is_begin)
        self._tally.dropped("close_without_open", len(pairs.unmatched))
        self._tally.repaired(
            "close_of_another_frame",
            int((frame[pairs.begin] != frame[pairs.end]).sum()),
            "it closes the innermost open frame",
        )
        self._tally.repaired("open_without_close", len(pairs.open), "they end with the profile")
        last = int(sorted_at[-1]) if len(at) else 0
        if profile.get("endValue") is not None:
            last = max(last, int(nanoseconds(pa.array([str(profile["endValue"])]), digits)[0]))
        begin = np.concatenate((pairs.begin, pairs.open))
        end_ns = np.concatenate((sorted_at[pairs.end], np.full(len(pairs.open), last)))
        order = np.argsort(begin, kind="stable")
        begin, end_ns = begin[order], end_ns[order]
        unfinished = order >= len(pairs.begin)
        self._slices(sorted_at[begin] + self._origin, end_ns + self._origin, frame[begin], unfinished, place)
        self._tally.written(len(begin))

    def _slices(
        self,
        start: Int64s,
        end: Int64s,
        frame: Int64s,
        unfinished: npt.NDArray[np.bool_],
        place: tuple[int, int],
    ) -> None:
        python = np.array([(one.file or "").endswith(_PYTHON) for one in self._frames] or [False])[frame]
        names = pa.array([one.name for one in self._frames], pa.string())
        files = pa.array([one.file for one in self._frames], pa.string())
        lines = pa.array([one.line for one in self._frames], pa.int64())
        for is_python in (True, False):
            here = np.flatnonzero(python == is_python)
            if not len(here):
                continue
            index = pa.array(frame[here])
            columns = {
                "start_ns": start[here],
                "duration_ns": end[here] - start[here],
                "process_id": place[0],
                "thread_id": place[1],
                "name": _coded(names, index),
            }
            if is_python:
                columns |= {"file": _coded(files, index), "line": lines.take(index)}
            else:
                columns |= {
                    "category": "speedscope",
                    "style": "PushPop",
                    "args": self._places().take(index),
                    "unfinished": pa.array(unfinished[here], mask=~unfinished[here]),
                }
            self._writer.append("python" if is_python else "tx", columns)

    def _places(self) -> pa.Array:
        return pa.array(
            [
                None
                if one.file is None
                else json.dumps(
                    {"file": one.file} | ({} if one.line is None else {"line": one.line}), ensure_ascii=False
                )
                for one in self._frames
            ],
            pa.string(),
        )

    def _sampled(self, profile: dict[str, Any], place: tuple[int, int], digits: int) -> None:
        samples = pa.array(profile["samples"], pa.large_list(pa.string()))
        weights = pa.array(profile.get("weights") or [], pa.string())
        n = min(len(samples), len(weights)) if len(weights) else len(samples)
        self._tally.read(len(samples))
        self._tally.dropped("sample_without_weight", len(samples) - n)
        samples, weights = samples.slice(0, n), weights.slice(0, n)
        unit = profile.get("unit", "none")
        frames = np.asarray(pc.cast(samples.flatten(), pa.int64()))
        offsets = np.asarray(samples.offsets)
        offsets = offsets - offsets[0]
        bad = (frames < 0) | (frames >= len(self._frames))
        if bad.any():
            raise TraceError(
                f"{self._source.path}: a sample refers to frame {int(frames[bad][0])}, but only "
                f"{len(self._frames)} are listed; export it again with the tool that wrote it"
            )
        node = self._tree.add(offsets, frames)
        columns = self._tree.take_rows(self._frames)
        if columns is not None:
            self._writer.append("stack", columns)
        begin = int(nanoseconds(pa.array([str(profile.get("startValue") or 0)]), digits)[0])
        if unit in _DIGITS:
            lengths = self._weights(weights, digits, n)
            start = begin + np.cumsum(lengths) - lengths
            weight, unit = lengths.astype(np.float64), "ns"
        else:
            start = np.full(n, begin, np.int64)
            weight = np.asarray(pc.cast(weights, pa.float64())) if len(weights) else np.ones(n)
            unit = "bytes" if unit == "bytes" else "samples"
        if n:
            self._writer.append(
                "sample",
                {
                    "start_ns": start + self._origin,
                    "process_id": place[0],
                    "thread_id": place[1],
                    "stack_id": pa.array(node, mask=node < 0),
                    "weight": weight,
                    "unit": unit,
                },
            )
            self._tally.written(n)

    def _weights(self, weights: pa.Array, digits: int, n: int) -> Int64s:
        if not len(weights):
            return np.ones(n, np.int64)
        lengths = self._times(weights, digits)
        self._tally.repaired("negative_weight", int((lengths < 0).sum()), "counted as 0")
        return np.maximum(lengths, 0)

    def _times(self, texts: pa.Array, digits: int) -> Int64s:
        try:
            return nanoseconds(texts.fill_null("0"), digits)
        except TraceError as error:
            raise TraceError(
                f"{self._source.path}: {error}; export it again with the tool that wrote it"
            ) from None


def _coded(values: pa.Array, index: pa.Array) -> pa.DictionaryArray:
    encoded = values.dictionary_encode()
    return encoded.take(index)
