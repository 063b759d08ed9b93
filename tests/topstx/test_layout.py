"""The Python layout says what the C header says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from topstx.recorder import layout as L

STRUCTS = {
    "control": (L.CONTROL_FORMAT, L.CONTROL_OFFSET),
    "ring_header": (L.RING_FORMAT, L.RING_OFFSET),
    "open": (L.OPEN_FORMAT, L.OPEN_OFFSET),
    "record": (L.RECORD_FORMAT, L.RECORD_OFFSET),
    "names_header": (L.NAMES_FORMAT, L.NAMES_OFFSET),
    "cuts_header": (L.CUTS_FORMAT, L.CUTS_OFFSET),
    "cut": (L.CUT_FORMAT, L.CUT_OFFSET),
}
PREFIXES = (
    "RECORDING_",
    "POLICY_",
    "CAPTURE_END_",
    "CLOCK_",
    "RING_",
    "KIND_",
    "FLAG_",
    "MORE_",
    "BACKEND_",
    "ENTRY_",
    "METRICS_",
    "CUTS_",
)


def header(repo_root: Path) -> str:
    return (repo_root / "tx/topstx/recorder/include/topstx_layout.h").read_text()


def test_offsets_and_sizes(compile_c: Callable[..., Path]) -> None:
    lines = []
    for name, (_, offsets) in STRUCTS.items():
        lines.append(f'printf("{name} . %zu\\n", sizeof(topstx_{name}));')
        lines += [f'printf("{name} {field} %zu\\n", offsetof(topstx_{name}, {field}));' for field in offsets]
    source = '#include <stddef.h>\n#include <stdio.h>\n#include "topstx_layout.h"\n'
    source += "int main(void) {\n%s\nreturn 0;\n}\n"
    out = subprocess.run(
        [compile_c(source % "\n".join(lines))], capture_output=True, text=True, check=True
    ).stdout
    import struct

    for line in out.splitlines():
        name, field, number = line.split()
        layout, offsets = STRUCTS[name]
        found = struct.calcsize(layout) if field == "." else offsets[field]
        assert found == int(number), line


@pytest.mark.smoke
def test_constants(repo_root: Path) -> None:
    text = header(repo_root)
    found = dict(re.findall(r"\bTOPSTX_([A-Z_]+)\s*=\s*(\d+)", text))
    found |= dict(re.findall(r"#define TOPSTX_([A-Z_]+) (\d+)u", text))
    assert len(found) > 50
    for name, value in found.items():
        assert getattr(L, name) == int(value), name
    magics = dict(re.findall(r'#define TOPSTX_(\w+_MAGIC) "(\w{8})"', text))
    assert {name: getattr(L, name).decode() for name in magics} == magics
    ours = {name for name in vars(L) if name.startswith(PREFIXES) and isinstance(getattr(L, name), int)}
    extra = {"RING_HEADER_BYTES", "MORE_DATA", "MORE_CONTINUES", "ENTRY_BYTES", "CUTS_ENTRIES_OFFSET"}
    assert ours - extra <= set(found)


@pytest.mark.smoke
def test_control_bytes() -> None:
    data = L.control_bytes(capture_name="é" * 400, domain_include=("a", "bc"))
    assert len(data) == L.PAGE
    assert data[L.CONTROL_OFFSET["domain_include"] :].startswith(b"a\0bc\0\0")
    assert data[L.CONTROL_OFFSET["domain_exclude"] - 1] == 0
