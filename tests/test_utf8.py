"""Text that is no UTF-8: every reader in C, and its twin, replaces what `bytes.decode("utf-8", "replace")`
does, byte for byte, wherever the text is cut.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from topsprof.importers import scan_twin, wire
from topsprof.importers.scan import Batch, Strings
from topstx.recorder import layout

from tops_kit.collect import backend
from tops_kit.collect import journal_format as jf

CHARACTERS = [
    b"a",
    b"\x7f",
    *(c.encode() for c in "\x80\u07ff\u0800\ud7ff\ue000\ufffd\uffff\U00010000\U0010ffff"),
]
PIECES = [
    *CHARACTERS,
    *(c[:k] for c in CHARACTERS for k in range(1, len(c))),  # cut at every point
    *(bytes([b]) for b in (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xF5, 0xF8, 0xFE, 0xFF)),
    b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0", b"\xed\xa0\x80\xed\xb0\x80",  # surrogates
    b"\xc0\x80", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",  # overlong
    b"\xf4\x90\x80\x80", b"\xf4\x90", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80",  # above U+10FFFF
    b"\xe0\xa0", b"\xf0\x90\x80", b"\xf1\x80\x80", b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf",
]  # fmt: skip
ASCII = [b"\0", b"\0" * 31, b"\b", b"\f", b"\n", b"\r\t", b"\x1f", b" ", b"{}[],:", b'"', b"\\", b"\\u00e9"]
BYTES = st.lists(st.sampled_from(PIECES + ASCII) | st.binary(max_size=4), max_size=12).map(b"".join)
REGRESSION = b"\0" * 60 + b"\xe0\xa0"

_NEXT = (0x00, 0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xED, 0xFF)


def after_lead(lead: int) -> list[bytes]:
    """Sequences of up to four bytes from `lead` on, with one byte of each kind at each place."""
    ends = [bytes(end) for length in range(4) for end in product(_NEXT, repeat=length)]
    return [bytes([lead]) + end for end in ends]


def loops() -> list[Any]:
    return [backend.load(pure=pure)[0] for pure in (False, True)]


@cache
def scanners() -> list[ModuleType]:
    try:
        from topsprof.importers import _scan
    except ImportError:
        return [scan_twin]
    return [_scan, scan_twin]


# ---- the collector: payloads and names of errors in MORE slots, entries of a names file ----


def journal_of(chains: list[bytes]) -> tuple[bytes, Any]:
    """A journal of MORE slots, and where each chain begins."""
    slots, starts = [], []
    for chain in chains:
        starts.append(jf.BLOCKS_OFFSET + 32 * len(slots))
        parts = [chain[at : at + layout.MORE_DATA] for at in range(0, len(chain), layout.MORE_DATA)]
        for part in parts:
            goes_on = layout.MORE_CONTINUES if part is not parts[-1] else 0
            slots.append(struct.pack(layout.MORE_FORMAT, part, layout.KIND_MORE, len(part) | goes_on))
    return bytes(jf.BLOCKS_OFFSET) + b"".join(slots), np.array(starts, np.int64)


def payload_texts(loop: Any, texts: list[bytes], tag: int, flag: int) -> list[bytes]:
    journal, more = journal_of([struct.pack("<BH", tag, len(text)) + text for text in texts])
    rows = len(texts)
    offsets, valid = np.empty(rows + 1, np.int32), np.empty(rows, np.uint8)
    data = loop.payloads(journal, more, np.full(rows, flag, np.uint8), offsets, valid)
    assert valid.all()
    return [data[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def check_payloads(texts: list[bytes]) -> None:
    read = [text.decode("utf-8", "replace") for text in texts]
    quoted = [json.dumps(text, ensure_ascii=False).encode() for text in read]
    plain = [text.encode() for text in read]
    for loop in loops():
        assert payload_texts(loop, texts, layout.MORE_STR, 0) == quoted
        assert payload_texts(loop, texts, layout.MORE_JSON, layout.FLAG_TRUNCATED) == quoted
        assert payload_texts(loop, texts, layout.MORE_JSON, 0) == plain


def check_names(texts: list[bytes]) -> None:
    read = [text.decode("utf-8", "replace") for text in texts]
    journal, more = journal_of([struct.pack("<BH", layout.MORE_ERROR, len(text)) + text for text in texts])
    file = b""
    for number, text in enumerate(texts):
        size = (layout.ENTRY_BYTES + len(text) + 7) & ~7
        head = struct.pack(layout.ENTRY_FORMAT, size, layout.ENTRY_NAME, 0, number, len(text))
        file += (head + text).ljust(size, b"\0")
    for loop in loops():
        assert loop.errors(journal, more) == [text or "?" for text in read]
        assert loop.entries(file, len(texts)) == (len(file), False, list(range(len(texts))), read, [])


@settings(deadline=None)
@given(st.lists(BYTES, min_size=1, max_size=6))
@example([REGRESSION])
@example([b"\b\f\x0b\x7f"])
def test_collector(texts: list[bytes]) -> None:
    check_payloads(texts)
    check_names(texts)


@pytest.mark.parametrize("lead", [*range(0xC0, 0xC3), 0xDF, 0xE0, 0xE1, *range(0xEC, 0xF6), 0xFF])
def test_collector_on_every_kind_of_sequence(lead: int) -> None:
    sequences = after_lead(lead)
    check_payloads([*sequences, b"".join(sequences), b"\xf0\x90\x80".join(sequences)])


@pytest.mark.smoke
@pytest.mark.parametrize("piece", PIECES)
def test_collector_with_a_text_over_the_border_of_slots(piece: bytes) -> None:
    check_payloads(
        [b"x" * before + piece + after for before in range(24, 31) for after in (b"", b"x", b"\x80")]
    )


# ---- trace JSON: every place that holds a text ----


def scanned(module: ModuleType, data: bytes, step: int) -> tuple[dict[str, Any], dict[str, int]]:
    scanner = module.Scanner([("wanted", "s"), ("json", "j")])
    for at in range(0, len(data), step):
        scanner.feed(data[at : at + step])
    scanner.finish()
    strings = Strings()
    strings.update(scanner)
    batch = Batch(scanner.take())
    found: dict[str, Any] = {
        name: [strings.text(i) if i >= 0 else None for i in batch.column(name).tolist()]
        for name in ("name", "cat")
    }
    for key in ("wanted", "json"):
        rows, values = batch.sparse(key, np.int64)
        found[key] = dict(zip(rows.tolist(), [strings.text(i) for i in values.tolist()], strict=True))
    found["rest"] = batch.rest(np.arange(batch.rows)).to_pylist()
    found["metadata"] = [(key.decode(), json.loads(value)) for key, value in scanner.metadata()]
    return found, {code: count for code, count, _ in scanner.issues()}


def check_trace(cases: list[tuple[bytes, str, bool]], step: int) -> None:
    """`cases`: what stands between the quotes of a JSON string, what it says, was it repaired?"""
    event = b'{"ph":"X","name":"%s","cat":"c%s","args":{"wanted":"w%s","json":["%s"],"k%s":"%s"}}'
    first = cases[0][0]
    events = b",".join(event % ((raw,) * 6) for raw, _, _ in cases)
    data = b'{"a%s":["%s"],"traceEvents":[%s]}' % (first, first, events)
    text = [said for _, said, _ in cases]
    bad = 2 * cases[0][2] + 6 * sum(bad for _, _, bad in cases)
    for module in scanners():
        found, counts = scanned(module, data, step)
        assert found["name"] == text
        assert found["cat"] == ["c" + said for said in text]
        assert found["wanted"] == {i: "w" + said for i, said in enumerate(text)}
        assert [json.loads(found["json"][i]) for i in range(len(text))] == [[said] for said in text]
        assert [json.loads(rest) for rest in found["rest"]] == [{"k" + said: said} for said in text]
        assert found["metadata"] == [("a" + text[0], [text[0]])]
        assert counts.get("bad_text", 0) == bad
        assert set(counts) <= {"bad_text", "control_character"}


def raw_case(data: bytes) -> tuple[bytes, str, bool]:
    raw = data.replace(b'"', b"'").replace(b"\\", b"/")
    text = raw.decode("utf-8", "replace")
    return raw, text, text.encode() != raw


Token = bytes | int | str
"""Bytes as they are, a code unit to be written as \\uXXXX, or the letter of a short escape."""
_SHORT = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_UNITS = st.sampled_from(
    [0, 0x41, 0xE9, 0x20AC, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDC7F, 0xDC80, 0xDCA9, 0xDCC3]
)
TOKENS: st.SearchStrategy[list[Token]] = st.lists(
    st.sampled_from(PIECES)
    | _UNITS
    | st.integers(0xD800, 0xDFFF)
    | st.integers(0, 0xFFFF)
    | st.sampled_from(list(_SHORT)),
    max_size=12,
)


def escaped_case(tokens: list[Token]) -> tuple[bytes, str, bool]:
    raw, units, bytes_before = b"", [], b""
    bad = False
    for token in [*tokens, b""]:
        if isinstance(token, bytes) and token:
            raw += token
            bytes_before += token
            continue
        before = bytes_before.decode("utf-8", "replace")
        bad |= before.encode() != bytes_before
        units.append(before)
        bytes_before = b""
        if isinstance(token, int):
            raw += b"\\u%04x" % token
            high = ord(units[-2]) if len(units) > 1 and not before and len(units[-2]) == 1 else 0
            if 0xDC00 <= token <= 0xDFFF and 0xD800 <= high <= 0xDBFF:
                units[-2:] = [chr(0x10000 + ((high - 0xD800) << 10) + token - 0xDC00)]
            else:
                units.append(chr(token))
        elif isinstance(token, str):
            raw += b"\\" + token.encode()
            units.append(_SHORT[token])
    lone = [unit for unit in units if len(unit) == 1 and "\ud800" <= unit <= "\udfff"]
    return raw, "".join("\ufffd" if unit in lone else unit for unit in units), bad or bool(lone)


@settings(deadline=None)
@given(st.lists(BYTES.map(raw_case), min_size=1, max_size=4), st.integers(1, 40))
@example([raw_case(REGRESSION)], 1)
def test_trace(cases: list[tuple[bytes, str, bool]], step: int) -> None:
    check_trace(cases, step)


@settings(deadline=None)
@given(st.lists(TOKENS.map(escaped_case), min_size=1, max_size=4), st.integers(1, 40))
@example([escaped_case([0xDCC3, 0xDCA9])], 100)  # no bytes of a character
@example([escaped_case([b"\xc3", 0xDCA9])], 100)
@example([escaped_case([0xD83D, 0xDC80, 0xDC80, 0xD83D, b"\x80"])], 100)
@example([escaped_case(["\\", b"udc80"])], 100)
@example([escaped_case([0xD83D, "\\", b"udc80"])], 100)
def test_trace_with_escapes(cases: list[tuple[bytes, str, bool]], step: int) -> None:
    check_trace(cases, step)


@pytest.mark.parametrize("lead", [0xC1, 0xC2, 0xDF, 0xE0, 0xE1, *range(0xED, 0xF6), 0xFF])
def test_trace_on_every_kind_of_sequence(lead: int) -> None:
    sequences = after_lead(lead)
    check_trace([raw_case(b"".join(sequences)), *map(raw_case, sequences)], 4099)


@pytest.mark.smoke
@pytest.mark.parametrize("piece", PIECES)
def test_trace_in_single_bytes(piece: bytes) -> None:
    check_trace([raw_case(piece), raw_case(piece + b"x"), raw_case(piece * 2)], 1)


def test_trace_counts_each_repair_once() -> None:
    event = rb'{"ph": "X", "name": "\udc80", "cat": NaN, "args": {"a": [1,]}}'
    data = rb'{"\ud800": ["\udc80", NaN], "traceEvents": [%s]}' % event
    for module in scanners():
        counts = scanned(module, data, len(data))[1]
        assert counts == {"bad_text": 3, "not_a_number": 2, "extra_comma": 1}


# ---- protobuf: spans of a buffer ----


@settings(deadline=None)
@given(st.lists(BYTES, max_size=6))
@example([REGRESSION])
@example([b"\xe0", b"\xa0", b"\x80"])  # a character over the border of two spans is none
def test_wire(texts: list[bytes]) -> None:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends))[: len(texts)]
    found, _ = wire.texts(np.frombuffer(b"".join(texts), np.uint8), starts, ends)
    assert found.to_pylist() == [text.decode("utf-8", "replace") for text in texts]
