"""Texts as the recorders write them: any text in, UTF-8 out, cut between characters, the same from C and the
twin; and bytes of C programs, which the reader replaces.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from topstx import nvtx_injection
from topstx.recorder import layout as L
from topstx.recorder.twin_names import encoded, fitting

CUTS = r"""
#include "topstx.h"
uint32_t whole(const char *text, uint32_t bytes);
uint32_t whole(const char *text, uint32_t bytes) { return topstxi_whole(text, bytes); }
uint32_t fit(const char *text, size_t bytes, uint32_t limit);
uint32_t fit(const char *text, size_t bytes, uint32_t limit) { return topstxi_fit(text, bytes, limit); }
"""
NVTX = r"""
#include "_nvtx.c"
uint32_t wide(const wchar_t *text, char *to) __attribute__((visibility("default")));
uint32_t wide(const wchar_t *text, char *to) { return (uint32_t)strlen(narrow(text, to)); }
"""
KINDS = bytes.fromhex("00 41 80 8f 90 9f a0 bf c1 c2 df e0 e1 ed ef f0 f1 f4 f5")
CHARACTERS = (chr(c).encode() for c in range(0x80, 0x110000, 64) if not 0xD800 <= c < 0xE000)
BEGINS = {character[:k] for character in CHARACTERS for k in range(1, len(character))}
"""all begins of characters: 64 in a row have the same"""


@pytest.fixture(scope="module")
def cuts(compile_c: Callable[..., Path]) -> ctypes.CDLL:
    library = ctypes.CDLL(str(compile_c(CUTS, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra")))
    library.fit.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32)
    return library


@pytest.fixture(scope="module")
def nvtx(compile_c: Callable[..., Path]) -> ctypes.CDLL:
    folder = Path(nvtx_injection.__file__).parent
    return ctypes.CDLL(str(compile_c(NVTX, f"-I{folder}", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra")))


def begun(data: bytes) -> int:
    """Bytes at the end of `data` that begin a character."""
    return next((k for k in (1, 2, 3) if data[-k:] in BEGINS), 0)


def test_a_cut_leaves_no_half_character(cuts: ctypes.CDLL) -> None:
    for data in (bytes(end) for length in range(5) for end in product(KINDS, repeat=length)):
        if cuts.whole(data, len(data)) != len(data) - begun(data):
            pytest.fail(f"{data!r}: {cuts.whole(data, len(data))}")


@given(st.text() | st.text("aé€\U0001f600"), st.integers(0, 40))
def test_fitting(cuts: ctypes.CDLL, text: str, limit: int) -> None:
    data = encoded(text)
    kept = fitting(text, limit)
    assert kept == data[: cuts.fit(data, len(data), limit)]
    assert data.startswith(kept.decode().encode()) and min(len(data), limit) - len(kept) in range(4)


@given(st.binary(), st.integers(0, 40))
def test_what_is_no_text_is_cut_by_less_than_a_character(cuts: ctypes.CDLL, data: bytes, limit: int) -> None:
    kept = cuts.fit(data, len(data), limit)
    assert kept == (len(data) if len(data) <= limit else limit - begun(data[:limit]))


@given(st.lists(st.integers(1, 0x10FFFF) | st.integers(0xD7F0, 0xE010) | st.integers(0x10FFF0, 0xFFFFFFFF)))
@example([0xD83D, 0xDE00])  # wchar_t is UTF-32: a surrogate is none of a pair
@example([0x10FFFF, 0x110000, 0xFFFFFFFF, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000])
@example([0x20AC] * 2000)
def test_wide_text(nvtx: ctypes.CDLL, text: list[int]) -> None:
    if ctypes.sizeof(ctypes.c_wchar) != 4:
        pytest.skip("wchar_t is not UTF-32 here")
    room = 4097
    to = ctypes.create_string_buffer(room)
    size = nvtx.wide((ctypes.c_uint32 * (len(text) + 1))(*text), to)
    found = to.raw[:size]
    good = "".join(chr(c) if c < 0xD800 or 0xE000 <= c < 0x110000 else "\ufffd" for c in text)
    assert good.startswith(found.decode())
    assert found == good.encode() or len(found) > room - 6


ODD = [
    "plain", "", "a\0b", "a", "\0", "\ud800", "\udc80\udcff", "é\ud83dx", "\ud83d\ude00", "\U0001f600\uffff",
    *(character * 6000 for character in "é€\U0001f600\ud800"),
    *("x" * k + "\U0001f600" * 5000 for k in range(1, 4)),
]  # fmt: skip
PROGRAM = """
import ast, pathlib, sys, topstx
for i, text in enumerate(ast.literal_eval(pathlib.Path(sys.argv[1]).read_text())):
    topstx.mark(text, payload=text)
    topstx.push_range(f"range {i}", category=text, domain=text, payload=text)
    topstx.pop_range(domain=text)
    topstx.end_range(topstx.start_range(f"start {i}", payload=text))
    topstx.mark(f"json {i}", payload={"k": text})
    topstx.counter("c" + text, "u" + text, domain=text).sample(i)
    topstx.set_thread_name(text, 1000 + i)
    topstx.set_process_name(text)
    try:
        with topstx.annotate(f"error {i}"):
            raise type("E" * (i % 4) + "\\u20ac" * 100, (Exception,), {})
    except Exception:
        pass
