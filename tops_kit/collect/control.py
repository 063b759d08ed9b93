"""The `control` file: the switches that tools write and recorded programs read, mapped.

control = create(folder, policy="drop")     # the collector's side makes it
control = open_control(folder)              # anyone else
control.recording = RECORDING_OFF
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from topstx.recorder import layout

from tops_kit.errors import SessionError

FILE = "control"
POLICIES = {"block": layout.POLICY_BLOCK, "drop": layout.POLICY_DROP}


def _field(name: str, doc: str, wide: bool = False) -> property:
    offset, format_ = layout.CONTROL_OFFSET[name], "<Q" if wide else "<I"

    def read(self: Control) -> int:
        return int(struct.unpack_from(format_, self.memory, offset)[0])

    def write(self: Control, value: int) -> None:
        # One aligned store of the field's width, so that other processes never see half of it.
        view = memoryview(self.memory)[offset : offset + struct.calcsize(format_)].cast("Q" if wide else "I")
        view[0] = int(value)

    return property(read, write, doc=doc)


class Control:
    """The mapped control file. Attributes read and write it at once; integers as in topstx_layout.h."""

    policy = _field("policy", "POLICY_BLOCK or POLICY_DROP")
    recording = _field("recording", "RECORDING_OFF, _ON or _ARMED")
    clock = _field("clock", "CLOCK_MONOTONIC or CLOCK_TSC")
    ring_initial_bytes = _field("ring_initial_bytes", "size of a thread's first ring file, bytes")
    ring_max_records = _field("ring_max_records", "slots up to which a ring grows")
    process_max_bytes = _field("process_max_bytes", "all ring files of one process, bytes", wide=True)
    heartbeat = _field("heartbeat_ns", "CLOCK_MONOTONIC of the collector's last round, ns", wide=True)
    collector_pid = _field("collector_pid", "process number of the collector", wide=True)
    capture_end = _field("capture_end", "what the end of a captured range does")
    capture_repeats = _field("capture_repeats", "ranges to capture with CAPTURE_END_REPEAT; 0: no end")
    capture_skip = _field("capture_skip", "ranges that still pass by before one is captured")
    capture_count = _field("capture_count", "ranges captured so far")
    shutdown_request = _field(
        "shutdown_request", "1: a captured range ended and the session shall be shut down"
    )
    lost_processes = _field("lost_processes", "processes that could not make their files")
    rows_off = _field("rows_off", "bit k: records of kind k are not wanted", wide=True)
    backtrace = _field("backtrace", "frames of a runtime call's stack to record")
    metrics = _field("metrics", "METRICS_*, bits: counters of launches to record")

    def __init__(self, path: Path, memory: mmap.mmap) -> None:
        self.path = path
        self.memory = memory

    def text(self, name: str) -> str:
        """capture_name, capture_domain, kernel_include or kernel_exclude."""
        sizes = {"capture_name": 512, "capture_domain": 256, "kernel_include": 512, "kernel_exclude": 512}
        offset = layout.CONTROL_OFFSET[name]
        return (
            bytes(self.memory[offset : offset + sizes[name]]).partition(b"\0")[0].decode("utf-8", "replace")
        )


def create(
    folder: str | Path,
    *,
    policy: str = "block",
    recording: int = layout.RECORDING_ON,
    clock: int = layout.CLOCK_MONOTONIC,
    ring_initial_bytes: int = 65536,
    ring_max_records: int = 262144,
    process_max_bytes: int = 268435456,
    capture_name: str = "",
    capture_domain: str = "",
    capture_end: int = layout.CAPTURE_END_NONE,
    capture_repeats: int = 0,
    capture_skip: int = 0,
    domain_include: Iterable[str] = (),
    domain_exclude: Iterable[str] = (),
    rows_off: int = 0,
    backtrace: int = 0,
    metrics: int = 0,
    kernel_include: str = "",
    kernel_exclude: str = "",
) -> Control:
    """Make the control file of a session folder (which exists), with `rings/` and `names/`, and map it.

    The file appears complete: a program that finds it can use it. SessionError when there is one already or
    it can't be made.
    """
    if policy not in POLICIES:
        raise SessionError(f"unknown policy {policy!r}: use {' or '.join(POLICIES)}")
    folder = Path(folder)
    path = folder / FILE
    body = layout.control_bytes(
        policy=POLICIES[policy],
        recording=recording,
        clock=clock,
        ring_initial_bytes=ring_initial_bytes,
        ring_max_records=ring_max_records,
        process_max_bytes=process_max_bytes,
        capture_name=capture_name,
        capture_domain=capture_domain,
        capture_end=capture_end,
        capture_repeats=capture_repeats,
        capture_skip=capture_skip,
        domain_include=tuple(domain_include),
        domain_exclude=tuple(domain_exclude),
        rows_off=rows_off,
        backtrace=backtrace,
        metrics=metrics,
        kernel_include=kernel_include,
        kernel_exclude=kernel_exclude,
    )
    temporary = folder / f".{FILE}.{os.getpid()}.tmp"
    try:
        (folder / "rings").mkdir(exist_ok=True)
        (folder / "names").mkdir(exist_ok=True)
        temporary.write_bytes(body)
        os.link(temporary, path)
    except FileExistsError as error:
        raise SessionError(f"{folder} is already being recorded; choose another folder") from error
    except OSError as error:
        raise SessionError(f"cannot record in {folder}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return open_control(folder)


def open_control(folder: str | Path) -> Control:
    """Map the control file of a session that is being recorded. SessionError when there is no valid one."""
    path = Path(folder) / FILE
    try:
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), layout.CONTROL_BYTES)
    except FileNotFoundError as error:
        raise SessionError(f"{folder} is not being recorded") from error
    except (OSError, ValueError) as error:
        raise SessionError(f"cannot open {path}: {error}") from error
    magic, version = struct.unpack_from("<8sI", memory, 0)
    if magic != layout.CONTROL_MAGIC or version != layout.LAYOUT_VERSION:
        raise SessionError(f"{path} is damaged or of another version; record again")
    return Control(path, memory)
