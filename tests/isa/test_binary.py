"""topsbin files: what was saved is what is loaded; anything else is one line, whatever the bytes."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.isa import binary
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.verify import verify

HEADER = struct.Struct("<8sIIQQ")


@pytest.fixture
def encoded(program):
    return binary.encode([program])


def parts(data):
    header, digest_end = HEADER.unpack(data[: HEADER.size]), HEADER.size + 32
    metadata_end = digest_end + header[3]
    return json.loads(data[digest_end:metadata_end]), data[metadata_end:]


def signed(metadata, code, *, version=binary.FORMAT_VERSION, table=binary.TABLE_VERSION):
    """A file with a right checksum, whatever it says."""
    text = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    header = HEADER.pack(b"TOPSBIN\x1a", version, table, len(text), len(code))
    return header + hashlib.sha256(header + text + code).digest() + text + code


def one_line(data):
    with pytest.raises(BinaryError) as caught:
        binary.decode(data, "k.topsbin")
    message = str(caught.value)
    assert message.startswith("k.topsbin: ")
    assert "\n" not in message
    assert len(message) < 300
    return message


@pytest.mark.smoke
def test_round_trip(tmp_path, make_program, same_programs):
    programs = (make_program("one"), make_program("two"))
    binary.save(programs, tmp_path / "k.topsbin")
    loaded = binary.load(tmp_path / "k.topsbin")
    assert len(loaded) == 2
    assert all(same_programs(a, b) for a, b in zip(programs, loaded, strict=True))
    assert [p.name for p in tmp_path.iterdir()] == ["k.topsbin"]


def test_the_same_programs_give_the_same_bytes(make_program):
    assert binary.encode([make_program()]) == binary.encode([make_program()])


def test_no_programs(tmp_path):
    binary.save([], tmp_path / "k.topsbin")
    assert binary.load(tmp_path / "k.topsbin") == ()


def test_paths_that_are_no_utf8(program, tmp_path):
    odd = dataclasses.replace(program.files[0], path=b"k\xff.py".decode("utf-8", "surrogateescape"))
    binary.save([dataclasses.replace(program, files=(odd,))], tmp_path / "k.topsbin")
    assert binary.load(tmp_path / "k.topsbin")[0].files[0].path == "k\\udcff.py"


def test_an_invalid_program_is_not_saved(program, tmp_path):
    with pytest.raises(BinaryError, match="registers"):
        binary.save([dataclasses.replace(program, tiles=70000)], tmp_path / "k.topsbin")
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_opened(tmp_path, program):
    for path in (tmp_path / "none.topsbin", tmp_path, "nul\0.topsbin"):
        with pytest.raises(BinaryError) as caught:
            binary.load(path)
        assert "\n" not in str(caught.value)
        with pytest.raises(BinaryError):
            binary.save([program], tmp_path / "none" / "k.topsbin")


def test_versions(program):
    metadata, code = parts(binary.encode([program]))
    assert "format version 2" in one_line(signed(metadata, code, version=2))
    assert "version 999 of the instructions" in one_line(signed(metadata, code, table=999))


def test_other_files_and_cut_files(program):
    data = binary.encode([program])
    assert "not a topsbin" in one_line(b"")
    assert "not a topsbin" in one_line(b"\x7fELF" + data[4:])
    for cut in range(8, len(data), 7):
        assert "damaged" in one_line(data[:cut])
    assert "damaged" in one_line(data + b"\0")


def test_every_changed_byte_is_found(program):
    data = binary.encode([program])
    rng = random.Random(1)
    for position in [*range(56), *rng.sample(range(56, len(data)), 300)]:
        changed = bytearray(data)
        changed[position] ^= 1 << rng.randrange(8)
        one_line(bytes(changed))


def test_metadata_of_other_shapes(program):
    texts = (b"", b"[]", b"{}", b'{"programs":1}', b'{"programs":[1]}', b"\xff", b"[" * 100_000, b"NaN")
    for text in texts:
        one_line(signed(text, b""))
    one_line(signed(b'{"programs":[{"instructions":' + b"9" * 5000 + b"}]}", b""))
    metadata, code = parts(binary.encode([program]))
    assert "less code" in one_line(signed(metadata, code[:-1]))
    assert "more code" in one_line(signed(metadata, code + b"\0"))
    metadata["programs"][0]["instructions"] = -1
    one_line(signed(metadata, code))


def nodes(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, child in value.items():
            yield from nodes(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from nodes(child, (*path, index))


def replaced(value, path, new):
    value = copy.deepcopy(value)
    if not path:
        return new
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return value


WRONG = (
    None, True, -1, 0, 1, 7, 65536, 1 << 31, 1 << 62, 1 << 64, -(1 << 70), 1.5, 1e308, "", "x", "\ud800",
    "a\nb", "f32", "\x1b[2J", [], [0], [[]], {}, {"float": "nan"}, {"float": "0x1p99999"}, {"float": 3},
    {"a": 1},
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False))
def test_metadata_with_any_value_anywhere(encoded, rng):
    metadata, code = parts(encoded)
    path = rng.choice(list(nodes(metadata)))
    data = signed(replaced(metadata, path, rng.choice(WRONG)), code)
    accepted_or_one_line(data)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 1 << 30), value=st.integers(0, 65535))
def test_code_with_any_number_anywhere(encoded, position, value):
    metadata, code = parts(encoded)
    changed = bytearray(code)
    struct.pack_into("<H", changed, position % (len(code) // 2) * 2, value)
    accepted_or_one_line(signed(metadata, bytes(changed)))


def accepted_or_one_line(data):
    try:
        programs = binary.decode(data, "k.topsbin")
    except BinaryError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
        return
    for program in programs:
        verify(program)
        binary.encode([program])
