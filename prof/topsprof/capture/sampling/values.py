"""Values of another process as text, without running any of its code.

What is no plain value is shown as its type and address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from topsprof.capture.sampling.objects import Objects

_CELL: Final = 0x40
_HIDDEN: Final = 0x10
"""Kinds of local variables (co_localspluskinds). Hidden: of a comprehension that was inlined."""
_FREE: Final = 0x80
_KINDS_MAX: Final = 4096


@dataclass(frozen=True)
class Limits:
    """How much of a value is shown."""

    characters: int = 80
    items: int = 5
    depth: int = 2


LIMITS: Final = Limits()


def represent(objects: Objects, address: int, limits: Limits = LIMITS) -> str:
    """A value as `repr` would have it, cut where it is long; else "<Thread at 0x7f...>"."""
    return _represent(objects, address, limits, limits.depth)


def _represent(objects: Objects, address: int, limits: Limits, depth: int) -> str:
    name = objects.type_name(address)
    plain = _plain(objects, address, name, limits)
    if plain is not None:
        return plain
    if name in ("tuple", "list", "set", "frozenset", "dict"):
        return _container(objects, address, name, limits, depth)
    return f"<{name} at {address:#x}>" if name else f"<unreadable at {address:#x}>"


def _plain(objects: Objects, address: int, name: str, limits: Limits) -> str | None:
    if name == "NoneType":
        return "None"
    if name == "bool":
        return str(bool(objects.integer(address)))
    if name == "int":
        value = objects.integer(address)
        text = "" if value is None else str(value) if value.bit_length() < 4096 else hex(value)
        return _cut(text, limits.characters) if text else None
    if name == "float":
        return repr(objects.real(address))
    if name == "str":
        found = objects.long_text(address, limits.characters)
        if found is None:
            return None
        more = found[1] - len(found[0])
        return repr(found[0]) + (f"... {more} more" if more > 0 else "")
    if name in ("bytes", "bytearray"):
        return _bytes(objects, address, name, limits)
    return None


def _bytes(objects: Objects, address: int, name: str, limits: Limits) -> str | None:
    size = objects.number(address + objects.at["var_size"], 8)
    if name == "bytearray":
        return f"<bytearray of {size} bytes at {address:#x}>"
    data = (
        objects.block(address + objects.at["bytes_data"], min(max(size, 0), limits.characters))
        if size
        else b""
    )
    if data is None:
        return None
    return repr(data) + (f"... {size - len(data)} more" if size > len(data) else "")


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}... {len(text) - characters} more"


def _container(objects: Objects, address: int, name: str, limits: Limits, depth: int) -> str:
    if name == "dict":
        count = objects.length_of_dict(address)
        shown = [] if depth == 0 else list(objects.entries(address, limits.items))
        texts = [
            f"{_represent(objects, key, limits, depth - 1)}: {_represent(objects, value, limits, depth - 1)}"
            for key, value in shown
        ]
        return _bracketed("{", texts, count, "}")
    if name in ("set", "frozenset"):
        count = max(0, objects.number(address + objects.at["set_used"], 8))
        members = [] if depth == 0 else objects.members(address, limits.items)
        texts = [_represent(objects, member, limits, depth - 1) for member in members]
        if count == 0:
            return f"{name}()"
        text = _bracketed("{", texts, count, "}")
        return text if name == "set" else f"frozenset({text})"
    items, count = objects.sequence(address, limits.items if depth else 1)
    texts = [] if depth == 0 else [_represent(objects, item, limits, depth - 1) for item in items]
    if name == "tuple":
        return _bracketed("(", texts, count, ",)" if count == 1 and texts else ")")
    return _bracketed("[", texts, count, "]")


def _bracketed(begin: str, texts: list[str], count: int, end: str) -> str:
    if len(texts) < count:
        texts = [*texts, f"... {count - len(texts)} more" if texts else f"... {count}"]
    return begin + ", ".join(texts) + end


def local_variables(
    objects: Objects, frame: int, code: int, limits: Limits = LIMITS
) -> list[tuple[str, str]]:
    """(name, value) of the variables of a frame that have one, in the order of their definition."""
    at = objects.at
    names, count = objects.sequence(objects.word(code + at["code_names"]), _KINDS_MAX)
    kinds = objects.block(objects.word(code + at["code_kinds"]) + at["bytes_data"], len(names)) or b""
    slots = objects.words(frame + at["frame_locals"], len(names)) if count else []
    found = []
    for name, kind, slot in zip(names, kinds, slots, strict=False):
        text = objects.text(name)
        value = slot
        if kind & (_CELL | _FREE) and objects.type_name(slot) == "cell":
            value = objects.word(slot + at["cell_value"])
        if not value or text is None or kind & _HIDDEN:
            continue
        found.append((text, represent(objects, value, limits)))
    return found
