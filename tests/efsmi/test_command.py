"""The efsmi command, as people and scripts use it, beside real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tops_kit.efsmi import monitor
from tops_kit.efsmi.command import main
from tops_kit.efsmi.document import SECTIONS
from tops_kit.gcu.state import Devices, devices

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOPS_DEVICES", "s60,t20")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("TOPS_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def machine() -> Iterator[Devices]:
    found = devices()
    yield found
    found.close()


@pytest.fixture
def busy(machine: Devices) -> Devices:
    """Device 0 has been half busy for its last second; this process has 3 GiB of it and 6 SIPs."""
    machine[0].memory.allocate(3 << 30)
    machine[0].sips.reserve(1, 6)
    machine[0].usage.note(0, SECOND // 2, 24)
    machine[0].usage.note_pcie(0, SECOND, up_bytes=7_000_000, down_bytes=30_000_000)
    machine[0].usage.freeze(SECOND)
    return machine


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json-format"]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


@pytest.mark.smoke
def test_before_any_program_ran(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "simulated devices, no hardware" in text.splitlines()[0]
    assert re.search(r"0  S60 +0000:01:00.0  high +38C +54/300 +0.0/24 +0% +0/49152 +0\n", text)
    assert "no process uses a device" in text
    assert "Power and temperature are models." in text
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_the_table(
    busy: Devices, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert any(re.match(r"  0  S60 .* 12.0/24 +50% +3072/49152 +0$", line) for line in lines)
    process = next(line for line in lines if str(os.getpid()) in line)
    assert process.split()[:5] == ["0", str(os.getpid()), "50%", "6", "3072"]


def test_the_documents_keys(busy: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    whole = _json(capsys, "-q")
    assert (whole["simulated"], whole["schema"], whole["configuration"]) == (True, 1, "s60,t20")
    assert [device["name"] for device in whole["devices"]] == ["s60", "t20"]
    first = whole["devices"][0]
    assert first["simulated"] is True
    assert first["memory"] == {
        "total_bytes": 48 << 30,
        "used_bytes": 3 << 30,
        "free_bytes": 45 << 30,
        "used_percent": 6.2,
        "bandwidth_bytes_per_s": 672_000_000_000,
    }
    assert first["usage"]["sip_usage_percent"] == first["usage"]["usage_percent"] == 50.0
    assert (first["usage"]["sips_busy"], first["usage"]["sips_reserved"]) == (12.0, 6)
    assert (first["power"]["model"], first["power"]["draw_w"], first["temperature"]["model"]) == (
        True,
        177.0,
        True,
    )
    assert (first["pcie"]["tx_bytes_total"], first["pcie"]["rx_bytes_total"]) == (7_000_000, 30_000_000)
    (process,) = first["processes"]
    assert (process["pid"], process["used_bytes"], process["sips_reserved"]) == (os.getpid(), 3 << 30, 6)
    assert whole["devices"][1]["processes"] == []


def test_every_key_is_in_the_documentation(
    busy: Devices, capsys: pytest.CaptureFixture[str], repo_root: Path
) -> None:
    page = (repo_root / "docs" / "efsmi.md").read_text(encoding="utf-8")
    card = busy[1].card
    main(["-i", "1", "--inject-ecc", "corrected"])
    capsys.readouterr()
    seen: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            seen.update(value)
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(_json(capsys))
    assert card.snapshot().ecc.corrected == 1
    assert [key for key in sorted(seen) if f"`{key}`" not in page] == []
    assert [section for section in SECTIONS if section not in page] == []


def test_sections(busy: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    device = _json(capsys, "-q", "-d", "memory,POWER", "-i", "0")["devices"][0]
    assert list(device) == ["index", "uuid", "name", "simulated", "power", "memory"]
    assert main(["-q", "-d", "PCIE", "-i", "0"]) == 0
    text = capsys.readouterr().out
    assert "  PCIe\n" in text
    assert re.search(r"Rx total +: 28.6 MiB \(30000000 bytes\)", text)
    assert "Memory" not in text


def test_the_list(busy: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-q"]) == 0
    text = capsys.readouterr().out
    for line in (
        "  Power (model)",
        "  Temperature (model)",
        "  Usage (last second)",
        "  Processes",
        "    none",
    ):
        assert f"{line}\n" in text
    assert re.search(r"SIP clock +: 1400 MHz", text)
    assert re.search(rf"    {os.getpid()}: \S", text)


def test_rows(busy: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dmon", "-c", "2", "-d", "0.001"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        "#",
        *["Dev", "Pwr", "DTemp", "Sip", "DUsed", "Dpm", "MUsed", "Mem", "Mclk", "TxPci", "RxPci"],
    ]
    assert [line.split()[0] for line in lines] == ["#", "#", "#", "0", "1", "0", "1"]
    assert lines[3].split() == [
        "0",
        "177",
        lines[3].split()[2],
        "50",
        "50",
        "high",
        "3072",
        "6",
        "-",
        "7.0",
        "30.0",
    ]
    assert main(["--dmon", "-c", "3", "-d", "0.001", "--json-format", "-i", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[device["index"] for device in row["devices"]] for row in rows] == [[1], [1], [1]]


def test_headings_come_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(monitor, "_HEADING_EVERY", 4)
    assert main(["--dmon", "-c", "5", "-d", "0.001"]) == 0
    kinds = "".join("#" if line[0] == "#" else "." for line in capsys.readouterr().out.splitlines())
    assert kinds == "###....###....###.."


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_rows_until_ctrl_c() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tops_kit.efsmi", "--dmon", "-d", "0.05"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("# simulated")
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == ""
    assert process.returncode == 130


def test_topology(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPS_DEVICES", "s60,2xt20")
    assert main(["--topo", "-m"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"GCU1  PCIE  X     LARE  0000:02:00.0  T20\n", text)
    assert "T20: link 300 GB/s, PCIe" in text
    assert _json(capsys, "--topo", "-m")["connection"][1] == ["pcie", "self", "link"]


def test_slices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", "0", "--list-profile"]) == 0
    assert re.search(r"1/4 +4 +6 +1 +12.0 GiB +168 GB/s\n", capsys.readouterr().out)
    assert main(["-i", "0", "--drs", "on", "--create-instance", "1/2"]) == 0
    assert "programs see them as TOPS_VISIBLE_DEVICES=0:0,0:1" in capsys.readouterr().out
    assert [device.physical for device in devices()] == ["0:0", "0:1", "1"]
    slices = _json(capsys)["devices"][0]["slices"]
    assert (slices["drs"], slices["count"], slices["instances"][1]["visible_as"]) == (True, 2, "0:1")
    assert main([]) == 0
    assert re.search(r"  0  0:1 +12 +0/24576\n", capsys.readouterr().out)
    assert main(["-L"]) == 0
    assert "  slice 0:1: 12 SIPs, 24.0 GiB (UUID: GCU-" in capsys.readouterr().out
    assert main(["-i", "0", "--destroy-instance"]) == 0
    assert [device.physical for device in devices()] == ["0", "1"]


def test_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", "1", "--power-mode", "low", "--ecc", "off"]) == 0
    device = _json(capsys_cleared(capsys), "-i", "1")["devices"][0]
    assert (device["power"]["mode"], device["power"]["limit_w"], device["ecc"]["enabled"]) == (
        "low",
        150.0,
        False,
    )
    assert main(["-i", "1", "--ecc", "on", "--inject-ecc", "uncorrected:3"]) == 0
    assert _json(capsys_cleared(capsys), "-i", "1")["devices"][0]["ecc"]["uncorrected"] == 3
    assert main(["-i", "1", "--reset", "--power-mode", "high"]) == 0
    device = _json(capsys_cleared(capsys), "-i", "1")["devices"][0]
    assert (device["ecc"]["uncorrected"], device["ecc"]["uncorrected_ever"]) == (0, 3)
    assert (device["device"]["resets"], device["power"]["mode"]) == (1, "high")


def capsys_cleared(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What was printed so far is forgotten."""
    capsys.readouterr()
    return capsys


