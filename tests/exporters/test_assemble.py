"""The row assembler: the extension and its twin against a plain writing of each kind of piece."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topsprof.exporters import assemble as asm

I64 = st.integers(-(1 << 63), (1 << 63) - 1)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def written(kind: int, prefix: bytes, inner: bytes, value: int, data: bytes) -> bytes:
    fixed = (value & (1 << 64) - 1).to_bytes(8, "little")
    sized = varint(len(data)) + data
    sign, size = "-" if value < 0 else "", abs(value)
    body = {
        asm.CONSTANT: inner,
        asm.VARINT: varint(value),
        asm.FIXED: fixed,
        asm.BYTES: data + inner,
        asm.SIZED: sized,
        asm.WRAPPED_VARINT: inner + varint(value),
        asm.WRAPPED_FIXED: inner + fixed,
        asm.WRAPPED_SIZED: inner + sized,
        asm.INTEGER: b"%d" % value + inner,
        asm.MICROS: f"{sign}{size // 1000}.{size % 1000:03}".encode() + inner,
    }[kind]
    return prefix + (varint(len(body)) if kind in (5, 6, 7) else b"") + body


@pytest.mark.smoke
@pytest.mark.parametrize("implementation", ["extension", "twin"])
def test_every_kind_of_piece(implementation: str) -> None:
    if implementation == "extension" and asm._extension() is None:
        pytest.skip("the extension _assemble is not built here")
    run = asm.assemble if implementation == "extension" else asm._assemble

    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=3), st.binary(max_size=3)), max_size=5),
        st.data(),
    )
    def check(kinds: list[tuple[int, bytes, bytes]], data: st.DataObject) -> None:
        rows = data.draw(st.integers(0, 4))
        values = [data.draw(st.lists(I64, min_size=rows, max_size=rows)) for _ in kinds]
        texts = [data.draw(st.lists(st.text(max_size=200), min_size=rows, max_size=rows)) for _ in kinds]
        present = [
            data.draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows)) for _ in kinds
        ]
        pieces = []
        for (kind, prefix, inner), value, words, mask in zip(kinds, values, texts, present, strict=True):
            if kind in (asm.BYTES, asm.SIZED, asm.WRAPPED_SIZED):
                piece = asm.text(pa.array(words, pa.string()), kind, prefix, inner)
            else:
                piece = asm.number(kind, np.array(value, np.int64), prefix, inner)
            pieces.append(piece.only(None if mask is None else np.array(mask, bool)))
        out = run(rows, pieces)
        expected = [
            b"".join(
                written(*kinds[k], values[k][i], texts[k][i].encode())
                for k in range(len(kinds))
                if present[k] is None or present[k][i]
            )
            for i in range(rows)
        ]
        assert [out.data[a:b].tobytes() for a, b in zip(out.starts, out.ends, strict=True)] == expected

    check()


def test_text_of_dictionaries_slices_and_nulls() -> None:
    plain = pa.array(["a", None, "ccc", "", "a"]).slice(1, 3)
    coded = plain.dictionary_encode()
    for array in (plain, coded, pa.chunked_array([coded, coded.slice(1)])):
        out = asm.assemble(len(array), [asm.text(array, prefix=b"<", inner=b">")])
        assert out.data.tobytes() == b"".join(
            b"" if v is None else b"<%s>" % v.encode() for v in array.to_pylist()
        )


def test_arrays_of_another_length_are_refused() -> None:
    if asm._extension() is None:
        pytest.skip("the extension _assemble is not built here")
    with pytest.raises(ValueError, match="length"):
        asm.assemble(3, [asm.number(asm.VARINT, np.arange(2))])
