"""Rings that fill up, grow, wait or drop; disks that are full; names that are too many. Nothing of it
reaches the program.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout as L

MANY = """
    import sys, topstx
    for n in range(int(sys.argv[1])):
        topstx.mark("m", payload=n)
    topstx.push_range("last"); topstx.pop_range()
"""


@pytest.mark.smoke
def test_growth_keeps_everything(program: Any) -> None:
    process = program(MANY, "20000").only
    assert [r.payload for r in process.of(L.KIND_MARK)] == list(range(20000)) and process.dropped == 0
    states = [ring["state"] for ring in process.rings]
    assert states[:-1] == [L.RING_SUPERSEDED] * (len(states) - 1) and states[-1] == L.RING_RETIRED
    serials = [ring["ring_serial"] for ring in process.rings]
    assert [ring["predecessor"] for ring in process.rings] == [0, *serials[:-1]]
    capacities = [ring["record_capacity"] for ring in process.rings]
    assert (
        len(capacities) > 2 and capacities == sorted(capacities) and all(c & (c - 1) == 0 for c in capacities)
    )
    assert capacities[-1] <= 262144 and process.rings[0]["file_bytes"] <= 65536


def test_growth_moves_open_ranges(program: Any) -> None:
    process = program("""
        import topstx
        for n in range(10): topstx.push_range(f"open {n}", payload="long payload " * n)
        for n in range(6000): topstx.mark("m")
        for n in range(5): topstx.pop_range()
    """).only
    assert [r.name for r in process.of()] == [f"open {n}" for n in (9, 8, 7, 6, 5)]
    assert [r.payload for r in process.of()] == ["long payload " * n for n in (9, 8, 7, 6, 5)]
    assert sorted(r.name for r in process.open) == [f"open {n}" for n in range(5)]


def test_drop_counts_exactly(program: Any) -> None:
    process = program(MANY, "5000", policy=L.POLICY_DROP, ring_max_records=1024).only
    kept = process.of(L.KIND_MARK)
    assert [r.payload for r in kept] == list(range(len(kept)))
    assert len(process.records) + process.dropped == 5001 and len(process.rings) == 1


def test_block_without_a_collector_becomes_drop(program: Any) -> None:
    """Nobody's heartbeat: one wait of about a second, then dropping, however often the ring is full."""
    begin = time.monotonic()
    process = program(MANY, "50000", ring_max_records=1024).only
    assert time.monotonic() - begin < 20
    assert len(process.of(L.KIND_MARK)) + process.dropped >= 50000
    assert sum(ring["blocked_ns"] for ring in process.rings) > 5 * 10**8


def test_block_waits_for_the_consumer(program: Any) -> None:
    """A slow consumer: everything comes through, and the waiting is on record."""
    folder = program.create(ring_max_records=1024)
    done, taken = threading.Event(), 0

    def beat() -> None:
        with (folder / "control").open("r+b") as control:
            while not done.is_set():
                control.seek(L.CONTROL_OFFSET["heartbeat_ns"])
                control.write(struct.pack("<Q", time.monotonic_ns()))
                control.flush()
                done.wait(0.05)

    beater = threading.Thread(target=beat)
    beater.start()
    try:
        with program.start(MANY, "6000") as process:
            while process.poll() is None:
                for path in folder.glob("rings/*.ring"):
                    with path.open("r+b") as ring:
                        header = ring.read(L.RING_HEADER_BYTES)
                        if header[:8] == L.RING_MAGIC:
                            (head,) = struct.unpack_from("<Q", header, L.RING_OFFSET["head"])
                            (tail,) = struct.unpack_from("<Q", header, L.RING_OFFSET["tail"])
                            taken += head - tail
                            ring.seek(L.RING_OFFSET["tail"])
                            ring.write(struct.pack("<Q", head))
                time.sleep(0.005)  # the consumer's own pace: this is what makes the ring fill up
            assert process.returncode == 0
    finally:
        done.set()
        beater.join()
    rings = program.read().only.rings
    assert sum(ring["dropped"] for ring in rings) == 0
    assert sum(ring["head"] for ring in rings) >= 2 * 6000 + 1
    assert sum(ring["blocked_ns"] for ring in rings) > 0
    overhead = program.read().only.of(L.KIND_OVERHEAD)
    assert all(record.name == "waiting for room in the ring" for record in overhead)