def test_reset_of_a_device_in_use(busy: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", "0", "--reset"]) == 2
    told = capsys.readouterr().err
    assert f"can't be reset: by process {os.getpid()} (" in told
    assert told.endswith("; --force takes it from them\n")
    assert main(["-i", "0", "--reset", "--force"]) == 0
    assert "reset; 1 users lost it" in capsys.readouterr().out
    assert _json(capsys)["devices"][0]["processes"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-i", "7"], "there is no device '7': there are 0 to 1 (TOPS_DEVICES says which)"),
        (["--bogus"], "unrecognized arguments: --bogus (efsmi --help)"),
        (["-q", "-d", "FANS"], f"-d FANS: no section 'FANS': {', '.join(SECTIONS)}"),
        (["--dmon", "-d", "x"], "-d x: with --dmon, seconds between rows"),
        (["--dmon", "-d", "0"], "-d 0: seconds between rows, more than 0 and at most 86400"),
        (["--dmon", "-c", "0"], "-c 0: at least 1"),
        (["-c", "3"], "-c goes with --dmon"),
        (["-d", "MEMORY"], "-d goes with -q (sections) or --dmon (seconds)"),
        (["--dmon", "--topo"], "--dmon and --topo don't go together: give one of them"),
        (["-q", "--reset"], "a setting and -q don't go together: give one of them"),
        (["--drs", "on"], "set which device? Name one with -i, from 0 to 1"),
        (["-i", "1", "--drs", "on"], "device 1 (T20) can't be divided: its part has no virtual functions"),
        (["-i", "0", "--create-instance", "2"], "slicing of device 0 (S60) is off: efsmi -i 0 --drs on"),
        (
            ["-i", "0", "--create-instance", "x"],
            "--create-instance x: a number of slices (efsmi --list-profile)",
        ),
        (["-i", "0", "--power-mode", "warp"], "no power mode 'warp': one of high, low"),
        (
            ["-i", "0", "--inject-ecc", "all"],
            "--inject-ecc all: corrected or uncorrected, and how many: corrected:3",
        ),
        (["--exporter", "--port", "99999"], "port 99999: ports go from 0 to 65535"),
        (["--port", "1"], "--port goes with --exporter"),
        (["--force"], "--force goes with --reset"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    streams = capsys.readouterr()
    assert streams.err == f"efsmi: {said}\n"
    assert streams.out == ""


def test_no_devices(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPS_DEVICES", "none")
    for words in ([], ["-q"], ["-L"], ["--topo"], ["--dmon", "-c", "1"]):
        assert main(words) == 0
    capsys.readouterr()
    assert _json(capsys)["devices"] == []
    assert main(["--reset"]) == 2


def test_a_device_of_another_configuration(
    busy: Devices, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPS_DEVICES", "t20")
    assert main([]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"in use under another TOPS_DEVICES than 't20': device 0 s60 (process {os.getpid()})" in text
    assert _json(capsys)["other_devices"] == [{"index": 0, "part": "s60", "pids": [os.getpid()]}]


def test_a_damaged_state_is_told(busy: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    busy[0].card.state.path.write_bytes(b"nonsense" * 100_000)
    document = _json(capsys)
    assert document["devices"][0]["memory"]["used_bytes"] == 0
    assert "is not a device state: shown as unused" in document["notes"][0]


def test_it_needs_no_linux(repo_root: Path) -> None:
    """Every module of the command is importable where fcntl, and the flags of Linux's mmap, are missing."""
    program = (
        "import sys\n"
        "import http.server, tempfile  # the standard library's own may look for Windows at import\n"
        "sys.platform = 'win32'\n"
        "sys.modules['fcntl'] = None\n"
        "import types\n"
        "msvcrt = types.ModuleType('msvcrt'); sys.modules['msvcrt'] = msvcrt\n"
        "msvcrt.LK_NBLCK = msvcrt.LK_UNLCK = 0\n"
        "msvcrt.locking = lambda *a: None\n"
        "import errno; errno.EDEADLOCK = errno.EDEADLK\n"
        "from tops_kit.efsmi.command import main\n"
        "sys.exit(main(['-q', '--json-format']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["simulated"] is True


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_can_not_be_written() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tops_kit.efsmi", "-q"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "efsmi: output: No space left on device\n")


def test_a_reader_that_stops() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tops_kit.efsmi", "--dmon", "-d", "0.001"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == ""
    process.stderr.close()
