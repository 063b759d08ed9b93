"""Files cut short or with wrong bytes: never more than the segment is lost, and never a traceback."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.errors import SessionError
from tops_kit.session import Selection, Session, SessionWriter, compact, info, pack

Make = Callable[..., Path]


def _use(path: Path) -> None:
    """Everything that a tool does with a session."""
    session = Session.open(path)
    for name in session.tables():
        session.table(name).to_pylist()
    session.table("tx", selection=Selection(names="range 1", time=(0, 30_000_000))).to_pylist()
    session.summary("tx")
    lanes = session.lanes("tx")
    for lane in range(len(lanes)):
        lanes.window(lane, 0, 2**40, 1 << 16).to_pylist()
    session.sql_connection().sql(
        "select name, sum(duration_ns), max(payload) from tx group by name"
    ).fetchall()
    session.ledger.lines()
    info(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make, bool], Path]:
    """A sound session, raw or compacted, made once."""
    made: dict[bool, Path] = {}

    def get(make: Make, compacted: bool) -> Path:
        if compacted not in made:
            path = make(f"whole{compacted}.topsprof", segments=2, calls=300)
            if compacted:
                compact(path)
                Session.open(path).summary("tx")
            made[compacted] = Path(shutil.copytree(path, tmp_path_factory.mktemp("whole") / "a.topsprof"))
        return made[compacted]

    return get


@pytest.mark.slow
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_damage_is_survived(
    make_session: Make, whole: Callable[[Make, bool], Path], tmp_path: Path, data: st.DataObject
) -> None:
    source = whole(make_session, data.draw(st.booleans(), label="compacted"))
    path = tmp_path / "damaged.topsprof"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    file = data.draw(st.sampled_from(files), label="file")
    content = bytearray(file.read_bytes())
    how = data.draw(st.sampled_from(["truncate", "flip", "zeros", "remove"]), label="how")
    if how == "remove":
        file.unlink()
    else:
        if how == "truncate":
            del content[data.draw(st.integers(0, len(content) - 1)) :]
        elif how == "zeros":
            at = data.draw(st.integers(0, len(content) - 1))
            content[at : at + 64] = bytes(len(content[at : at + 64]))
        else:
            for _ in range(data.draw(st.integers(1, 4))):
                content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        file.write_bytes(content)
    try:
        _use(path)
        pack(path, tmp_path / "damaged.topspack", overwrite=True)
        compact(path)
        _use(path)
    except SessionError as error:
        assert "\n" not in str(error)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["meta.json", "hot.arrow", "wide.arrow"])
@pytest.mark.parametrize("how", ["cut", "gone", "zero"])
def test_the_rest_is_read_and_the_loss_is_told(make_session: Make, name: str, how: str) -> None:
    path = make_session(segments=3, calls=50)
    file = path / "segments" / "tx-000003" / name
    if how == "gone":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if how == "cut" else bytes(len(content)))
    session = Session.open(path)
    assert session.table("tx").num_rows == 600
    assert session.tables()["tx"] == 600
    assert session.sql_connection().sql("select count(thread_id) from tx").fetchall() == [(600,)]
    (line,) = session.ledger.lines()
    assert line.startswith("session:tx-000003: dropped ")
    assert name in line


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["lanes.arrow", "pyramid.arrow", "summary.arrow"])
@pytest.mark.parametrize("how", ["cut", "zero"])
def test_a_damaged_index_is_made_anew(make_session: Make, name: str, how: str) -> None:
    path = make_session(segments=1, calls=2000)
    compact(path)
    lanes = Session.open(path).lanes("tx")
    expected = [lanes.window(lane, 0, 2**40, 1 << 20).to_pylist() for lane in range(len(lanes))]
    (file,) = path.glob(f"segments/tx-*/{name}")
    content = file.read_bytes()
    file.write_bytes(content[:100] if how == "cut" else bytes(len(content)))
    session = Session.open(path)
    assert session.table("tx").num_rows == 12_000
    lanes = session.lanes("tx")
    found = [lanes.window(lane, 0, 2**40, 1 << 20).to_pylist() for lane in range(len(lanes))]
    assert found == expected
    assert session.ledger.total("dropped") == 0
    if how == "cut":
        assert not session.indexed
        assert session.ledger.total("repaired", code="damaged_index") == 1
        session.ensure_indexed()
        assert session.indexed
        assert session.ledger.total("repaired") <= 1
        assert Session.open(path).ledger.clean


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_flipped_bit_in_numbers_is_found_by_verify(make_session: Make) -> None:
    path = make_session()
    compact(path)
    session = Session.open(path)
    assert session.verify()[0] > 0
    assert session.ledger.clean
    (segment,) = session.segments("tx")
    _flip(segment.path / "hot.arrow")
    session = Session.open(path)
    session.verify()
    assert session.ledger.total("dropped", code="damaged_segment") == segment.rows
    assert "tx" not in session.tables()


def test_a_flipped_bit_in_a_kept_summary_is_no_wrong_figure(make_session: Make) -> None:
    path = make_session()
    exact = Session.open(path).summary("tx")
    kept = [file for file in (path / "summary").iterdir() if file.suffix == ".arrow"]
    assert kept
    for file in kept:
        sound = file.read_bytes()
        for place in range(0, len(sound), max(len(sound) // 64, 1)):
            file.write_bytes(sound[:place] + bytes([sound[place] ^ 16]) + sound[place + 1 :])
            assert Session.open(path).summary("tx").equals(exact)


def test_verify_makes_a_damaged_index_anew(make_session: Make) -> None:
    path = make_session()
    compact(path)
    (segment,) = Session.open(path).segments("tx")
    _flip(segment.path / "pyramid.arrow")
    session = Session.open(path)
    session.verify()
    session.verify()
    assert session.ledger.total("repaired", code="damaged_index") == 1
    assert session.tables()["tx"] == segment.rows


@pytest.mark.parametrize("compacted", [False, True])
def test_a_flipped_bit_in_a_small_file_is_told_at_reading(make_session: Make, compacted: bool) -> None:
    path = make_session()
    if compacted:
        compact(path)
    session = Session.open(path)
    damaged, rows = session.segments("tx")[0], session.tables()["tx"]
    _flip(damaged.path / "hot.arrow")
    session = Session.open(path)
    assert session.summary("tx").num_rows == 20 * (not compacted)
    (entry,) = session.ledger.entries
    assert (entry.count, entry.code) == (damaged.rows, "damaged_segment")
    assert entry.note == "hot.arrow differs from its checksum"
    assert session.tables().get("tx", 0) == rows - damaged.rows


@pytest.mark.parametrize("level", ["raw", "lanes"])
def test_every_file_of_a_segment_has_a_checksum(tmp_path: Path, level: str) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append("tx", {"start_ns": [1, 2], "name": ["a", "b"], "args": ["{}", "[]"]})
        writer.flush(level=level)
    session = Session.open(tmp_path / "a.topsprof")
    compared, bare = session.verify()
    assert compared == len(session.segments("tx")[0].files) > 0 and bare == 0


def test_raw_segments_of_early_versions_have_no_checksum(make_session: Make) -> None:
    path = make_session()
    for meta in path.glob("segments/*/meta.json"):
        value = json.loads(meta.read_text())
        del value["checksums"]
        meta.write_text(json.dumps(value))
    session = Session.open(path)
    compared, bare = session.verify()
    assert (compared, bare > 0) == (0, True)
    assert session.table("tx").num_rows and session.ledger.clean


def test_what_differs_from_its_checksum_is_not_merged_away(make_session: Make) -> None:
    path = make_session()
    compact(path)
    (damaged,) = Session.open(path).segments("tx")
    _flip(damaged.path / "hot.arrow")
    with SessionWriter.resume(path) as writer:
        writer.append("tx", {"start_ns": [1], "name": ["new"]})
    compact(path)
    assert damaged.path.exists()
    assert not any(damaged.name in segment.replaces for segment in Session.open(path).segments("tx"))


_WRONG = (None, 1, "x", [], {}, -1, 2**70, 1.5, [None], {"a": None}, True)


@pytest.mark.parametrize("wrong", _WRONG, ids=repr)
def test_what_meta_says_of_another_type_loses_just_that_segment(
    make_session: Make, wrong: object, tmp_path: Path
) -> None:
    path = make_session(segments=2, calls=20)
    segment = next(iter(sorted((path / "segments").glob("tx-*"))))
    meta = json.loads((segment / "meta.json").read_text())
    cases = [{key: wrong} for key in meta]
    for key in ("files", "constants", "user"):
        cases += [{key: meta[key] | {inner: wrong}} for inner in meta[key]]
    for case in cases:
        (segment / "meta.json").write_text(json.dumps(meta | case))
        try:
            _use(path)
            pack(path, tmp_path / "a.topspack", overwrite=True)
        except SessionError as error:
            assert "\n" not in str(error)
        rows = Session.open(path).tables()["tx"]
        assert rows > 0
    (segment / "meta.json").write_text(json.dumps(meta | {"rows": 2**70}))
    assert any("meta.json is damaged" in line for line in Session.open(path).ledger.lines())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_pipes_in_a_session_are_not_waited_for(make_session: Make) -> None:
    path = make_session(segments=2, calls=20)
    meta = next(iter(sorted((path / "segments").glob("tx-*")))) / "meta.json"
    meta.unlink()
    os.mkfifo(meta)
    assert any("damaged" in line for line in Session.open(path).ledger.lines())
    (path / "session.json").unlink()
    os.mkfifo(path / "session.json")
    with pytest.raises(SessionError, match="damaged"):
        Session.open(path)
