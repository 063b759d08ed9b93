"""Reads Python objects of another process: names, numbers, containers, attributes.

The process runs on meanwhile, so anything may be torn: whatever makes no sense is None or left out, and
nothing that is read decides how much is read without a bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

_ITEMS_MAX: Final = 1 << 20
_MODULE_ITEMS_MAX: Final = 1 << 16
_TEXT_MAX: Final = 1 << 16
_MANAGED_DICT: Final = 1 << 4
_INLINE_VALUES: Final = 1 << 2
_HEAP_TYPE: Final = 1 << 9
_LONG_SUBCLASS: Final = 1 << 24
_DIGIT_BITS: Final = 30


class Memory(Protocol):
    """What reads memory: `extension.Process`."""

    def read(self, address: int, size_bytes: int, /) -> bytes | None: ...

    def read_each(self, addresses: list[int], size_bytes: int, /) -> list[bytes | None]: ...


class Objects:
    """The objects of one process. Addresses are ints; 0 is none."""

    def __init__(self, memory: Memory, layout: Mapping[str, int], version: str) -> None:
        self._memory = memory
        self.at = layout
        self._minor = int(version.split(".")[1])
        self._type_names: dict[int, str] = {}

    def block(self, address: int, size_bytes: int) -> bytes | None:
        """Memory at an address; None where it can't be read."""
        if address <= 4096 or address >= 1 << 56 or not 0 <= size_bytes <= 1 << 26:
            return None
        return self._memory.read(address, size_bytes)

    def word(self, address: int) -> int:
        """The 8 bytes at an address; 0 where they can't be read."""
        block = self.block(address, 8)
        return int.from_bytes(block, "little") if block else 0

    def number(self, address: int, size_bytes: int = 4) -> int:
        """A signed integer of C; 0 where it can't be read."""
        block = self.block(address, size_bytes)
        return int.from_bytes(block, "little", signed=True) if block else 0

    def words(self, address: int, count: int) -> list[int]:
        """`count` words; [] where they can't be read."""
        if not 0 < count <= _ITEMS_MAX:
            return []
        block = self.block(address, 8 * count)
        return list(struct.unpack(f"<{count}Q", block)) if block else []

    def type_of(self, address: int) -> int:
        """The address of an object's type; 0: unreadable."""
        return self.word(address + self.at["object_type"])

    def type_name(self, address: int) -> str:
        """The name of an object's type, as C has it ("_asyncio.Task", "Thread"); "" if unreadable."""
        kind = self.type_of(address)
        if kind not in self._type_names:
            self._type_names[kind] = self.c_text(self.word(kind + self.at["type_name"])) if kind else ""
        return self._type_names[kind]

    def c_text(self, address: int) -> str:
        """A text of C's; "" where it can't be read."""
        for size in (256, 32, 8):  # less, where the text ends just before memory does
            block = self.block(address, size)
            if block is not None:
                return block.partition(b"\0")[0].decode("utf-8", "replace")
        return ""

    def flags_of_type(self, kind: int) -> int:
        """tp_flags."""
        return self.word(kind + self.at["type_flags"])

    def text(self, address: int) -> str | None:
        """The value of a str, cut at 65536 characters; None where it is none."""
        found = self.long_text(address, _TEXT_MAX)
        return None if found is None else found[0]

    def long_text(self, address: int, longest: int) -> tuple[str, int] | None:
        """The first `longest` characters of a str, and how many it has."""
        at = self.at
        head = self.block(address, at["str_ascii"])
        if head is None or self.type_name(address) != "str":
            return None
        length = int.from_bytes(head[at["str_length"] : at["str_length"] + 8], "little", signed=True)
        state = int.from_bytes(head[at["str_state"] : at["str_state"] + 4], "little")
        kind, compact, ascii_only = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if not compact or kind not in (1, 2, 4) or length < 0:
            return None
        data = address + at["str_ascii" if ascii_only else "str_compact"]
        block = self.block(data, min(length, longest) * kind) if length else b""
        if block is None:
            return None
        return block.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "replace"), length

    def integer(self, address: int) -> int | None:
        """The value of an int (or bool); None where it is none, or has more than 1000 digits of 30 bits."""
        at = self.at
        if not self.flags_of_type(self.type_of(address)) & _LONG_SUBCLASS:
            return None
        tag = self.number(address + at["int_tag"], 8)
        if self._minor >= 12:
            count, negative = tag >> 3, tag & 3 == 2
        else:
            count, negative = abs(tag), tag < 0
        if not 0 <= count <= 1000:
            return None
        block = self.block(address + at["int_digits"], 4 * count) if count else b""
        if block is None:
            return None
        value = 0
        for place, digit in enumerate(struct.unpack(f"<{count}I", block)):
            value |= digit << _DIGIT_BITS * place
        return -value if negative else value

    def real(self, address: int) -> float | None:
        """The value of a float."""
        block = self.block(address + self.at["float_value"], 8)
        return float(struct.unpack("<d", block)[0]) if block else None

    def sequence(self, address: int, longest: int = _ITEMS_MAX) -> tuple[list[int], int]:
        """The first items of a tuple or list, and how many it has; ([], 0) where it is neither."""
        name = self.type_name(address)
        count = self.number(address + self.at["var_size"], 8)
        if count <= 0 or name not in ("tuple", "list"):
            return [], 0
        if name == "tuple":
            items = address + self.at["tuple_items"]
        else:
            items = self.word(address + self.at["list_items"])
        return self.words(items, min(count, longest)), count

    def members(self, address: int, longest: int = _ITEMS_MAX) -> list[int]:
        """The members of a set or frozenset."""
        at = self.at
        if self.type_name(address) not in ("set", "frozenset"):
            return []
        mask = self.number(address + at["set_mask"], 8)
        used = self.number(address + at["set_used"], 8)
        if not 0 <= mask < _ITEMS_MAX or used <= 0:
            return []
        entries = self.words(self.word(address + at["set_table"]), 2 * (mask + 1))
        # an entry is (key, hash); a deleted one has a key that stands for none, and the hash -1
        found = [
            key
            for key, mark in zip(entries[::2], entries[1::2], strict=True)
            if key and mark != (1 << 64) - 1
        ]
        return found[:longest]

    def length_of_dict(self, address: int) -> int:
        """How many entries a dict has."""
        return self.number(address + self.at["dict_used"], 8)

    def entries(self, address: int, longest: int = _ITEMS_MAX) -> Iterator[tuple[int, int]]:
        """(key, value) of a dict, in its order."""
        at = self.at
        values = self.word(address + at["dict_values"])
        yield from self._entries(
            self.word(address + at["dict_keys"]), values + at["values_items"] if values else 0, longest
        )

    def _entries(self, keys: int, values: int, longest: int) -> Iterator[tuple[int, int]]:
        """Of a table of keys, with its values there or, for attributes, at `values`."""
        at = self.at
        head = self.block(keys, at["keys_indices"])
        if head is None:
            return
        count = int.from_bytes(head[at["keys_entries"] : at["keys_entries"] + 8], "little")
        general = head[at["keys_kind"]] == 0
        log2_bytes = head[at["keys_log2_bytes"]]
        if not 0 < count <= _ITEMS_MAX or log2_bytes > 40:
            return
        width = 3 if general else 2
        table = self.words(keys + at["keys_indices"] + (1 << log2_bytes), count * width)
        apart = self.words(values, count) if values else []
        for row in range(len(table) // width):
            key = table[row * width + (1 if general else 0)]
            value = (apart[row] if row < len(apart) else 0) if values else table[row * width + width - 1]
            if key and value:
                yield key, value
                longest -= 1
                if longest == 0:
                    return

    def item(self, dictionary: int, key: str) -> int:
        """The value of a key that is an ASCII str; 0: none."""
        return self.items(dictionary, {key}).get(key, 0)

    def items(self, dictionary: int, keys: set[str]) -> dict[str, int]:
        """The values of some keys that are ASCII str. All keys of the dict are read at once."""
        at = self.at
        entries = list(self.entries(dictionary, _MODULE_ITEMS_MAX))
        data, length = at["str_ascii"], at["str_length"]
        wanted: dict[int, list[bytes]] = {len(key): [] for key in keys}
        for key in keys:
            wanted[len(key)].append(key.encode("ascii"))
        found: dict[str, int] = {}
        heads = self._memory.read_each([name for name, _ in entries], data) if entries else []
        for (name, value), head in zip(entries, heads, strict=True):
            size = int.from_bytes(head[length : length + 8], "little") if head else 0
            for expected in wanted.get(size, ()) if head else ():
                text = expected.decode("ascii")
                if self.block(name + data, size) == expected and self.text(name) == text:
                    found[text] = value
        return found

    def attributes(self, address: int) -> Iterator[tuple[str, int]]:
        """The attributes of an instance: (name, value)."""
        kind = self.type_of(address)
        flags = self.flags_of_type(kind)
        entries: Iterator[tuple[int, int]] = iter(())
        if flags & _MANAGED_DICT:
            entries = self._managed(address, kind, flags)
        else:
            offset = self.number(kind + self.at["type_dictoffset"], 8)
            if 0 < offset < 1 << 16:
                dictionary = self.word(address + offset)
                entries = self.entries(dictionary, _MODULE_ITEMS_MAX) if dictionary else entries
        for name, value in entries:
            text = self.text(name)
            if text is not None:
                yield text, value

    def _managed(self, address: int, kind: int, flags: int) -> Iterator[tuple[int, int]]:
        """Attributes that lie before an object or, from 3.13 on, in it, until someone wants its __dict__."""
        keys = self.word(kind + self.at["heap_keys"]) if flags & _HEAP_TYPE else 0
        dictionary, values = self.word(address - 24), 0
        if self._minor == 11:
            values = self.word(address - 32)
        elif self._minor == 12 and dictionary & 1:
            dictionary, values = 0, dictionary + 1
        elif self._minor >= 13 and not dictionary and flags & _INLINE_VALUES:
            values = address + self.number(kind + self.at["type_basicsize"], 8) + self.at["values_items"]
        if values and keys and not dictionary:
            return self._entries(keys, values, _MODULE_ITEMS_MAX)
        return self.entries(dictionary, _MODULE_ITEMS_MAX) if dictionary else iter(())

    def attribute(self, address: int, name: str) -> int:
        """One attribute of an instance; 0: none."""
        return next((value for key, value in self.attributes(address) if key == name), 0)

    def modules(self, interpreter: int) -> int:
        """sys.modules of the interpreter at an address."""
        return self.word(interpreter + self.at["interp_modules"])

    def module_dict(self, interpreter: int, name: str) -> int:
        """The namespace of a module; 0: not imported."""
        module = self.item(self.modules(interpreter), name)
        return self.word(module + self.at["module_dict"]) if module else 0

    def interpreters(self, runtime: int) -> list[int]:
        """The addresses of the interpreters, the main one last."""
        found: list[int] = []
        address = self.word(runtime + self.at["runtime_interp_head"])
        while address and address not in found and len(found) < 1024:
            found.append(address)
            address = self.word(address + self.at["interp_next"])
        return found
