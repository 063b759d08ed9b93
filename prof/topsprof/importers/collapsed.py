"""Imports collapsed stacks: a line `frame;frame;frame weight` for each distinct stack, outermost frame first.

The weight is what stands after the last space, so frames may hold spaces and end in digits. A `;` that
belongs to a frame is written `\\;` (our exporter does; a backslash before it is doubled then). There are no
times: all samples are at 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import TraceError
from topsprof.importers.base import ImportOptions, Source, Tally
from topsprof.importers.stacks import Frame, StackTree

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

STRETCH_BYTES = 8 << 20
_LINE = r"^\s*(?P<stack>\S.*?)\s+(?P<weight>[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+)\s*$"
_HEAD_LINE = re.compile(_LINE)
_PASSED_OVER = re.compile(r"\s*(?:#.*)?")
_SEPARATOR = re.compile(r"(\\*);")


class CollapsedImporter:
    """Collapsed (folded) stacks, as flamegraph.pl, py-spy and async-profiler write them."""

    name = "collapsed"
    suffixes = (".collapsed", ".folded", ".txt")

    def detects(self, head: bytes, path: Path) -> bool:
        if b"\0" in head or head.lstrip()[:1] in (b"{", b"["):
            return False
        lines = head.decode("utf-8", "replace").splitlines()
        if len(head) >= 65536:
            lines = lines[:-1]  # cut off
        stacks = any(";" in line for line in lines)  # the first lines may all be stacks of one frame
        lines = [line for line in lines if not _PASSED_OVER.fullmatch(line)][:50]
        fitting = [line for line in lines if _HEAD_LINE.match(line)]
        named = path.name.removesuffix(".gz").removesuffix(".zst").endswith((".collapsed", ".folded"))
        if named:
            return len(fitting) * 2 > len(lines)
        return stacks and len(fitting) * 10 >= len(lines) * 9 > 0

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        tally = Tally(writer.ledger, self.name, source, options)
        process = options.process_ids.fresh(0)
        tree, numbers, frames = StackTree.of_process(process), dict[str, int](), list[Frame]()
        rows = 0
        for block in _blocks(source, min(STRETCH_BYTES, options.memory_bytes // 16)):
            text, bad = _decoded(block)
            tally.repaired("bad_utf8", bad)
            lines = pc.split_pattern(pa.scalar(text, pa.large_string()), "\n").values
            blank = pc.match_substring_regex(lines, r"^\s*(?:#.*)?$")
            lines = lines.filter(pc.invert(blank))
            found = pc.extract_regex(lines, _LINE)
            tally.read(len(lines))
            tally.dropped("line_without_weight", found.null_count, "no number stands at the end of the line")
            found = found.drop_null()
            if not len(found):
                continue
            stacks = _frames(found.field("stack"))
            encoded = stacks.values.dictionary_encode()
            codes = np.array(
                [_number(word, numbers, frames) for word in encoded.dictionary.to_pylist()], np.int64
            )
            node = tree.add(np.asarray(stacks.offsets).astype(np.int64), codes[np.asarray(encoded.indices)])
            columns = tree.take_rows(frames)
            if columns is not None:
                writer.append("stack", columns)
            weight = pc.cast(found.field("weight"), pa.float64())
            writer.append(
                "sample",
                {
                    "start_ns": 0,
                    "process_id": process,
                    "thread_id": 0,
                    "stack_id": node,
                    "weight": weight,
                    "unit": "samples",
                },
            )
            rows += len(found)
            tally.written(len(found))
        if not rows:
            raise TraceError(
                f"{source.path}: no line of it is 'frame;frame weight'; give a file of collapsed stacks"
            )
        if source.damage:
            tally.repaired("damaged_compression", 1, source.damage)
        writer.append(
            "process", {"process_id": [process], "pid": pa.nulls(1, pa.int64()), "name": [source.path.name]}
        )


def _blocks(source: Source, size: int) -> Iterator[bytes]:
    """Whole lines of the file, about `size` bytes at a time."""
    rest = b""
    with source.open() as stream:
        while piece := stream.read(size):
            head, newline, tail = piece.rpartition(b"\n")
            if not newline:
                rest += piece
                continue
            yield rest + head
            rest = tail
    if rest:
        yield rest


def _decoded(block: bytes) -> tuple[str, int]:
    block = block.replace(b"\r\n", b"\n")
    try:
        return block.decode(), 0
    except UnicodeDecodeError:
        text = block.decode("utf-8", "replace")
        return text, sum("\ufffd" in line for line in text.split("\n"))


def _number(text: str, numbers: dict[str, int], frames: list[Frame]) -> int:
    number = numbers.get(text)
    if number is None:
        number = numbers[text] = len(frames)
        frames.append(Frame.parse(text))
    return number


def _frames(stacks: pa.Array) -> pa.Array:
    """Each stack as a list of frames. Those with `\\;` are few: they are split one by one."""
    odd = pc.match_substring(stacks, "\\;")
    if not pc.any(odd).as_py():
        return pc.split_pattern(stacks, ";")
    split: list[list[str]] = pc.split_pattern(stacks, ";").to_pylist()
    for row in np.flatnonzero(np.asarray(odd)).tolist():
        split[row] = split_frames(stacks[row].as_py())
    return pa.array(split, pa.list_(pa.large_string()))


def split_frames(stack: str) -> list[str]:
    """The frames of one stack. Of backslashes before a `;` every pair is one; a single left over makes the
    `;` literal.

    >>> split_frames("main;operator\\\\;;leaf")
    ['main', 'operator;', 'leaf']
    """
    frames, frame, at = [], "", 0
    for found in _SEPARATOR.finditer(stack):
        slashes = len(found[1])
        frame += stack[at : found.start()] + "\\" * (slashes // 2)
        at = found.end()
        if slashes % 2:
            frame += ";"
        else:
            frames.append(frame)
            frame = ""
    return [*frames, frame + stack[at:]]
