"""Names files: entries of every kind, growth, fork chains, and files that are no such thing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topstx.recorder import layout

from tops_kit.collect import backend
from tops_kit.collect.names import NamesError, ProcessNames, Texts, fork_order


def opened(process: Any, texts: Texts, *parents: ProcessNames) -> ProcessNames:
    names = ProcessNames(process.path, texts)
    names.open({parent.serial: parent for parent in parents})
    return names


def texts_of(names: ProcessNames, texts: Texts, ids: list[int]) -> list[str]:
    numbers, _ = names.take_text(np.array(ids, np.uint32))
    return texts.column(numbers).to_pylist()


@pytest.mark.smoke
def test_entries_of_every_kind(fake_process: Callable[..., Any]) -> None:
    process, texts = fake_process(), Texts()
    name, attr = process.name("möbius"), process.attr("net", "io", 0xFF112233)
    counter = process.counter("bytes", "MB")
    process.entry(layout.ENTRY_THREAD, (77).to_bytes(4, "little") + b"loader")
    process.entry(layout.ENTRY_PROCESS, b'argv\0["a"]')
    names = opened(process, texts)
    assert texts_of(names, texts, [name, counter, layout.NAME_TOO_MANY]) == [
        "möbius",
        "bytes",
        "(too many names)",
    ]
    at = np.array([attr, 0])
    assert texts.column(names.domain[at]).to_pylist() == ["net", ""]
    assert texts.column(names.category[at]).to_pylist() == ["io", None]
    assert names.color[at].tolist() == [0xFF112233, 0]
    assert texts.column(names.unit[np.array([counter])]).to_pylist() == ["MB"]
    assert names.threads == {77: "loader"}
    assert names.process == {"argv": '["a"]'}


def test_what_is_added_later_is_read_later(fake_process: Callable[..., Any]) -> None:
    process, texts = fake_process(), Texts()
    names = opened(process, texts)
    late = [process.name(f"n{i}") for i in range(500)]
    assert names.take_text(np.array(late))[1] == 500
    names.refresh()
    assert texts_of(names, texts, late) == [f"n{i}" for i in range(500)]


def test_ids_below_the_parents_count_are_the_parents(fake_process: Callable[..., Any]) -> None:
    texts = Texts()
    grand = fake_process()
    first = grand.name("first")
    parent = fake_process(parent=grand)
    second = parent.name("second")
    mixed = grand.name("after the fork")  # same id as `second`, in another file
    child = fake_process(parent=parent)
    third = child.name("third")
    files = {p.serial: ProcessNames(p.path, texts) for p in (child, parent, grand)}
    for names in files.values():
        names.read_header()
    known: dict[int, ProcessNames] = {}
    for names in fork_order(files):
        names.open(known)
        known[names.serial] = names
    assert mixed == second
    assert texts_of(known[child.serial], texts, [first, second, third]) == ["first", "second", "third"]
    assert texts_of(known[grand.serial], texts, [first, mixed]) == ["first", "after the fork"]


def test_an_orphan_of_a_fork_keeps_its_own_names(fake_process: Callable[..., Any]) -> None:
    texts, parent = Texts(), fake_process()
    theirs = parent.name("theirs")
    child = fake_process(parent=parent)
    own = child.name("own")
    names = opened(child, texts)  # the parent's file is not there
    assert texts_of(names, texts, [theirs, own]) == ["?", "own"]


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"TOPSNAM1" + b"\xff" * 5000, b"\0" * 4096])
def test_no_names_file_is_said_in_one_line(recording: Path, content: bytes) -> None:
    path = recording / "names" / layout.names_file_name(5)
    path.write_bytes(content)
    with pytest.raises(NamesError) as caught:
        ProcessNames(path, Texts()).open({})
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(garbage=st.binary(min_size=1, max_size=200), committed=st.integers(0, 2**63))
def test_garbage_after_good_entries_costs_only_what_follows(
    tmp_path_factory: Any, fake_process_class: Any, garbage: bytes, committed: int
) -> None:
    folder = tmp_path_factory.mktemp("names")
    (folder / "names").mkdir()
    process, texts = fake_process_class(folder), Texts()
    good = process.name("good")
    with process.path.open("ab") as file:
        file.write(garbage)
    process.set(committed_bytes=process.header["committed_bytes"] + min(committed, 1 << 20))
    names = opened(process, texts)
    assert texts_of(names, texts, [good]) == ["good"]


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400), kinds=st.lists(st.integers(0, 9), max_size=8))
def test_both_loops_parse_any_entries_alike(data: bytes, kinds: list[int]) -> None:
    good = b"".join(
        struct.pack(layout.ENTRY_FORMAT, 24, kind, 0, at + 2, 3) + b"a\xffb".ljust(8, b"\0")
        for at, kind in enumerate(kinds)
    )
    answers = [backend.load(pure=pure)[0].entries(good + data, 1000) for pure in (False, True)]
    assert answers[0] == answers[1]
    assert answers[0][0] >= len(good)