"""


def cut(text: str, limit: int) -> str:
    return fitting(text, limit).decode()


def test_texts_of_programs(program: Any, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text(ascii(ODD))
    process = program(PROGRAM, str(tmp_path / "texts")).only
    spelled = [encoded(text).decode() for text in ODD]
    marks, ranges = process.of(L.KIND_MARK), {record.name: record for record in process.of()}
    assert [mark.name for mark in marks[::2]] == [cut(text, 4096) for text in ODD]
    for i, (text, plain) in enumerate(zip(ODD, spelled, strict=True)):
        payload = cut(text, L.PAYLOAD_MAX)
        pushed = ranges[f"range {i}"]
        for record in (marks[2 * i], pushed, ranges[f"start {i}"]):
            assert record.payload == payload
            assert bool(record.flags & L.FLAG_TRUNCATED) == (payload != plain)
        assert pushed.domain == cut(text, 4096) and pushed.category[1] == cut(text, 1024)
        assert process.thread_names[1000 + i] == cut(text, 1024)
        assert ranges[f"error {i}"].error == cut("E" * (i % 4) + "€" * 100, 255)
    long = sum(len(text) > 4096 for text in spelled)
    # as a mark's name, a domain, a category, a thread's name and a counter's name, each once
    assert process.header["cut_names"] == 5 * long > 0
    for i, (sample, text) in enumerate(zip(process.of(L.KIND_COUNTER), ODD, strict=True)):
        assert (sample.value, sample.name, sample.unit) == (i, cut("c" + text, 1536), cut("u" + text, 256))
        assert sample.domain == cut(text, 4096)
    assert process.info["name"] == cut(ODD[-1], 65536)


def test_a_long_fact_is_cut_between_characters(program: Any) -> None:
    process = program("import topstx\ntopstx.set_process_name('\\u20ac' * 30000)").only
    assert process.info["name"] == cut("€" * 30000, 65536 - len(b"name\0"))


def test_a_name_ends_at_its_end_and_not_at_a_nul(program: Any) -> None:
    """Neither filters nor the capture range take a name for another that it begins with."""
    code = """
    import topstx
    for domain in ("a", "a\\0b", "a\\0", "\\ud800", "\\0"):
        topstx.mark(repr(domain), domain=domain)
    """
    process = program(code, domain_exclude=("a", "default")).only
    assert process.names(L.KIND_MARK) == [repr(domain) for domain in ("a\0b", "a\0", "\ud800", "\0")]


def test_a_capture_range_has_the_whole_name(program: Any) -> None:
    code = """
    import topstx
    others = [("a\\0", "d"), ("a", "d\\0"), ("a\\0b", "d"), ("a", "\\ud800")]
    for i, (name, domain) in enumerate([*others, ("a", "d"), ("z", "d")]):
        with topstx.annotate(name, domain=domain):
            topstx.mark(str(i))
    """
    capture = {"capture_name": "a", "capture_domain": "d", "capture_end": L.CAPTURE_END_STOP}
    process = program(code, recording=L.RECORDING_ARMED, **capture).only
    assert process.names(L.KIND_MARK) == ["4"]


C_PROGRAM = r"""
#include "topstx.h"
int main(void) {
    static char text[20000];
    topstx_domain domain;
    topstx_attributes a = TOPSTX_ATTRIBUTES("payload");
    memset(text, '\xBF', sizeof text - 1); /* no place to cut between characters */
    topstx_mark(text);
    a.payload = topstx_payload_string(text);
    topstx_mark_ex(&a);
    topstx_range_push_ex(&a);
    topstx_range_pop();
    memset(text, '\xED', sizeof text - 1); /* each might begin one */
    topstx_mark(text);
    domain = topstx_domain_create("d");
    topstx_domain_mark(domain, "\xE0\xA0");
    return 0;
}
"""


def test_bytes_of_c_programs(compile_c: Callable[..., Path], ring_reader: Any, tmp_path: Path) -> None:
    """What is no text is kept as it is, but for its end."""
    folder = ring_reader.create_session(tmp_path / "session")
    program = compile_c(C_PROGRAM, "-std=gnu17", "-g", "-Wall", "-Wextra", "-fsanitize=address,undefined")
    environment = {**os.environ, "TOPSTX_SESSION": str(folder)}
    environment.pop("TOPSTX_DISABLE", None)
    subprocess.run([program], env=environment, timeout=60, check=True)
    names = b"".join(path.read_bytes() for path in (folder / "names").iterdir())
    assert b"\xbf" * 4096 in names and b"\xbf" * 4097 not in names
    assert b"\xed" * 4095 in names and b"\xed" * 4096 not in names
    ring = b"".join(path.read_bytes() for path in (folder / "rings").iterdir())
    payload = struct.pack("<BH", L.MORE_STR, L.PAYLOAD_MAX)
    assert ring.count(payload + b"\xbf" * (L.MORE_DATA - len(payload))) == 2
