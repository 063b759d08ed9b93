"""Records as rows: both back ends pack what a description says, and leave the rest to `slow`."""

from __future__ import annotations

from typing import Any

import pytest
from topstx.recorder import rows
from topstx.recorder.row_sink import SAMPLED, clamped, reckoned_ns

DESCRIBED = """
import topstx
from topstx.recorder.row_sink import *
from topstx.recorder.row_sink import make_sink
backend = topstx.row_writer().backend
slow = []
class Numbered(dict):
    def __missing__(self, key): return f"number {key}"
packings = [
    Packing(1, 17, start=1, end=2, correlation=3, name=0, filter=0, device=4, items=[
        (FIELD, 1, "q"), (FIELD, 3, "Q"), (FIELD, 5, "h"), (FIELD, 5, "H"), (FIELD, 5, "b"), (FIELD, 5, "I"),
        (INTERN, 0, "I"), (THREE, 6, "H"), (CONST, -1, "i"), (EXTRA, 0, "I")]),
    Packing(2, 18, start=1, end=2, correlation=3, name=(4, ("zero", "one")), items=[(FIELD, 1, "Q")]),
    Packing(1 << 20, 19, start=1, end=2, correlation=3, name=(4, Numbered({1: "uno"})), items=[]),
]
sink = make_sink(backend, lambda kind, record: slow.append((kind, record)), packings)
assert (type(sink).__module__ == "topstx.recorder.row_sink") == (topstx.backend() == "twin")
"""


@pytest.mark.smoke
def test_clamping() -> None:
    assert [clamped(code, 2**80) for code in "qQiIhHbB"] == [2**n - 1 for n in (63, 64, 31, 32, 15, 16, 7, 8)]
    assert [clamped(code, -(2**80)) for code in "qQiIhHbB"] == [
        -(2**63),
        0,
        -(2**31),
        0,
        -(2**15),
        0,
        -128,
        0,
    ]


def test_records_become_rows(program: Any) -> None:
    import struct

    found = program(
        DESCRIBED
        + """
sink.known["text"] = True
sink.see_device(0)
sink.take(1, ("text", -5, 9, 77, 0, 70000, (4, 5)))
assert sink.pack(1, ("text", 1, 2, 2**40 + 3, 9, -70000, (1, 2, 3, 4)), 12)
sink.take(2, (None, 3, 4, 5, 1))
sink.take(2, (None, 3, 4, 5, 7))
sink.take(1 << 20, (None, 3, 4, 5, 1))
sink.take(1 << 20, (None, 3, 4, 5, 8))
assert not slow and sink.count == 5
print(backend.intern("text"))
"""
    )
    name = int(program.stdout)
    second, first = found.only.of(17)  # by their begins: -5 is the greatest, unsigned
    code = "<qQhHbIIHHHiI"
    assert struct.unpack(code, first.payload) == (-5, 77, 32767, 65535, 127, 70000, name, 4, 5, 1, -1, 0)
    assert struct.unpack(code, second.payload) == (
        1, 2**40 + 3, -32768, 0, -128, 0, name, 1, 2, 3, -1, 12,
    )  # fmt: skip
    assert (first.name, first.end, first.task) == ("text", 9, 77) and second.task == 3
    assert [(r.name, r.payload) for r in found.only.of(18)] == [
        ("one", b"\3" + bytes(7)),
        ("?", b"\3" + bytes(7)),
    ]
    assert found.only.names(19) == ["uno", "number 8"]


def test_what_goes_to_slow(program: Any) -> None:
    program(
        DESCRIBED
        + """
record = ("text", 1, 2, 3, 0, 5, ())
sink.take(1, record)                      # the device is new
sink.see_device(0)
sink.take(1, record)                      # the name is
sink.known["text"] = False
sink.take(1, record)                      # not wanted
sink.known["text"] = True
sink.take(1, record)
sink.take(1, ("text", 1, 2, 3, 64, 5, ()))
sink.slow_kinds = 2
sink.take(2, record)
assert slow == [(1, record)] * 2 + [(1, ("text", 1, 2, 3, 64, 5, ())), (2, record)], slow
def fails(kind, record): raise ZeroDivisionError
broken = make_sink(backend, fails, packings)
try: broken.take(1, record)
except ZeroDivisionError: pass
else: raise AssertionError("nothing raised")
for wrong in (lambda: sink.take(4, record), lambda: sink.pack(4, record), lambda: sink.pack(2, ())):
    try: wrong()
    except (KeyError, TypeError, IndexError): pass
    else: raise AssertionError("nothing raised")
"""
    )


def test_a_sample_is_timed(program: Any) -> None:
    found = program(
        DESCRIBED
        + """
for k in range(16): sink.take(2, (None, k, k, k, 0))
assert sink.cost_ns == 0
for k in range(16, 32 * SAMPLED): sink.take(2, (None, 1, 1, 1, 0))
assert sink.count == 32 * SAMPLED and sink.cost_ns > 0 and sink.slow_count == sink.slow_ns == 0
sink.slow_kinds = 2
for k in range(100): sink.take(2, (None, k, k, k, 0))   # each is timed, and no part of the sample
assert (sink.count, sink.slow_count) == (32 * SAMPLED, 100) and sink.slow_ns > 0
sink.slow_ns = 0
sink.cost_ns = 0
assert sink.cost_ns == 0
"""
    )
    assert len(found.only.of(rows.KIND_MEMCPY)) == 32 * 256


def test_a_sample_is_reckoned_for_all() -> None:
    assert reckoned_ns(0, 0) == reckoned_ns(16, 0) == 0
    assert reckoned_ns(17, SAMPLED * 100) == 17 * 100
    assert reckoned_ns(SAMPLED + 16, SAMPLED * 100) == (SAMPLED + 16) * 100
    assert reckoned_ns(2 * SAMPLED, 2 * SAMPLED * 100) == 2 * SAMPLED * 100


def test_descriptions_that_make_no_sense(c_program: Any) -> None:
    c_program(
        DESCRIBED
        + """
bad = [
    Packing(0, 17, start=1, end=2, correlation=3, name=0, items=[]),
    Packing(1, 17, start=1, end=2, correlation=3, name=0, items=[(FIELD, 1, "d")]),
    Packing(1, 17, start=1, end=2, correlation=3, name=0, items=[(INTERN, 1, "q")]),
    Packing(1, 17, start=1, end=2, correlation=3, name=0, items=[(FIELD, -1, "q")]),
    Packing(1, 17, start=-1, end=2, correlation=3, name=0, items=[]),
    Packing(1, 17, start=1, end=2, correlation=3, name=0, items=[(CONST, 0, "q")] * 33),
    Packing(1, 17, start=1, end=2, correlation=3, name=0, items=[(THREE, 0, "q")] * 11),
    Packing(1, 17, start=1, end=2, correlation=3, name="text", items=[]),
]
for one in bad:
    try: make_sink(backend, print, [one])
    except (ValueError, TypeError): pass
    else: raise AssertionError(one.described())
"""
    )
