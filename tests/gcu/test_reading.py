"""Parts from files of one's own, and files with something wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tops_kit.gcu.reading as reading
from tops_kit import gcu
from tops_kit.errors import UserError

_S60 = (Path(reading.__file__).parent / "parts" / "s60.toml").read_text(encoding="utf-8")


def _write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.smoke
def test_a_part_based_on_another(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        """
        [part]
        name = "big"
        base = "s60"
        [memory]
        l3_bytes_per_s = 1_000_000_000_000  # a figure of one's own needs no source
        [dte.dte_latency_cycles]
        l3 = { value = 500, source = "measured on our prototype" }
        """,
    )
    spec, base = gcu.load(path), gcu.load("s60")
    assert (spec.name, spec.title, spec.architecture) == ("big", "big (after S60)", "gcu300")
    assert spec.l3_bytes_per_s == 10**12
    assert dict(spec.dte_latency_cycles) == {"l3": 500, "l2": 120, "l1": 40}
    sources = {figure.name: figure.source for figure in spec.figures()}
    assert sources["l3_bytes_per_s"] == "given in mine.toml"
    assert sources["dte_latency_cycles.l3"] == "measured on our prototype"
    assert sources["dte_latency_cycles.l2"] == base.sources["dte_latency_cycles.l2"]
    assert spec.assumed() == base.assumed() - 1
    assert gcu.load(str(path)).hash == spec.hash != base.hash


def test_a_whole_part_of_ones_own(tmp_path: Path) -> None:
    assert gcu.load(_write(tmp_path, _S60)).hash == gcu.load("s60").hash


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert gcu.load(_write(tmp_path, "\ufeff" + _S60)).name == "s60"


_MINE = '[part]\nname = "x"\nbase = "s60"\n'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[part\n", 1, "']'"),
        (_MINE + "[memory]\nl3_bytes = \n", 5, "Invalid value"),
        (_MINE + '[memory]\nl3_bytes = "', 5, "Unterminated"),
        (_MINE + "[memory]\nl3_byts = 5\n", 5, "unknown key 'l3_byts' in [memory]: one of l2_bytes"),
        (_MINE + "[memry]\nl3_bytes = 5\n", 4, "unknown table [memry]: one of part, device"),
        (_MINE + "color = 1\n", 4, "unknown key 'color' in [part]"),
        ('[part]\nname = "x"\nbase = "s61"\n', 3, "no part 's61' to base on: one of i20, s60, t20"),
        ('[part]\nname = 7\nbase = "s60"\n', 2, "name has to be a text, not 7"),
        ('[part]\nbase = "s60"\n', 1, 'missing: name = "..." in [part]'),
        (_MINE + "\n[device]\nclock_hz = -5\n", 6, "clock_hz = -5: has to be at least 1000000 (Hz)"),
        (_MINE + "[device]\nclusters = 0\n", 5, "clusters = 0: has to be at least 1"),
        (_MINE + "[device]\nclusters = 1.5\n", 5, "clusters = 1.5: has to be a whole number"),
        (_MINE + "[device]\nclusters = true\n", 5, "clusters has to be a number, not True"),
        (_MINE + '[device]\nclusters = "2"\n', 5, "clusters has to be a number, not '2'"),
        (_MINE + "[device]\nclusters = 256\nsips_per_cluster = 256\n", 5, "65536 SIPs: at most 4096"),
        (_MINE + "[dte]\ndte_channels = 31\n", 5, "dte_channels = 31: has to be at most 30"),
        (_MINE + "[dte]\nport_bytes_per_cycle = nan\n", 5, "port_bytes_per_cycle = nan"),
        (_MINE + "[dte]\nport_bytes_per_cycle = 0\n", 5, "port_bytes_per_cycle = 0: has to be at least"),
        (
            _MINE + "[dte]\ndte_latency_cycles = 5\n",
            5,
            "dte_latency_cycles has to be a table with l3, l2, l1",
        ),
        (_MINE + "[dte.dte_latency_cycles]\nl4 = 5\n", 5, "unknown key 'l4' in dte_latency_cycles"),
        (_MINE + "[dte]\ndte_latency_cycles.l2 = -1\n", 5, "dte_latency_cycles.l2 = -1"),
        (_MINE + "[dte]\ndte_latency_cycles = { l2 = -1 }\n", 5, "dte_latency_cycles.l2 = -1"),
        (_MINE + "[device]\nclusters = { value = 2 }\n", 5, "missing: source of clusters"),
        (_MINE + '[device]\nclusters = { source = "x" }\n', 5, "missing: value of clusters"),
        (_MINE + '[device]\nclusters = { value = 2, source = "" }\n', 5, "source of clusters"),
        (_MINE + '[device]\nclusters = { value = 2, source = "x", note = 1 }\n', 5, "unknown key 'note'"),
        (_MINE + '[device]\nclusters = { value = 2, unit = "SIPs", source = "x" }\n', 5, "unit of clusters"),
        (_MINE + "[memory]\nl2_reserved_bytes = 100_000_000\n", 5, "more than l2_bytes"),
        ("device = 5\n" + _MINE, 1, "device has to be a table: [device]"),
        ("part = 5\n", 1, "part has to be a table: [part]"),
        (_S60.replace("l3_bytes_per_s =", "#"), 50, "missing: l3_bytes_per_s in [memory] (bytes/s)"),
        (_S60.replace("\nbf16 = { value = 2048", "\n# {"), 34, "missing: macs_per_cycle.bf16 in [matrix]"),
        ("", 1, 'missing: name = "..." in [part]'),
    ],
)
def test_a_wrong_file_names_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(gcu.SpecificationError) as caught:
        gcu.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert words in message
    assert "\n" not in message
    assert isinstance(caught.value, UserError)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(gcu.SpecificationError, match="No such file"):
        gcu.load(tmp_path / "none.toml")
    with pytest.raises(gcu.SpecificationError, match="no part 'z60': one of i20, s60, t20, or the path"):
        gcu.load("z60")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"name = '\xff'")
    with pytest.raises(gcu.SpecificationError, match="not UTF-8"):
        gcu.load(bad)
    with pytest.raises(gcu.SpecificationError, match="directory"):
        gcu.load(tmp_path)


@given(data=st.data())
def test_a_damaged_file_gives_a_part_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = _S60.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        k = data.draw(st.integers(0, len(lines) - 1))
        lines[k] = data.draw(st.sampled_from([lines[k][:7], "", "[dte]", "x = 1", lines[k] + "9", "\x00"]))
    path = _write(tmp_path_factory.getbasetemp(), "\n".join(lines))
    try:
        spec = gcu.load(path)
    except gcu.SpecificationError as error:
        assert str(error).startswith(f"{path}:")
        assert "\n" not in str(error)
    else:
        assert spec.figures()
