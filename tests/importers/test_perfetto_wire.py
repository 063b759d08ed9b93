"""The wire scanner: the extension and its numpy twin against the messages they were given."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topsprof.importers import wire

Field = tuple[int, int, object]  # number, wire type, value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(message: list[Field]) -> bytes:
    out = b""
    for number, kind, value in message:
        out += varint(number << 3 | kind)
        if kind == wire.VARINT:
            out += varint(value)  # type: ignore[arg-type]
        elif kind == wire.FIXED64:
            out += struct.pack("<Q", value)
        elif kind == wire.FIXED32:
            out += struct.pack("<I", value)
        else:
            out += varint(len(value)) + value  # type: ignore[arg-type,operator]
    return out


U64 = st.integers(0, (1 << 64) - 1)
NUMBER = st.integers(1, (1 << 29) - 1) | st.integers(1, 15)
FIELD = st.one_of(
    st.tuples(NUMBER, st.just(wire.VARINT), U64),
    st.tuples(NUMBER, st.just(wire.FIXED64), U64),
    st.tuples(NUMBER, st.just(wire.FIXED32), st.integers(0, (1 << 32) - 1)),
    st.tuples(NUMBER, st.just(wire.LENGTH), st.binary(max_size=200)),
)
MESSAGES = st.lists(st.lists(FIELD, max_size=6), max_size=8)


@pytest.fixture(params=["extension", "twin"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "twin":
        monkeypatch.setattr(wire, "_extension", lambda: None)
    elif wire._extension() is None:
        pytest.skip("the extension _wire is not built here")
    return str(request.param)


def laid(messages: list[list[Field]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    raw = [encode(message) for message in messages]
    ends = np.cumsum([len(one) for one in raw], dtype=np.int64)
    starts = ends - np.array([len(one) for one in raw], np.int64)
    return np.frombuffer(b"".join(raw) or b"\0", np.uint8), starts, ends


@pytest.mark.smoke
def test_fields_are_those_that_were_encoded(implementation: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(MESSAGES)
    def check(messages: list[list[Field]]) -> None:
        buffer, starts, ends = laid(messages)
        found = wire.fields(buffer, starts, ends)
        got = [
            (int(row), int(number), int(kind), buffer[a:b].tobytes() if kind == wire.LENGTH else int(value))
            for row, number, kind, value, a, b in zip(
                found.row, found.field, found.wire, found.value, found.start, found.end, strict=True
            )
        ]
        assert got == [(row, *field) for row, message in enumerate(messages) for field in message]
        assert found.damaged == 0

    check()


def test_extension_and_twin_agree_on_damaged_bytes() -> None:
    if wire._extension() is None:
        pytest.skip("the extension _wire is not built here")

    @settings(max_examples=150, deadline=None)
    @given(st.binary(min_size=1, max_size=120), st.data())
    def check(raw: bytes, data: st.DataObject) -> None:
        buffer = np.frombuffer(raw, np.uint8)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
        starts = np.array([0, *cuts], np.int64)
        ends = np.array([*cuts, len(raw)], np.int64)
        ours, twin = wire.fields(buffer, starts, ends), wire._fields(buffer, starts, ends)
        assert ours.damaged == twin.damaged
        for name in ("row", "field", "wire", "value", "start", "end"):
            assert getattr(ours, name).tolist() == getattr(twin, name).tolist()
        left, right = wire.split(buffer, 0, len(raw), 1), wire._split(buffer, 0, len(raw), 1)
        assert (left[0].tolist(), left[1].tolist(), left[2]) == (
            right[0].tolist(),
            right[1].tolist(),
            right[2],
        )

    check()


def test_split_stops_before_an_incomplete_part(implementation: str) -> None:
    whole = encode([(1, wire.LENGTH, b"abc"), (2, wire.VARINT, 7), (1, wire.LENGTH, b"defg")])
    buffer = np.frombuffer(whole, np.uint8)
    starts, ends, after = wire.split(buffer, 0, len(whole) - 1, 1)
    assert [buffer[a:b].tobytes() for a, b in zip(starts, ends, strict=True)] == [b"abc"]
    assert after == 7
    starts, ends, after = wire.split(buffer, after, len(whole), 1)
    assert buffer[starts[0] : ends[0]].tobytes() == b"defg"
    assert after == len(whole)
    bad = np.frombuffer(b"\x0a\x01x\x07", np.uint8)
    assert wire.split(bad, 0, 4, 1)[2] == -1 - 3


@given(st.lists(st.lists(U64, max_size=5), max_size=5))
@settings(max_examples=60, deadline=None)
def test_packed_scalars_are_unpacked(groups: list[list[int]]) -> None:
    for pack, unpack in ((lambda v: varint(v), wire.varints), (lambda v: struct.pack("<Q", v), wire.fixed64)):
        raw = [b"".join(map(pack, group)) for group in groups]
        ends = np.cumsum([len(one) for one in raw], dtype=np.int64)
        starts = ends - np.array([len(one) for one in raw], np.int64)
        owner, value = unpack(np.frombuffer(b"".join(raw) or b"\0", np.uint8), starts, ends)
        expected = [(i, v) for i, group in enumerate(groups) for v in group]
        assert list(zip(owner.tolist(), value.tolist(), strict=True)) == expected


def test_texts_that_are_no_utf8_are_repaired_and_counted() -> None:
    raw = np.frombuffer("héllo".encode() + b"\xff\xfe!" + b"ok", np.uint8)
    array, bad = wire.texts(raw, np.array([0, 6, 9], np.int64), np.array([6, 9, 11], np.int64))
    assert array.to_pylist() == ["héllo", "\ufffd\ufffd!", "ok"]
    assert bad == 1
