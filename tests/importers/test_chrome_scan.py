"""The scanner in C and its twin: the same rows from the same bytes, however they are cut, and never a
crash.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topsprof.importers import scan_twin
from topsprof.importers.scan import Batch, Strings

scan_c = pytest.importorskip("topsprof.importers._scan", reason="the C scanner is not built")

KEYS = {"number": "i", "bits": "u", "real": "f", "text": "s", "json": "j", "grid": "x"}
TEXTS = ("name", "cat", "scope")
LOOSE = ("bad_text", "control_character", "not_a_number")  # only their counts are the same


def scanned(module: Any, data: bytes, step: int) -> dict[str, Any]:
    """Everything that a scanner finds in `data`, fed in pieces of `step` bytes, in a form that can be
    compared.
    """
    scanner = module.Scanner(list(KEYS.items()))
    for position in range(0, len(data), step):
        scanner.feed(data[position : position + step])
    scanner.finish()
    strings = Strings()
    strings.update(scanner)
    batch = Batch(scanner.take())
    out: dict[str, Any] = {}
    for name in ("ph", "bp", "s", "ts_state", "dur_state", "pid_kind", "tid_kind", "id_kind"):
        out[name] = batch.column(name).tolist()
    for name in TEXTS:
        out[name] = [strings.text(i) if i >= 0 else None for i in batch.column(name).tolist()]
    for name in ("ts", "dur"):
        known = zip(batch.column(name).tolist(), out[f"{name}_state"], strict=True)
        out[name] = [value if state == 1 else None for value, state in known]
    for name in ("pid", "tid", "id"):
        known = zip(batch.column(name).tolist(), out[f"{name}_kind"], strict=True)
        out[name] = [
            strings.text(value) if kind in (2, 4, 6) else value if kind else None for value, kind in known
        ]
    for key, kind in KEYS.items():
        rows, values = batch.sparse(key, np.float64 if kind == "f" else np.int64)
        found = values.tolist()
        out[key] = (rows.tolist(), [strings.text(i) for i in found] if kind in "sj" else found)
    out["rest"] = batch.rest(np.arange(batch.rows)).to_pylist()
    out["series"] = [
        [strings.text(i) for i in batch.column("series_keys").tolist()],
        batch.column("series_rows").tolist(),
        batch.column("series_values").tolist(),
    ]
    out["metadata"] = scanner.metadata()
    out["issues"] = sorted(issue[:2] if issue[0] in LOOSE else issue for issue in scanner.issues())
    return out


def same(data: bytes, steps: tuple[int, ...] = (1 << 20,)) -> dict[str, Any]:
    """Scan with both, cut in several ways; returns what was found."""
    first = scanned(scan_c, data, 1 << 20)
    for step in steps:
        assert scanned(scan_c, data, step) == first
        assert scanned(scan_twin, data, step) == first
    return first


TEXT = st.text(max_size=12) | st.sampled_from(
    ["0x1f", "12", "1.5", "", "[1,2,3]", "a\u0000b", '"', "\\", "\U0001f600"]
)
NUMBER = (
    st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=True)
    | st.floats(allow_nan=False, min_value=-1e16, max_value=1e16)
)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
EVENT = st.dictionaries(
    st.sampled_from(
        ["ph", "ts", "dur", "pid", "tid", "name", "cat", "id", "id2", "scope", "bp", "s", "args", "tts"]
    ),
    VALUE
    | st.dictionaries(st.sampled_from([*KEYS, "local", "global", "x"]), VALUE, max_size=5)
    | st.sampled_from(["X", "B", "C", "M", "P"]),
    max_size=10,
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(EVENT, max_size=5), st.dictionaries(TEXT, VALUE, max_size=3), st.booleans(), st.integers(1, 50)
)
def test_any_events(events: list[Any], top: dict[str, Any], ascii_only: bool, step: int) -> None:
    text = json.dumps({**top, "traceEvents": events}, ensure_ascii=ascii_only)
    same(text.encode("utf-8", "surrogatepass"), (step,))


@pytest.mark.smoke
def test_columns() -> None:
    event = {
        "ph": "X",
        "name": "k",
        "cat": "c",
        "pid": "12",
        "tid": -1,
        "ts": "1712195495896244.567",
        "dur": 1e-3,
        "id": "0xff",
        "args": {
            "number": "0x10",
            "real": 2.5,
            "text": "t",
            "json": [[1, 2], "\u00e9"],
            "grid": [4, 5],
            "more": {"a": None},
        },
    }
    found = same(json.dumps({"traceEvents": [event]}).encode(), (1, 7, 1 << 20))
    assert (found["ts"], found["dur"], found["pid"], found["tid"], found["id"]) == (
        [1712195495896244567],
        [1],
        [12],
        [-1],
        [255],
    )
    assert found["number"] == ([0], [16])
    assert found["json"] == ([0], ['[[1,2],"\u00e9"]'])
    assert found["grid"] == ([0], [4, 5, 1])
    assert found["rest"] == ['{"more":{"a":null}}']


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2, 3]", [1, 2, 3]),
        ('"[1,2,3]"', [1, 2, 3]),
        ('"64x2x1"', [64, 2, 1]),
        ("[7]", [7, 1, 1]),
        ("[1.0, 2, 3]", [1, 2, 3]),
    ],
)
def test_grids(text: str, expected: list[int]) -> None:
    found = same(b'[{"ph": "X", "args": {"grid": %s}}]' % text.encode(), (3,))
    assert found["grid"] == ([0], expected)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '"abc"',
        "[1,2,3,4]",
        "[[1]]",
        "[1.5,2,3]",
        '"1,2,"',
        "null",
        "true",
        "{}",
        "1e400",
        "18446744073709551616",
    ],
)
def test_what_is_no_grid_stays_in_the_rest(text: str) -> None:
    found = same(b'[{"ph": "X", "args": {"grid": %s, "number": %s}}]' % (text.encode(), text.encode()), (3,))
    assert found["grid"] == ([], [])
    assert json.loads(found["rest"][0])["number"] == json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("18446744073709551615", -1),
        ("1e3", 1000),
    ],
)
def test_integers_keep_64_bits(text: str, value: int) -> None:
    assert same(b'[{"ph": "X", "args": {"bits": %s}}]' % text.encode(), (4,))["bits"] == ([0], [value])


@pytest.mark.parametrize("seed", range(60))
def test_damaged_bytes(seed: int) -> None:
    """Bit flips, cuts, insertions: both find the same events, and what they emit is valid JSON."""
    chance = random.Random(seed)
    events = [
        {
            "ph": chance.choice("XBECMPi"),
            "name": f"n{i}\u00e9\U0001f600",
            "ts": i * 1.25,
            "dur": 3,
            "pid": 1,
            "tid": "t",
            "args": {
                "number": i,
                "text": "a\nb",
                "json": [1, [2.5e3]],
                "grid": [1, 2, 3],
                "z": {"y": [True, None]},
            },
        }
        for i in range(12)
    ]
    data = bytearray(
        json.dumps({"a": {"b": [1]}, "traceEvents": events, "z": 5}, ensure_ascii=bool(seed % 2)).encode()
    )
    for _ in range(chance.randrange(1, 5)):
        position = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[position] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[position : position + chance.randrange(1, 30)]
        elif kind == 2:
            data[position:position] = bytes([chance.randrange(256)])
        else:
            del data[max(position, 20) :]
    found = same(bytes(data), (chance.randrange(1, 64), 1 << 20))
    for text in found["rest"]:
        assert text is None or isinstance(json.loads(text), dict)


def test_one_huge_event_in_small_pieces() -> None:
    text = json.dumps([{"ph": "X", "ts": 1, "args": {"big": ["x" * 100] * 3000}}]).encode()
    assert len(scanned(scan_c, text, 1000)["rest"][0]) > 300_000


def test_overlaps_and_stacks_agree() -> None:
    chance = np.random.default_rng(5)
    track = np.sort(chance.integers(0, 4, 500))
    start = chance.integers(0, 1000, 500)
    end = start + chance.integers(0, 80, 500)
    order = np.lexsort((-end, start, track))
    columns = [np.ascontiguousarray(column[order]) for column in (track, start, end)]
    for tolerance in (0, 5, 40):
        found = scan_c.nest(*columns, tolerance)
        assert found == scan_twin.nest(*columns, tolerance)
        assert found[1] + found[2] > 0
    function = np.where(chance.random(500) < 0.6, chance.integers(0, 9, 500), -1).astype(np.int32)
    ours, twin = scan_c.Stacks(), scan_twin.Stacks()
    by_time = np.lexsort((-end, start))
    rows = [np.ascontiguousarray(column[by_time]) for column in (track, start, end)]
    assert ours.walk(*rows, function) == twin.walk(*rows, function)
    assert ours.paths() == twin.paths()
