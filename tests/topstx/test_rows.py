"""Rows of other tables: written by both back ends like ranges, kept like them when the process dies."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout as L
from topstx.recorder import rows

WRITE = """
import topstx
from topstx.recorder import rows
w = topstx.row_writer()
API, PRINT = rows.KINDS[rows.KIND_API], rows.KINDS[rows.KIND_PRINT]
def api(n, name="topsMalloc"):
    return w.write(rows.KIND_API, n, n + 5, name, API.body.pack(0, 0, -1, n % 100, 0, 2), n)
"""


@pytest.mark.smoke
def test_kinds_are_sound() -> None:
    session = [kind for kind in rows.KINDS if kind < L.KIND_TICKS_FIRST]
    assert sorted(session) == list(range(L.KIND_TABLE_FIRST, L.KIND_TABLE_FIRST + len(session)))
    assert max(rows.KINDS) < 64 and len(set(rows.KINDS)) == len(rows.KINDS)
    for kind in rows.KINDS.values():
        assert kind.body.size == sum(struct.calcsize("<" + code) for _, code, _ in kind.fields)
        assert len({name for name, _, _ in kind.fields}) == len(kind.fields)
        assert kind.ring_slots == 1 + -(-(3 + kind.body.size) // L.MORE_DATA)


def test_rows_are_in_the_ring(program: Any) -> None:
    recording = program(
        WRITE
        + """
assert w.recording() and w.wanted(rows.KIND_API) and not w.wanted(3) and not w.wanted(64)
assert w.intern("a name") == w.intern("a " + "name") > 0
with topstx.annotate("outer"), topstx.annotate("inner"):
    assert api(1)
assert w.write(rows.KIND_API, -7, -2, w.intern("by id"), b"", 2**32 + 9)
text = ("long " * 1000).encode()
assert w.write(rows.KIND_PRINT, 4, 4, "kernel", PRINT.body.pack(1, 0, 2, 3) + text)
for size in (26, 27, 28, 57, 58, 87, 88): w.write(60, size, size, "size", bytes(range(size)))
print(topstx.row_writer().backend.process_serial())
"""
    )
    process = recording.only
    assert int(program.stdout) == process.header["process_serial"]
    first, by_id = process.of(rows.KIND_API)
    assert (first.inside, by_id.inside) == ("inner", "")
    assert (first.name, first.begin, first.end, first.task, first.depth) == ("topsMalloc", 1, 6, 1, 2)
    assert first.payload == rows.KINDS[rows.KIND_API].body.pack(0, 0, -1, 1, 0, 2)
    assert (by_id.name, by_id.task, by_id.payload) == ("by id", 9, b"")
    assert by_id.begin == 2**64 - 7
    (printed,) = process.of(rows.KIND_PRINT)
    assert printed.payload[14:] == b"long " * 1000
    assert [r.payload for r in process.of(60)] == [bytes(range(n)) for n in (26, 27, 28, 57, 58, 87, 88)]


def test_what_no_row_can_have(program: Any) -> None:
    program(
        WRITE
        + """
for call in (lambda: w.row(16), lambda: w.row("x", 1, 2, "n", b""), lambda: w.row(16, 1, 2, "n", "text")):
    try: call()
    except TypeError: pass
    else: raise AssertionError("no TypeError")
try: w.row(16, 1, 2, "n", bytes(20000))
except ValueError: pass
else: raise AssertionError("no ValueError")
assert not w.write(5, 1, 2, "n", b"") and not w.write(64, 1, 2, "n", b"")
"""
    )


@pytest.mark.parametrize("recording", [L.RECORDING_OFF, L.RECORDING_ARMED])
def test_off_and_armed_record_nothing(program: Any, recording: int) -> None:
    found = program(WRITE + "assert not api(1) and not w.wanted(16)", recording=recording, capture_name="x")
    assert not found.only.of(rows.KIND_API)


@pytest.mark.parametrize("recording", [L.RECORDING_OFF, L.RECORDING_ARMED])
def test_what_began_while_it_was_on_is_recorded_late(program: Any, recording: int) -> None:
    late = """
