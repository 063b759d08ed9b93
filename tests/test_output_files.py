"""A file that is put in place when it is whole never does away with a device, a pipe, a folder, or a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tops_kit.errors import UserError
from tops_kit.output_files import place_of


def test_links_stay(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert place_of(tmp_path / "link") == Path(os.path.realpath(tmp_path)) / "file"


def test_what_no_file_takes_the_place_of(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to("pipe")
    for path, what in (
        (pipe, "a device or pipe"),
        (tmp_path / "link", "a device or pipe"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises(UserError, match=what):
            place_of(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
