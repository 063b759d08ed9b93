from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.errors import SessionError
from tops_kit.session import Session, SessionWriter, compact, pack, unpack

Make = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize("compacted", [False, True])
def test_round_trip(make_session: Make, rows_of: Rows, tmp_path: Path, compacted: bool) -> None:
    path = make_session(segments=3, calls=100)
    with SessionWriter.resume(path) as writer:
        writer.ledger.count("process:1", "dropped:full_ring", 7)
        writer.set_attribute("k", "v")
    if compacted:
        compact(path)
    file = pack(path)
    assert file == tmp_path / "made.topspack"
    again = unpack(file, tmp_path / "again.topsprof")
    for table in ("tx", "process"):
        assert rows_of(again, table) == rows_of(path, table)
    session = Session.open(again)
    assert session.indexed
    assert session.ledger.lines() == ["process:1: dropped 7 (full ring)"]
    assert session.info["attributes"] == {"k": "v"}


def test_small(make_session: Make) -> None:
    path = make_session(segments=1, calls=30_000)
    assert pack(path).stat().st_size <= 7 * 180_000


def test_the_order_of_many_segments(tmp_path: Path) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        for i in range(12):
            writer.append("stack", {"stack_id": [i]})
            writer.flush()
    again = Session.open(unpack(pack(tmp_path / "a.topsprof"), tmp_path / "b.topsprof"))
    assert again.table("stack", ["stack_id"]).column(0).to_pylist() == list(range(12))


def test_existing_things_are_kept_unless_told(make_session: Make, tmp_path: Path) -> None:
    path = make_session(segments=1, calls=1)
    file = pack(path)
    with pytest.raises(SessionError, match="exists"):
        pack(path)
    pack(path, overwrite=True)
    with pytest.raises(SessionError, match="exists"):
        unpack(file)
    assert unpack(file, overwrite=True) == path
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("x")
    with pytest.raises(SessionError, match="not a session"):
        unpack(file, tmp_path / "other", overwrite=True)
    assert (tmp_path / "other" / "precious").read_text() == "x"


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil.parquet", "tx-0.parquet/..", "nope-0.parquet", "..\\evil"]
)
def test_names_in_a_pack_are_no_paths(make_session: Make, tmp_path: Path, name: str) -> None:
    file = pack(make_session(segments=1, calls=1))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, b"x")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SessionError, match="no known kind"):
        unpack(file, tmp_path / "out.topsprof")
    assert sorted(tmp_path.rglob("*")) == before


def test_not_a_pack(tmp_path: Path) -> None:
    (tmp_path / "a.topspack").write_bytes(b"hello")
    (tmp_path / "folder").mkdir()
    for name in ("a.topspack", "folder", "absent"):
        with pytest.raises(SessionError) as error:
            unpack(tmp_path / name, tmp_path / "out.topsprof")
        assert "\n" not in str(error.value)
    assert not (tmp_path / "out.topsprof").exists()


def test_a_newer_pack(make_session: Make, tmp_path: Path) -> None:
    path = make_session(segments=1, calls=1)
    with zipfile.ZipFile(tmp_path / "a.topspack", "w") as archive:
        archive.writestr("session.json", json.dumps(Session.open(path).info | {"format": [9, 0]}))
    with pytest.raises(SessionError, match="upgrade"):
        unpack(tmp_path / "a.topspack", tmp_path / "out.topsprof")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_packs_are_one_line(make_session: Make, tmp_path: Path, data: st.DataObject) -> None:
    source = tmp_path / "made.topspack"
    if not source.exists():
        pack(make_session(segments=1, calls=20))
    content = bytearray(source.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 5))):
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = tmp_path / "damaged.topspack"
    damaged.write_bytes(content)
    try:
        path = unpack(damaged, tmp_path / "out.topsprof", overwrite=(tmp_path / "out.topsprof").exists())
    except SessionError as error:
        assert "\n" not in str(error)
    else:
        Session.open(path).table("tx")
    assert not list(tmp_path.glob(".*tmp"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("created_ns", "x"),
        ("created_ns", []),
        ("created_ns", 2**70),
        ("host", 1),
        ("host", ["a"]),
        ("system", {}),
    ],
)
def test_a_pack_with_a_wrong_manifest(make_session: Make, tmp_path: Path, key: str, value: object) -> None:
    file = pack(make_session(segments=1, calls=1))
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(tmp_path / "b.topspack", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "session.json":
                data = json.dumps(json.loads(data) | {key: value}).encode()
            new.writestr(name, data)
    with pytest.raises(SessionError, match=f"`{key}`"):
        unpack(tmp_path / "b.topspack", tmp_path / "b.topsprof")
    assert not (tmp_path / "b.topsprof").exists()


def test_a_pack_whose_rows_have_no_time(make_session: Make, tmp_path: Path) -> None:
    file = pack(make_session(segments=1, calls=1))
    rows = io.BytesIO()
    pq.write_table(pa.table({"start_ns": pa.array([1, None]), "duration_ns": pa.array([1, 2])}), rows)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("tx-99.parquet", rows.getvalue())
    with pytest.raises(SessionError, match=r"tx-99.parquet has rows without a time"):
        unpack(file, tmp_path / "b.topsprof")
    assert not list(tmp_path.glob("*b.topsprof*"))


def test_members_that_zip_compresses_are_refused(make_session: Make, tmp_path: Path) -> None:
    file = pack(make_session(segments=1, calls=1))
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "b.topspack", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(SessionError, match="compressed by zip"):
        unpack(tmp_path / "b.topspack")


def test_rows_that_would_fill_the_memory_are_refused(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tops_kit.session.packing._LARGEST_DECODED", 1 << 20)
    file = pack(make_session(segments=1, calls=1))
    with zipfile.ZipFile(file) as archive:
        manifest = archive.read("session.json")
    sink = io.BytesIO()
    pq.write_table(pa.table({"start_ns": pa.array([0] * 1_000_000)}), sink, compression="zstd")
    with zipfile.ZipFile(tmp_path / "b.topspack", "w") as archive:
        archive.writestr("session.json", manifest)
        archive.writestr("tx-0.parquet", sink.getvalue())
    with pytest.raises(SessionError, match="1000000 rows") as caught:
        unpack(tmp_path / "b.topspack")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "b.topsprof").exists()


def test_row_groups_come_back_in_order(tmp_path: Path) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append("stack", {"stack_id": list(range(3_000_000)), "name": ["a", "b", "c"] * 1_000_000})
    again = Session.open(unpack(pack(tmp_path / "a.topsprof"), tmp_path / "b.topsprof"))
    assert again.table("stack", ["stack_id"]).column(0).to_pylist() == list(range(3_000_000))


def test_a_flipped_bit_is_found(make_session: Make, tmp_path: Path) -> None:
    file = pack(make_session(segments=1, calls=300))
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = max(archive.infolist(), key=lambda info: info.file_size)
    data[info.header_offset + info.file_size // 2] ^= 1
    (tmp_path / "b.topspack").write_bytes(data)
    with pytest.raises(SessionError, match="damaged"):
        unpack(tmp_path / "b.topspack")
