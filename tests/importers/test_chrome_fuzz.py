"""Damaged files end in a session with an honest ledger or in one line, never in a traceback."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tops_kit.errors import UserError
from tops_kit.session import Session

Import = Callable[..., Session]

VALUES = [
    b"null",
    b'"x"',
    b"-1",
    b"1e400",
    b"18446744073709551615",
    b"[]",
    b"{}",
    b"true",
    b"NaN",
    b"9223372036854775807",
    b'""',
    b'"0x1"',
    b"-9223372036854775808",
    b"9223372036854775.8",
    b"[1,2,3]",
]


def events(chance: random.Random) -> list[Any]:
    """One of everything."""
    host = {"pid": 5, "tid": 6}
    made: list[Any] = []
    for i in range(30):
        cat = chance.choice(
            [
                "cpu_op",
                "kernel",
                "gpu_memcpy",
                "gpu_memset",
                "cuda_runtime",
                "python_function",
                "cuda_sync",
                "user_annotation",
                "overhead",
                "other",
            ]
        )
        args = {
            "External id": i,
            "correlation": i,
            "device": 0,
            "stream": 7,
            "grid": [1, 2, 3],
            "block": [1, 1, 1],
            "bytes": 5,
            "Input Dims": [[1]],
            "Call stack": "a;b",
            "Collective name": "x",
            "In msg nelems": 4,
            "dtype": "Float",
            "Bytes": 3,
            "other": {"a": [1.5]},
        }
        made.append(
            {
                "ph": "X",
                "cat": cat,
                "name": f"ProfilerStep#{i}" if i % 9 == 0 else f"n{i}(int)",
                "ts": i * 1.5,
                "dur": 4,
                **host,
                "args": args,
            }
        )
    for i, phase in enumerate("BEbenSTpFstfiIRCMNODPvVc(=Z"):
        made.append(
            {
                "ph": phase,
                "cat": "c",
                "name": "process_name" if phase == "M" else "Profile",
                "ts": i,
                "id": i % 3,
                "id2": {"local": "0x5"} if i % 4 == 0 else {"global": 7},
                **host,
                "args": {
                    "name": "p",
                    "Bytes": 7,
                    "data": {"cpuProfile": {"nodes": [{"id": 1}], "samples": [1, 2]}},
                },
            }
        )
    chance.shuffle(made)
    return made


@pytest.mark.parametrize("seed", range(40))
def test_damage(import_bytes: Import, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 4 == 0:
        monkeypatch.setenv("TOPSKIT_PURE", "1")
    chance = random.Random(seed)
    top = {
        "samples": [{"ts": 1, "sf": 1}],
        "stackFrames": {"1": {"name": "r", "parent": 1}},
        "deviceProperties": [{"id": 0}],
        "distributedInfo": {"rank": 1},
    }
    data = bytearray(json.dumps({**top, "traceEvents": events(chance)}).encode())
    for _ in range(chance.randrange(1, 30)):
        position = chance.randrange(len(data))
        kind = chance.random()
        if kind < 0.2:
            data[position] ^= 1 << chance.randrange(8)
        elif kind < 0.3:
            del data[position : position + chance.randrange(1, 40)]
        elif kind < 0.9:
            colon = data.find(b":", position)
            end = min((at for at in (data.find(b",", colon), data.find(b"}", colon)) if at > 0), default=-1)
            if 0 < colon < end:
                data[colon + 1 : end] = chance.choice(VALUES)
        else:
            data[position:position] = bytes([chance.randrange(256)])
    if seed % 5 == 0:
        del data[chance.randrange(len(data)) :]
    packed = gzip.compress(bytes(data))[: -chance.randrange(1, 60)] if seed % 7 == 0 else bytes(data)
    for importer in ("kineto", "chrome"):
        for on_error in ("repair", "strict"):
            try:
                session = import_bytes(packed, importer=importer, on_error=on_error)
            except UserError as error:
                assert "\n" not in str(error)
                continue
            for table in session.tables():
                session.table(table)
