"""Where Pythons keep things: tables per version, made by `derive`, and what a Python says of itself.

From 3.13 on `_PyRuntime` begins with a table of offsets for tools like this one. What it tells counts; the
rest (the GIL's condition, asyncio's tasks, ...) comes from our table of that version.
"""

from __future__ import annotations

import struct
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError

COOKIE: Final = b"xdebugpy"
OFFSETS_BYTES: Final = 24 + 8 * 70
"""The table of 3.13; later versions have more, and are read by tables of ours, too."""

_GROUPS_313: Final = (
    "- - runtime_interp_head",
    "- interp_id interp_next interp_threads_head interp_gc interp_modules",
    "- - interp_gil gil - gil_locked gil_holder",
    "- - thread_next thread_interp thread_frame thread_ident thread_tid thread_chunk -",
    "- frame_previous frame_code frame_instr frame_locals frame_owner",
    "- code_filename - code_qualname code_linetable code_firstlineno - code_names code_kinds code_size",
    "- object_type",
    "- type_name - type_flags",
    "- tuple_items -",
    "- list_items -",
    "- dict_keys dict_values",
    "- float_value",
    "- int_tag int_digits",
    "- - bytes_data",
    "- str_state str_length str_ascii",
    "- gc_collecting",
)
"""Our names of its numbers, in their order; "-": not used."""


@cache
def known_versions() -> tuple[str, ...]:
    """The versions that there are tables of: ("3.11", ...)."""
    names = [file.stem.removeprefix("layout-") for file in Path(__file__).parent.glob("layout-*.toml")]
    return tuple(sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


@cache
def table(version: str) -> dict[str, int]:
    """The numbers of a version ("3.11"). Raises UserError for one that we don't know."""
    if version not in known_versions():
        known = known_versions()
        raise UserError(
            f"Python {version} is unknown to this topsprof, which samples {known[0]} to {known[-1]}: use "
            "one of those, or a newer topsprof"
        )
    file = Path(__file__).parent / f"layout-{version}.toml"
    return {name: int(value) for name, value in tomllib.loads(file.read_text(encoding="utf-8")).items()}


def told(offsets: bytes) -> dict[str, int]:
    """Our names -> numbers, from the table that a Python 3.13 carries (its bytes, cookie included)."""
    words = struct.unpack_from(f"<{(len(offsets) - 24) // 8}Q", offsets, 24)
    names = [name for group in _GROUPS_313 for name in group.split()]
    found = {name: value for name, value in zip(names, words, strict=False) if name != "-"}
    found["interp_collecting"] = found.pop("interp_gc") + found.pop("gc_collecting")
    gil = found.pop("gil")
    found["gil_locked"] -= gil
    found["gil_holder"] -= gil
    return found


def layout_of(version_hex: int, runtime_head: bytes) -> dict[str, int]:
    """The layout of a process. `version_hex` is its Py_Version; `runtime_head` the first OFFSETS_BYTES of its
    `_PyRuntime`. Raises UserError where it is none that we know.
    """
    version = f"{version_hex >> 24}.{version_hex >> 16 & 255}"
    if version_hex < 0x030B0000:
        raise UserError(f"Python {version} is too old to be sampled: 3.11 or later is needed")
    known = table(version)
    if version_hex >= 0x030D0000:
        cookie, told_version, free_threaded = struct.unpack_from("<8sQQ", runtime_head)
        if cookie != COOKIE:
            raise UserError(
                f"this Python {version} has no table of debug offsets that we know: use a released one"
            )
        if free_threaded:
            raise UserError(
                f"free-threaded builds (Python {version}t) can't be sampled yet: use the ordinary build"
            )
        if told_version != version_hex:
            raise UserError(
                f"this Python {version} contradicts its table of debug offsets: use a released one"
            )
        return {**known, **told(runtime_head)}
    return known
