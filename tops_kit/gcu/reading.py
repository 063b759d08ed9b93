"""Reading a part's file (TOML). What is wrong with it is said in one line, with the line of the file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from tops_kit.errors import UserError
from tops_kit.gcu.figures import FIELDS, MOST_SIPS, SECTIONS, Field, Number
from tops_kit.gcu.specification import Specification

_PARTS = Path(__file__).parent / "parts"
_MOST_BYTES = 1 << 20  # of a file: it has a few thousand
_PART_KEYS = ("name", "title", "architecture", "base")
_FIGURE_KEYS = ("value", "unit", "source")


class SpecificationError(UserError):
    """A part that is not known, or a part's file with something wrong in it."""


def part_names() -> tuple[str, ...]:
    """The parts that come with the package."""
    return tuple(sorted(path.stem for path in _PARTS.glob("*.toml")))


def load(part: str | Path) -> Specification:
    """A part by its name ("s60"), or from a file of one's own.

    A file names `base` to state only what differs. Raises SpecificationError: one line with file and line.
    """
    if str(part) in part_names():
        return _File(_PARTS / f"{part}.toml").specification()
    path = Path(part)
    if (path.suffix != ".toml" and not os.path.lexists(path)) or not str(part):
        known = ", ".join(part_names())
        raise SpecificationError(f"no part {str(part)!r}: one of {known}, or the path of a .toml file")
    return _File(path).specification()


