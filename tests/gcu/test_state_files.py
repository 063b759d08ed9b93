"""The state file: where it lies, and what becomes of one that is damaged, foreign, or can't be written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.gcu.state import Device, StateError, devices, place, shared
from tops_kit.gcu.state import layout as at

STANDS = r"(a process that stands still|process \d+)"


def _device(folder: Path) -> Device:
    return devices({"TOPS_STATE_DIR": str(folder)})[0]


def _write_once(folder: Path) -> Path:
    """A sound file, made by a user who has gone."""
    device = _device(folder)
    device.memory.allocate(1)
    device.close()
    return device.card.state.path


def test_settings_stay_when_no_program_runs(tmp_path: Path) -> None:
    card = _device(tmp_path).card
    card.set_power_mode("low")
    card.note_ecc(corrected=2, uncorrected=1)
    again = _device(tmp_path)
    assert again.card.snapshot().mode.name == "low"
    assert again.card.snapshot().ecc.corrected == 2
    assert again.spec.clock_hz == card.spec.clock_hz * 0.6
    again.card.reset()
    assert (again.card.snapshot().ecc.corrected, again.card.snapshot().ecc.corrected_ever) == (0, 2)


def _shorter(path: Path) -> None:
    os.truncate(path, 1000)


def _another_version(path: Path) -> None:
    _poke(path, at.H_VERSION, 99)


def _another_part(path: Path) -> None:
    _poke(path, at.H_SPEC, 5)


def _no_state(path: Path) -> None:
    path.write_bytes(b"hello" * 200_000)


def _impossible(path: Path) -> None:
    _poke(path, at.H_HIGH, 10**12)


def _poke(path: Path, word: int, value: int) -> None:
    with path.open("r+b") as file:
        file.seek(word * 8)
        file.write(value.to_bytes(8, "little", signed=True))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_shorter, "has 1000 bytes, not "),
        (_another_version, "is of another version (99, not "),
        (_another_part, "is of another part"),
        (_no_state, "is not a device state"),
        (_impossible, "is damaged"),
    ],
)
def test_a_damaged_file_is_rebuilt_with_a_note(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    path = _write_once(tmp_path)
    damage(path)
    device = _device(tmp_path)
    assert device.card.snapshot().used_bytes == 0
    assert f"{path} {said}" in device.note
    assert device.note.endswith("the next program that uses the device rebuilds it")
    device.memory.allocate(5)
    assert f"{path} {said}" in device.note
    assert device.note.endswith("the device's state was rebuilt")
    assert _device(tmp_path).card.snapshot().used_bytes == 5
    device.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.integers(0, 60_000), st.binary(min_size=1, max_size=40)), max_size=20))
def test_no_damage_is_a_crash(tmp_path: Path, places: list[tuple[int, bytes]]) -> None:
    path = _write_once(tmp_path)
    content = bytearray(path.read_bytes())
    for where, what in places:
        content[where : where + len(what)] = what
    path.write_bytes(content)
    device = _device(tmp_path)
    assert device.card.snapshot().power_w >= 0
    device.memory.allocate(5)
    assert device.memory.used_bytes == 5
    device.close()
    path.unlink()


def test_state_from_before_the_last_start_is_begun_anew(tmp_path: Path) -> None:
    path = _write_once(tmp_path)
    _poke(path, at.H_BOOT, 12345)
    device = _device(tmp_path)
    assert device.card.snapshot().used_bytes == 0
    device.memory.allocate(1)
    assert device.note == ""
    device.close()


def test_a_folder_that_was_named_and_cant_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StateError, match=rf"TOPS_STATE_DIR={file} is not a folder: name one"):
        devices({"TOPS_STATE_DIR": str(file)})
    below = devices({"TOPS_STATE_DIR": str(file / "below")})[0]
    assert below.memory.info()[0] == 48 << 30
    with pytest.raises(
        StateError, match=rf"device state can't be kept in {file}/below: Not a directory: set"
    ):
        below.memory.allocate(1)


def test_a_place_elsewhere_when_there_is_no_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(place.tempfile, "gettempdir", lambda: str(tmp_path))
    device = devices({})[0]
    device.memory.allocate(1)
    assert device.card.state.path.parent.parent == tmp_path
    assert device.note == ""
    device.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no owners")
def test_a_place_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, temporary = tmp_path / "shm", tmp_path / "temporary"
    for folder in (memory, temporary):
        folder.mkdir()
    monkeypatch.setattr(place, "_MEMORY", memory)
    monkeypatch.setattr(place.tempfile, "gettempdir", lambda: str(temporary))
    name = place.find_place({}).folder.name
    (memory / name).write_text("in the way")
    assert place.find_place({}).folder == temporary / name
    (temporary / name).symlink_to(tmp_path)
    device = devices({})[0]
    device.memory.allocate(7)
    assert device.memory.used_bytes == 7
    assert device.note == (
        f"{memory / name} is not a folder; {temporary / name} is not a folder: set TOPS_STATE_DIR to a "
        "folder of yours (until then this process has the devices for itself, and efsmi does not see it)"
    )
    with pytest.raises(StateError, match="is not a folder"):
        devices({})[0].card.set_ecc(False)
    device.close()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away"
)
def test_a_folder_that_belongs_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_MEMORY", tmp_path)
    monkeypatch.setattr(place.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = place.find_place({}).folder
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    assert place.find_place({}).why_not.startswith(f"{folder} belongs to another user")


@pytest.mark.skipif(sys.platform == "win32", reason="flock")
def test_a_lock_that_is_never_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    path = _write_once(tmp_path)
    monkeypatch.setattr(shared, "_WAIT_S", 0.01)
    monkeypatch.setattr(shared, "_READ_WAIT_S", 0.01)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        device = _device(tmp_path)
        assert device.card.snapshot().used_bytes == 0
        assert re.search(rf"is locked by {STANDS}.*: read without the lock$", device.note)
        with pytest.raises(StateError, match=rf"is locked for 0 s by {STANDS}.*: continue it .* or end it"):
            device.claim()
    device.claim()
    device.close()


HOLD = """
import fcntl, os, signal, sys
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_EX)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names who holds a lock")
def test_a_stopped_process_that_holds_the_lock_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = _write_once(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)])
    try:
        os.waitpid(holder.pid, os.WUNTRACED)
        monkeypatch.setattr(shared, "_TELL_S", 0.01)
        monkeypatch.setattr(shared, "_WAIT_S", 0.02)
        named = rf"process {holder.pid} \(.*\), which is stopped"
        with pytest.raises(StateError, match=rf"{named}: continue it \(kill -CONT\) or end it"):
            _device(tmp_path).claim()
        (told,) = capfd.readouterr().err.splitlines()
        assert re.match(rf"tops_kit: waiting up to 0 s for {named}: it has the lock of .*device0", told)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    device = _device(tmp_path)
    device.claim()
    device.close()


def test_a_file_that_is_overwritten_while_in_use(tmp_path: Path) -> None:
    device = _device(tmp_path)
    device.memory.allocate(1000)
    with device.card.state.path.open("r+b") as file:
        file.write(b"nonsense" * 60_000)
    device.memory.allocate(1)
    assert device.memory.used_bytes == 1001
    assert "is not a device state: the device's state was rebuilt" in device.note
    device.close()
    assert _device(tmp_path).memory.info()[0] == 48 << 30
