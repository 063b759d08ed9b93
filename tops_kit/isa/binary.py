"""Compiled kernels in a file (`.topsbin`): saved, and loaded as data that is checked before anything runs it.

    magic      8 bytes  "TOPSBIN" and 0x1A
    format     uint32   version of this layout
    table      uint32   version of the instruction table the code is for
    metadata   uint64   bytes of metadata
    code       uint64   bytes of code
    sha256     32 bytes over everything before and behind it
    metadata            UTF-8 JSON: {"programs": [...]}, each the fields of Program but for its arrays
    code                for each program: its code (uint16), then its locations by instruction (int32)

All numbers are little-endian. A float is written as Python's float.hex writes it: exact, also for infinities
and NaN.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from tops_kit.isa.dtypes import BY_NAME, DType
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.program import Buffer, Constant, Location, Parameter, Program, SourceFile, Variable
from tops_kit.isa.table import MAX_OPERANDS, TABLE_VERSION
from tops_kit.isa.verify import verify
from tops_kit.output_files import place_of

SUFFIX = ".topsbin"
FORMAT_VERSION = 1
MAX_FILE_BYTES = 1 << 30

_MAGIC = b"TOPSBIN\x1a"
_HEADER = struct.Struct("<8sIIQQ")
_DIGEST_BYTES = 32
_ROW_BYTES = 2 * (1 + MAX_OPERANDS)
_LOCATION_BYTES = 4
_LISTS: dict[str, type[Any]] = {
    "locations": Location,
    "files": SourceFile,
    "constants": Constant,
    "buffers": Buffer,
    "parameters": Parameter,
    "variables": Variable,
}
_NUMBERS = ("scalars", "tiles", "vectors")
_T = TypeVar("_T")


def save(programs: Sequence[Program], path: str | os.PathLike[str]) -> None:
    """Write the programs, all or nothing. BinaryError: a program is invalid, or the file can't be written.

    UserError: the path is a folder, a device or a pipe.
    """
    data = encode(programs)
    try:
        target = place_of(path)
        written = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with written.open("xb") as file:
                file.write(data)
            written.replace(target)
        finally:
            written.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise BinaryError(f"{path}: can't be written: {getattr(error, 'strerror', None) or error}") from error


def load(path: str | os.PathLike[str]) -> tuple[Program, ...]:
    """The programs of a file. BinaryError: it is missing, no topsbin, damaged, or of another version."""
    try:
        source = Path(path)
        if not source.is_file():
            raise BinaryError(f"{path}: no such file" if not source.exists() else f"{path}: not a file")
        if source.stat().st_size > MAX_FILE_BYTES:
            raise BinaryError(f"{path}: larger than any topsbin file ({MAX_FILE_BYTES} bytes)")
        data = source.read_bytes()
    except (OSError, ValueError) as error:
        raise BinaryError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from error
    return decode(data, str(path))


def encode(programs: Sequence[Program]) -> bytes:
    """The bytes of a topsbin file. BinaryError: a program that `verify` refuses."""
    code = bytearray()
    described = []
    for program in programs:
        verify(program)
        described.append(_describe(program))
        code += np.ascontiguousarray(program.code, "<u2").tobytes()
        code += np.ascontiguousarray(program.location_of, "<i4").tobytes()
    text = json.dumps({"programs": described}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    metadata = text.encode("utf-8")
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, TABLE_VERSION, len(metadata), len(code))
    return header + _digest(header, metadata + code) + metadata + code


def decode(data: bytes, name: str = "topsbin") -> tuple[Program, ...]:
    """The programs in the bytes of a file that messages call `name`. BinaryError: anything else."""
    try:
        return _decode(data)
    except BinaryError as error:
        raise BinaryError(f"{name}: {error}") from None


def _decode(data: bytes) -> tuple[Program, ...]:
    start = _HEADER.size + _DIGEST_BYTES
    if not data.startswith(_MAGIC):
        raise BinaryError("not a topsbin file")
    if len(data) < start:
        raise BinaryError("damaged: it ends within its header; compile it again")
    header = data[: _HEADER.size]
    _, version, table, metadata_bytes, code_bytes = _HEADER.unpack(header)
    if version != FORMAT_VERSION:
        raise BinaryError(f"format version {version}, this TopsKit reads {FORMAT_VERSION}; compile it again")
    if table != TABLE_VERSION:
        raise BinaryError(
            f"for version {table} of the instructions, this TopsKit runs {TABLE_VERSION}; compile it again"
        )
    body = data[start:]
    if len(body) != metadata_bytes + code_bytes:
        raise BinaryError(
            f"damaged: {len(data)} bytes instead of {start + metadata_bytes + code_bytes}; compile it again"
        )
    if _digest(header, body) != data[_HEADER.size : start]:
        raise BinaryError("damaged: its checksum does not match; compile it again")
    try:
        metadata = json.loads(body[:metadata_bytes].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BinaryError(f"metadata is no JSON: {error}") from None
    return _programs(metadata, body[metadata_bytes:])


def _digest(header: bytes, body: bytes) -> bytes:
    return hashlib.sha256(header + body).digest()


def _describe(program: Program) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": program.name,
        "arch": program.arch,
        "instructions": len(program.code),
        "strings": [_plain(text) for text in program.strings],
        "constexprs": {key: _plain(value) for key, value in program.constexprs.items()},
    }
    described |= {name: getattr(program, name) for name in _NUMBERS}
    for name, kind in _LISTS.items():
        names = [field.name for field in fields(kind)]
        described[name] = [[_plain(getattr(row, field)) for field in names] for row in getattr(program, name)]
    return described


def _plain(value: object) -> object:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, str):
        # a path that is no UTF-8 (Python holds its bytes as surrogates) becomes one that is
        return value.encode("utf-8", "backslashreplace").decode()
    return list(value) if isinstance(value, tuple) else value


def _programs(metadata: object, code: bytes) -> tuple[Program, ...]:
    described = _field(metadata, "programs", list)
    programs = []
    at = 0
    for one in described:
        count = _field(one, "instructions", int)
        end = at + count * (_ROW_BYTES + _LOCATION_BYTES)
        if count < 0 or end > len(code):
            raise BinaryError("there is less code than its metadata says")
        program = _program(one, count, code[at:end])
        verify(program)
        programs.append(program)
        at = end
    if at != len(code):
        raise BinaryError("there is more code than its metadata says")
    return tuple(programs)


def _program(described: object, count: int, code: bytes) -> Program:
    rows = np.frombuffer(code, "<u2", count * (1 + MAX_OPERANDS)).reshape(count, 1 + MAX_OPERANDS)
    location_of = np.frombuffer(code, "<i4", count, count * _ROW_BYTES)
    lists = {
        name: tuple(_row(kind, row) for row in _field(described, name, list)) for name, kind in _LISTS.items()
    }
    return Program(
        name=_text(_field(described, "name", str)),
        arch=_text(_field(described, "arch", str)),
        code=rows.astype(np.uint16),
        location_of=location_of.astype(np.int32),
        scalars=_integer(_field(described, "scalars", int)),
        tiles=_integer(_field(described, "tiles", int)),
        vectors=_integer(_field(described, "vectors", int)),
        strings=tuple(_text(text) for text in _field(described, "strings", list)),
        constexprs={_text(k): _value(v) for k, v in _field(described, "constexprs", dict).items()},
        **lists,
    )


def _field(value: object, name: str, kind: type[_T]) -> _T:
    if not isinstance(value, dict) or type(value.get(name)) is not kind:
        raise BinaryError(f"metadata has no {kind.__name__} `{name}` where one belongs")
    return cast(_T, value[name])


def _row(kind: type[Any], values: object) -> Any:
    """A dataclass from the list of its fields, each of the type that the dataclass says."""
    named = fields(kind)
    if not isinstance(values, list) or len(values) != len(named):
        raise BinaryError(f"metadata has a {kind.__name__} that is no list of {len(named)} values")
    return kind(*(_READERS[str(field.type)](value) for field, value in zip(named, values, strict=True)))


def _integer(value: object) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise BinaryError(f"metadata has {_short(value)} where an integer belongs")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise BinaryError(f"metadata has {_short(value)} where a text belongs")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise BinaryError(f"metadata has {_short(value)} where true or false belongs")
    return value


def _dtype(value: object) -> DType:
    if not isinstance(value, str) or value not in BY_NAME:
        raise BinaryError(f"metadata has {_short(value)} where an element type belongs")
    return BY_NAME[value]


def _shape(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise BinaryError(f"metadata has {_short(value)} where a shape belongs")
    return tuple(_integer(extent) for extent in value)


def _number(value: object) -> int | float:
    return _real(value) if isinstance(value, dict) else _integer(value)


def _real(value: dict[Any, Any]) -> float:
    try:
        return float.fromhex(value["float"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BinaryError(f"metadata has {_short(value)} where a float belongs") from None


def _value(value: object) -> int | float | bool | str:
    if isinstance(value, bool):
        return value
    return _text(value) if isinstance(value, str) else _number(value)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


_READERS: dict[str, Callable[[object], object]] = {
    "int": _integer,
    "str": _text,
    "bool": _truth,
    "DType": _dtype,
    "tuple[int, ...]": _shape,
    "int | float": _number,
}