class _File:
    """One part's file: its values, and where each stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise SpecificationError(f"{path}: no regular file")
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise SpecificationError(f"{path}: more than {_MOST_BYTES} bytes")
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SpecificationError(f"{path}: not UTF-8 text (byte {error.start})") from None
        except SpecificationError:
            raise
        except (OSError, ValueError) as error:
            raise SpecificationError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        self.lines = text.splitlines()
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self._wrong_syntax(str(error))
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}

    def specification(self) -> Specification:
        """The part; raises SpecificationError."""
        part = self._part()
        base = self._base(part.get("base"))
        texts = self._texts(part, base)
        for section in self.tables:
            if section != "part" and section not in SECTIONS:
                self._fail((section,), f"unknown table [{section}]: one of {', '.join(('part', *SECTIONS))}")
        for section in SECTIONS:
            self._section(section, base)
        figures: dict[str, Any] = {**self.values, "sources": MappingProxyType(self.sources)}
        out = Specification(*texts, **figures)
        if out.l2_reserved_bytes > out.l2_bytes:
            self._fail(("memory", "l2_reserved_bytes"), "l2_reserved_bytes is more than l2_bytes")
        if out.sips > MOST_SIPS:
            self._fail(("device", "clusters"), f"{out.sips} SIPs: at most {MOST_SIPS}")
        return out

    def _texts(self, part: Mapping[str, str], base: Specification | None) -> tuple[str, str, str]:
        """Name, title, architecture."""
        for key in ("name", "architecture"):
            if key not in part and (base is None or key == "name"):
                self._fail(("part",), f'missing: {key} = "..." in [part]')
        name = part["name"]
        title = f"{name} (after {base.title})" if base else name
        architecture = part["architecture"] if base is None else part.get("architecture", base.architecture)
        return name, part.get("title", title), architecture

    def _part(self) -> Mapping[str, str]:
        part = self.tables.get("part", {})
        if not isinstance(part, dict):
            self._fail(("part",), "part has to be a table: [part]")
        for key, value in part.items():
            if key not in _PART_KEYS:
                self._fail(("part", key), f"unknown key {key!r} in [part]: one of {', '.join(_PART_KEYS)}")
            if not isinstance(value, str) or not value or not value.isprintable():
                self._fail(("part", key), f"{key} has to be a text, not {_shown(value)}")
        return part

    def _base(self, name: str | None) -> Specification | None:
        if name is None:
            return None
        if name not in part_names():
            self._fail(("part", "base"), f"no part {name!r} to base on: one of {', '.join(part_names())}")
        if self.path.parent == _PARTS:
            self._fail(("part", "base"), "a part of the package states all its figures itself")
        return load(name)

    def _section(self, section: str, base: Specification | None) -> None:
        table = self.tables.get(section, {})
        if not isinstance(table, dict):
            self._fail((section,), f"{section} has to be a table: [{section}]")
        fields = {field.name: field for field in FIELDS if field.section == section}
        for key in table:
            if key not in fields:
                self._fail((section, key), f"unknown key {key!r} in [{section}]: one of {', '.join(fields)}")
        for field in fields.values():
            if field.keys:
                self._many(field, table, base)
            elif field.name in table:
                entry = table[field.name]
                self.values[field.name] = self._figure(field, field.name, entry, (section, field.name))
            elif base:
                self.values[field.name] = getattr(base, field.name)
                self.sources[field.name] = base.sources[field.name]
            else:
                self._fail((section,), f"missing: {field.name} in [{section}] ({field.unit})")

    def _many(self, field: Field, table: Mapping[str, Any], base: Specification | None) -> None:
        place = (field.section, field.name)
        entries = table.get(field.name, {})
        if not isinstance(entries, dict):
            self._fail(place, f"{field.name} has to be a table with {', '.join(field.keys)}")
        for key in entries:
            if key not in field.keys:
                self._fail(
                    (*place, key), f"unknown key {key!r} in {field.name}: one of {', '.join(field.keys)}"
                )
        out: dict[str, Number] = {}
        for key in field.keys:
            name = f"{field.name}.{key}"
            if key in entries:
                out[key] = self._figure(field, name, entries[key], (*place, key))
            elif base:
                out[key] = getattr(base, field.name)[key]
                self.sources[name] = base.sources[name]
            else:
                self._fail(place, f"missing: {name} in [{field.section}] ({field.unit})")
        self.values[field.name] = MappingProxyType(out)

    def _figure(self, field: Field, name: str, entry: Any, place: tuple[str, ...]) -> Number:
        """A figure's value; a bare number is one of the user's own, without a source."""
        if not isinstance(entry, dict):
            entry = {"value": entry, "source": f"given in {self.path.name}"}
        for key in entry:
            if key not in _FIGURE_KEYS:
                self._fail(place, f"unknown key {key!r} in {name}: one of {', '.join(_FIGURE_KEYS)}")
        for key in ("value", "source"):
            if key not in entry:
                self._fail(place, f"missing: {key} of {name}")
        if not isinstance(entry["source"], str) or not entry["source"].strip():
            self._fail(place, f"source of {name} has to be a text, not {_shown(entry['source'])}")
        if entry.get("unit", field.unit) != field.unit:
            self._fail(place, f"unit of {name} is {field.unit!r}, not {_shown(entry['unit'])}")
        self.sources[name] = entry["source"].strip()
        return self._number(field, name, entry["value"], place)

    def _number(self, field: Field, name: str, value: Any, place: tuple[str, ...]) -> Number:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._fail(place, f"{name} has to be a number, not {_shown(value)}")
        if field.whole and not isinstance(value, int):
            self._fail(place, f"{name} = {value}: has to be a whole number ({field.unit})")
        if not field.least <= value <= field.most:
            allowed = f"at least {field.least}" if value < field.least else f"at most {field.most}"
            self._fail(place, f"{name} = {value}: has to be {allowed} ({field.unit})")
        return value if field.whole else float(value)

    def _wrong_syntax(self, message: str) -> NoReturn:
        found = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        if not found:
            raise SpecificationError(f"{self.path}: {message}") from None
        line = found[1] or str(max(len(self.lines), 1))
        raise SpecificationError(f"{self.path}:{line}: {message[: found.start()]}") from None

    def _fail(self, place: tuple[str, ...], message: str) -> NoReturn:
        raise SpecificationError(f"{self.path}:{self._line(place)}: {message}")

    def _line(self, place: tuple[str, ...]) -> int:
        """The line of a key, else of the nearest table around it; 1 where the file has neither."""
        best, best_depth = 1, 0
        section: tuple[str, ...] = ()
        for number, line in enumerate(self.lines, 1):
            header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
            key = re.match(r"\s*([\w.\"' -]+?)\s*=", line)
            if header:
                section = here = _names(header[1])
            elif key:
                here = section + _names(key[1])
            else:
                continue
            depth = _common(place, here)
            if depth == len(here) and depth > best_depth:
                best, best_depth = number, depth
        return best


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] == b[depth]:
        depth += 1
    return depth


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
