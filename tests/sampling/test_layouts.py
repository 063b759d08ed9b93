"""The tables of layouts: as derived from the Pythons that are here, and as these say themselves."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from topsprof.capture.sampling import derive, layouts, target

from tops_kit.errors import UserError


def test_each_table_is_what_its_python_gives(python: str) -> None:
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    try:
        version, layout = derive.derive(python)
    except UserError as error:
        if "no internal headers" in str(error):
            pytest.skip(str(error))
        raise
    assert layout == layouts.table(version)
    folder = Path(layouts.__file__).parent
    assert (folder / f"layout-{version}.toml").read_text(encoding="utf-8") == derive.text(version, layout)


def test_what_a_python_says_is_what_our_table_has(start: Any) -> None:
    """From 3.13 on the process tells most of it; here both are there to be compared."""
    program = start("print('ready')\ninput()\n")
    found = target.find(program.pid)
    version = ".".join(found.version.split(".")[:2])
    assert found.layout == layouts.table(version)


def test_derive_refuses_what_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert derive.main(["-o", str(tmp_path), "/bin/true"]) == 2
    assert "does not answer" in capsys.readouterr().err


HEAD_313 = struct.pack("<8sQQ", layouts.COOKIE, 0x030D00F0, 0) + bytes(layouts.OFFSETS_BYTES - 24)


@pytest.mark.parametrize(
    ("version", "head", "message"),
    [
        (0x030A0BF0, b"", "too old"),
        (0x030D00F0, bytes(layouts.OFFSETS_BYTES), "no table of debug offsets"),
        (0x030D00F0, struct.pack("<8sQQ", layouts.COOKIE, 0x030D01F0, 0), "contradicts"),
        (0x030D00F0, struct.pack("<8sQQ", layouts.COOKIE, 0x030D00F0, 1), "free-threaded"),
        (0x030E00F0, struct.pack("<8sQQ", layouts.COOKIE, 0x030E00F0, 0), "3.14 is unknown"),
        (0x030E00F0, struct.pack("<8sQQ", layouts.COOKIE, 0x030E00F0, 1), "3.14 is unknown"),
        (0x030F00A1, bytes(layouts.OFFSETS_BYTES), "3.15 is unknown"),
        (0x04000000, struct.pack("<8sQQ", layouts.COOKIE, 0x04000000, 0), "4.0 is unknown"),
    ],
)
def test_pythons_that_are_not_known_are_refused(version: int, head: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        layouts.layout_of(version, head)
    assert "\n" not in str(error.value)
