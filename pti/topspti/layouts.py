"""Packed records: little-endian, without padding: kind, version, size of the record, then its fields.

    struct header { uint8_t kind; uint8_t version; uint16_t size_bytes; };

A reader skips what it does not know by size_bytes. Names are numbers of the process's strings.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from topspti import records
from topspti.errors import PtiError, shown
from topspti.kinds import ActivityKind
from topspti.records import Record
from topspti.strings import STRINGS

HEADER: Final = struct.Struct("<BBH")


@dataclass(frozen=True, slots=True)
class Layout:
    """One version of a kind's record: its fields, which of them are strings, and its packed form."""

    kind: ActivityKind
    version: int
    record: type[Record]
    fields: tuple[str, ...]
    strings: tuple[int, ...]
    form: struct.Struct
    set_fields: tuple[Callable[[Record, Any], None], ...]
    set_others: tuple[tuple[Callable[[Record, Any], None], Any], ...]

    @property
    def size_bytes(self) -> int:
        """With its header."""
        return self.form.size

    def pack_into(self, buffer: Any, offset: int, values: tuple[Any, ...]) -> None:
        """Store a record's values, strings as their numbers, at an offset."""
        self.form.pack_into(buffer, offset, self.kind, self.version, self.form.size, *values)

    def read(self, buffer: Any, offset: int, end_offset: int) -> Record:
        """The record at an offset."""
        values = self.form.unpack_from(buffer, offset)[3:]
        out = object.__new__(self.record)  # a frozen record's own way to be made takes five times as long
        for put, value in zip(self.set_fields, values, strict=True):
            put(out, value)
        for k in self.strings:
            self.set_fields[k](out, STRINGS.text(values[k]))
        for put, value in self.set_others:
            put(out, value)
        _set_end_offset(out, end_offset)
        return out


def _setter(record: type[Record], name: str) -> Callable[[Record, Any], None]:
    """What sets a field of a record that is being made."""
    put: Callable[[Record, Any], None] = getattr(record, name).__set__
    return put


_set_end_offset = _setter(Record, "end_offset")


def _versions(record: type[Record], kind: ActivityKind) -> tuple[Layout, ...]:
    out = []
    fields: list[tuple[str, str]] = []
    for version, added in enumerate(record.LAYOUTS, 1):
        fields += [(name, code) for name, _, code in (item.partition(":") for item in added.split())]
        form = "".join("I" if code == "s" else code for _, code in fields)
        strings = tuple(k for k, (_, code) in enumerate(fields) if code == "s")
        names = tuple(name for name, _ in fields)
        others = {each.name: each.default for each in dataclasses.fields(record) if each.name not in names}
        others |= {"kind": kind, "version": version}
        out.append(
            Layout(
                kind=kind,
                version=version,
                record=record,
                fields=names,
                strings=strings,
                form=struct.Struct(f"<BBH{form}"),
                set_fields=tuple(_setter(record, name) for name in names),
                set_others=tuple((_setter(record, name), value) for name, value in others.items()),
            )
        )
    return tuple(out)


RECORDS: Final = {
    ActivityKind.DRIVER: records.ApiRecord,
    **{
        record.KIND: record
        for record in (
            records.KernelRecord,
            records.MemcpyRecord,
            records.MemsetRecord,
            records.ApiRecord,
            records.SynchronizationRecord,
            records.OverheadRecord,
            records.ExternalCorrelationRecord,
            records.GcuEventRecord,
            records.GraphRecord,
            records.MemoryRecord,
            records.HostFunctionRecord,
            records.DeviceRecord,
            records.StreamRaceRecord,
            records.KernelMetricRecord,
            records.KernelLineRecord,
            records.PcSamplingRecord,
            records.MarkerRecord,
        )
    },
}
LAYOUTS: Final = {kind: _versions(record, kind) for kind, record in RECORDS.items()}
NEWEST: Final = {kind: layouts[-1] for kind, layouts in LAYOUTS.items()}


def read_record(buffer: Any, offset: int, valid_bytes: int) -> Record | None:
    """The record at an offset of a buffer; None at the end of what is valid.

    A kind of a later version comes as a bare Record, a longer version as the newest that is known. Raises
    PtiError: there is no whole record, so this is no buffer of ours, or another's size.
    """
    if not isinstance(valid_bytes, int | np.integer):
        raise PtiError(f"valid_bytes is a number of bytes, not {shown(valid_bytes)}")
    if offset >= valid_bytes:
        return None
    if type(buffer) is not bytearray and type(buffer) is not bytes:
        view = bytes_of(buffer)
        if view is None:
            raise PtiError(f"a buffer is contiguous bytes, not {shown(buffer)}")
        buffer = view
    if offset + HEADER.size > min(valid_bytes, len(buffer)):
        raise PtiError(_broken(offset, valid_bytes))
    kind, version, size = HEADER.unpack_from(buffer, offset)
    end = offset + size
    if size < HEADER.size or end > min(valid_bytes, len(buffer)):
        raise PtiError(_broken(offset, valid_bytes))
    layouts = LAYOUTS.get(kind)
    if layouts is None:
        return Record(version=version, end_offset=end)
    layout = layouts[min(version, len(layouts)) - 1] if version else None
    if layout is None or layout.size_bytes > size:
        raise PtiError(_broken(offset, valid_bytes))
    out: Record = layout.read(buffer, offset, end)
    return out


def bytes_of(buffer: Any) -> memoryview | None:
    """The bytes of something contiguous, of any type and shape; None: it is not, or has objects."""
    try:
        view = memoryview(buffer)
        if view.format == "B" and view.ndim == 1 and view.contiguous:
            return view
        if "O" in view.format:
            return None
        return np.frombuffer(buffer, np.uint8).data
    except (TypeError, ValueError, BufferError):
        return None


def _broken(offset: int, valid_bytes: int) -> str:
    return (
        f"no activity record at byte {offset} of {valid_bytes}: give the buffer as it came to `complete`, "
        "with the valid size that came with it"
    )