late = rows.KIND_KERNEL | 128
assert w.wanted(late) and not w.wanted(rows.KIND_KERNEL) and not w.wanted(rows.KIND_SYNC | 128)
assert w.write(late, 1, 2, "k", bytes(5)) and not w.write(rows.KIND_SYNC | 128, 1, 2, "s", b"")
assert not w.wanted(128 + 64) and not w.wanted(128 + 3) and not w.wanted(256 + 17)
"""
    found = program(WRITE + late, recording=recording, capture_name="x", rows_off=1 << rows.KIND_SYNC)
    (kernel,) = found.only.of(rows.KIND_KERNEL)
    assert (kernel.begin, kernel.end, kernel.payload) == (1, 2, bytes(5))


def test_kinds_that_are_not_wanted(program: Any) -> None:
    found = program(
        WRITE + "assert not api(1); assert w.write(17, 1, 2, 'k', b'')", rows_off=1 << rows.KIND_API
    )
    assert not found.only.of(rows.KIND_API) and found.only.of(rows.KIND_KERNEL)


def test_without_a_session_nothing_happens() -> None:
    from topstx import _off
    from topstx.recorder import twin

    for backend in (_off, twin):
        writer = rows.RowWriter(backend)  # type: ignore[arg-type]
        assert not writer.write(rows.KIND_API, 1, 2, "n", b"") and not writer.recording()
        assert writer.intern("text") == 0 and not writer.wanted(rows.KIND_API) and writer.session() is None


@pytest.mark.parametrize("death", ["os.kill(os.getpid(), 9)", "os.abort()"])
def test_rows_survive_a_kill(program: Any, death: str) -> None:
    found = program(WRITE + f"import os\nfor n in range(1000): api(n)\n{death}", expect=None)
    assert [r.task for r in found.only.of(rows.KIND_API)] == list(range(1000))
    assert program.returncode < 0


def test_fork_children_write_their_own(program: Any) -> None:
    found = program(
        WRITE
        + """
import os
before = w.intern("given by the parent")
serial = w.backend.process_serial()
api(1, before)
if not os.fork():
    assert w.backend.process_serial() not in (0, serial)
    api(2, before); api(3, "the child's")
    os._exit(0)
os.wait()
"""
    )
    parent, child = found.processes
    assert parent.names(rows.KIND_API) == ["given by the parent"]
    assert child.names(rows.KIND_API) == ["given by the parent", "the child's"]


def test_full_rings_drop_and_count(program: Any) -> None:
    found = program(
        WRITE + "done = [api(n) for n in range(5000)]\nprint(done.count(False))",
        policy=L.POLICY_DROP,
        ring_max_records=1024,
        ring_initial_bytes=4096,
    )
    written = len(found.only.of(rows.KIND_API))
    assert found.only.dropped == int(program.stdout) == 5000 - written > 0


def test_sessions_are_told(program: Any, tmp_path: Path) -> None:
    program(
        """
import topstx
seen = []
topstx.on_session(seen.append)
assert seen == [topstx.row_writer().session()] and seen[0]
topstx._follower.leave()
assert seen[1:] == [None] and topstx.row_writer().session() is None
topstx.on_session(seen.append)
assert len(seen) == 2
"""
    )


def test_the_capsule_of_the_extension(c_program: Any) -> None:
    recording = c_program(
        """
import ctypes, topstx
from topstx.recorder import _crec
class Capsule(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("bytes", ctypes.c_uint32),
        ("wanted", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_uint32)),
        ("name", ctypes.PYFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)),
        ("row", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64,
                                  ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32)),
        ("serial", ctypes.PYFUNCTYPE(ctypes.c_uint64))]
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
api = Capsule.from_address(get(_crec.rows, b"topstx.recorder._crec.rows"))
assert api.version >= 1 and api.bytes >= ctypes.sizeof(Capsule)  # more is only ever appended
assert api.wanted(17) and not api.wanted(1) and api.serial() == _crec.process_serial()
name = api.name(b"by capsule", 10)
assert name == _crec.intern("by capsule")
assert api.row(17, 5, 9, name, 77, b"body", 4) and not api.row(2, 5, 9, name, 77, b"body", 4)
"""
    )
    (row,) = recording.only.of(17)
    assert (row.name, row.begin, row.end, row.task, row.payload) == ("by capsule", 5, 9, 77, b"body")