def test_process_limit(program: Any) -> None:
    process = program(MANY, "40000", policy=L.POLICY_DROP, process_max_bytes=1 << 20).only
    assert sum(ring["file_bytes"] for ring in process.rings) <= 1 << 20
    assert len(process.records) + process.dropped == 40001 and process.dropped


def test_long_and_many_names(program: Any) -> None:
    process = program("""
        import topstx
        for n in range(3000): topstx.mark(f"name {n} " + "é" * (n % 50))
        topstx.mark("x" * 100000)
    """).only
    marks = process.names(L.KIND_MARK)
    assert marks[:-1] == [f"name {n} " + "é" * (n % 50) for n in range(3000)]
    assert marks[-1].startswith("x" * 1000) and len(marks[-1]) <= 100000


@pytest.mark.slow
def test_names_past_the_limit(c_program: Any) -> None:
    process = c_program(
        """
        import topstx
        for n in range(1_001_000): topstx.mark(f"{n}")
        """,
        policy=L.POLICY_DROP,
        ring_max_records=1024,
    ).only
    assert process.header["next_id"] == L.NAMES_MAX + 1
    assert process.header["too_many"] >= 999


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("making a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"can't mount a small file system here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


FULL = """
    import threading, topstx
    def work(n):
        for i in range(3000):
            with topstx.annotate(f"thread {n} range {i}", payload="x" * 100): topstx.mark("m")
        topstx.end_range(topstx.start_range("s"))
    together = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for t in together: t.start()
    for t in together: t.join()
    print("done")
"""


def test_full_disk(program: Any, small_disk: Path) -> None:
    program.folder = small_disk / "session"
    process = program(FULL, policy=L.POLICY_DROP).only
    assert program.stdout == "done\n" and program.stderr == ""
    lost = (
        process.header["lost_names"]
        + process.header["lost_threads"]
        + process.header["lost_records"]
        + process.dropped
    )
    assert lost > 0 and process.records


def test_full_disk_before_the_start(program: Any, small_disk: Path) -> None:
    program.folder = small_disk / "session"
    program.create()
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "ballast").write_bytes(bytes(max(0, free - 8192)))
    with program.start(
        "import topstx\nwith topstx.annotate('a'): topstx.mark('b')\nprint('done')"
    ) as process:
        assert process.communicate(timeout=60) == ("done\n", "") and process.returncode == 0


def test_file_size_limit(program: Any) -> None:
    process = program("""
        import resource, topstx
        topstx.mark("before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))
        for n in range(6000): topstx.mark(f"m {n}")
        print("done")
    """, policy=L.POLICY_DROP).only  # fmt: skip
    assert program.stdout == "done\n" and process.dropped > 0


def test_folder_gone(program: Any) -> None:
    program.create(policy=L.POLICY_DROP)
    with program.start("""
        import os, shutil, threading, warnings, topstx
        warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
        topstx.mark("before")
        shutil.rmtree(os.environ["TOPSTX_SESSION"])
        for n in range(20000): topstx.mark(f"m {n}")
        t = threading.Thread(target=topstx.mark, args=("other thread",)); t.start(); t.join()
        if not os.fork():
            topstx.mark("child"); os._exit(0)
        assert os.wait()[1] == 0
        print("done")
    """) as process:  # fmt: skip
        assert process.communicate(timeout=60) == ("done\n", "") and process.returncode == 0


@pytest.mark.parametrize("damage", ["missing", "short", "magic", "version", "folder"])
def test_no_valid_session(program: Any, damage: str) -> None:
    program.create()
    control = program.folder / "control"
    if damage == "missing":
        control.unlink()
    elif damage == "short":
        control.write_bytes(control.read_bytes()[:100])
    elif damage == "magic":
        control.write_bytes(b"NOTMAGIC" + control.read_bytes()[8:])
    elif damage == "version":
        control.write_bytes(control.read_bytes()[:8] + struct.pack("<I", 99) + control.read_bytes()[12:])
    else:
        shutil.rmtree(program.folder)
    with program.start("import topstx; topstx.mark('m'); print(topstx.is_recording())") as process:
        assert process.communicate(timeout=60) == ("False\n", "")


def test_closing_all_descriptors_is_harmless(program: Any) -> None:
    process = program("""
        import os, topstx
        topstx.mark("before")
        os.closerange(3, 1024)
        for n in range(5000): topstx.mark(f"m {n}")
    """).only
    assert len(process.of(L.KIND_MARK)) == 5001
