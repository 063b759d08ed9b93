"""The facts of topstx_layout.h for Python: struct formats, offsets and constants. A test compares them with
the C header.

`*_FORMAT` are formats for `struct` (little-endian, no padding but what they spell); `*_FIELDS` are the
fields' names in order, without the padding. `CONTROL_OFFSET["recording"]` and its siblings are byte
offsets of single fields from the begin of the file.
"""

from __future__ import annotations

import struct

LAYOUT_VERSION = 1
PAGE = 4096

RECORDING_OFF, RECORDING_ON, RECORDING_ARMED = 0, 1, 2
POLICY_BLOCK, POLICY_DROP = 0, 1
CAPTURE_END_NONE, CAPTURE_END_STOP, CAPTURE_END_STOP_SHUTDOWN, CAPTURE_END_REPEAT = 0, 1, 2, 3
CLOCK_MONOTONIC, CLOCK_TSC = 0, 1
RING_BUILDING, RING_LIVE, RING_SUPERSEDED, RING_IDLE, RING_RETIRED = 0, 1, 2, 3, 4
KIND_NONE, KIND_RANGE, KIND_MARK, KIND_COUNTER, KIND_THREAD, KIND_THREAD_END, KIND_OVERHEAD, KIND_MORE = (
    range(8)
)
KIND_CALL, KIND_CALLS_SKIPPED = 8, 9
CALL_RESUMED, CALL_YIELDED, CALL_C = 8, 16, 32
KIND_TABLE_FIRST, KIND_TICKS_FIRST = 16, 48
ROW_LATE = 128
FLAG_ERROR, FLAG_UNFINISHED, FLAG_MORE, FLAG_START_END = 1, 2, 4, 8
FLAG_TRUNCATED, FLAG_CAPTURE, FLAG_PUSHED, FLAG_HIDDEN = 16, 32, 64, 128
MORE_INT, MORE_FLOAT, MORE_STR, MORE_BYTES, MORE_JSON, MORE_END_TID, MORE_ERROR, MORE_BODY = range(1, 9)
PAYLOAD_MAX = 16384
MORE_DATA = 30
MORE_CONTINUES = 0x80
NAME_TOO_MANY = 1
NAMES_MAX = 1_000_000
BACKEND_C, BACKEND_TWIN, BACKEND_HEADER = 1, 2, 3
METRICS_ROOFLINE, METRICS_MEMORY, METRICS_STALLS, METRICS_LINES = 1, 2, 4, 8
ENTRY_NAME, ENTRY_DOMAIN, ENTRY_CATEGORY, ENTRY_ATTR, ENTRY_THREAD, ENTRY_COUNTER, ENTRY_PROCESS = range(1, 8)
ENTRY_CODE = 8

CONTROL_MAGIC = b"TOPSCTL1"
CONTROL_FORMAT = "<8s5IIQQQ4I512s256s1024s1024sIIQII512s512s"
CONTROL_FIELDS = [
    "magic", "layout_version", "policy", "recording", "clock", "ring_initial_bytes", "ring_max_records",
    "process_max_bytes", "heartbeat_ns", "collector_pid", "capture_end", "capture_repeats",
    "capture_count", "shutdown_request", "capture_name", "capture_domain", "domain_include",
    "domain_exclude", "lost_processes", "capture_skip", "rows_off", "backtrace", "metrics", "kernel_include",
    "kernel_exclude",
]  # fmt: skip
CONTROL_BYTES = PAGE

RING_MAGIC = b"TOPSRNG1"
RING_FORMAT = "<8sIIQQQIIQQQQQ40xQQQQQII80xQ56x"
RING_FIELDS = [
    "magic", "layout_version", "clock", "process_serial", "ring_serial", "predecessor", "pid", "shared",
    "open_offset", "open_capacity", "record_offset", "record_capacity", "file_bytes", "head", "dropped",
    "blocked_ns", "unbalanced", "last_tick", "state", "tid", "tail",
]  # fmt: skip
RING_HEADER_BYTES = 320

OPEN_FORMAT = "<QQIIIIHBBIII16s"
OPEN_FIELDS = [
    "begin_tick", "context", "name", "attr", "tid", "task", "depth", "kind", "flags", "next_free",
    "previous", "following", "payload",
]  # fmt: skip
OPEN_BYTES = 64

RECORD_FORMAT = "<QQIIIHBB"
RECORD_FIELDS = ["begin_tick", "end_tick", "name", "task", "attr", "depth", "kind", "flags"]
RECORD_BYTES = 32

MORE_FORMAT = "<30sBB"
MORE_FIELDS = ["data", "kind", "used"]

CUTS_MAGIC = b"TOPSCUT1"
CUTS_VIRTUAL, CUTS_MODEL = 0, 1
CUTS_LOCK_BYTE, CUTS_PRESENCE_BYTE = 1 << 40, (1 << 40) + 1
CUTS_WINDOW = 4096
CUTS_PIDS = 64
CUTS_FORMAT = "<8sIIQQqqqQQQQQQQI4x256s"
CUTS_FIELDS = [
    "magic", "layout_version", "mode", "sequence", "open_begin", "open_session", "frozen", "shift", "entries",
    "open_process", "processes", "simulator_ns", "jumped_ns", "hidden_ns", "lost_entries", "order_measured",
    "pids",
]  # fmt: skip
CUTS_ENTRIES_OFFSET = PAGE
CUT_FORMAT = "<qqqqQ"
CUT_FIELDS = ["begin_raw", "end_raw", "session_begin", "session_end", "process_serial"]
CUT_BYTES = 40

NAMES_MAGIC = b"TOPSNAM1"
NAMES_FORMAT = "<8sIIQQIIIIQQQQQIIiIQQQQQQQ"
NAMES_FIELDS = [
    "magic", "layout_version", "backend", "process_serial", "parent_serial", "parent_count", "pid",
    "parent_pid", "clock", "start_tick", "start_monotonic_ns", "start_realtime_ns", "proc_start",
    "committed_bytes", "next_id", "exit_known", "exit_status", "too_many", "end_tick", "lost_threads",
    "lost_records", "lost_names", "bad_samples", "bad_ends", "cut_names",
]  # fmt: skip
NAMES_HEADER_BYTES = 160
NAMES_ENTRIES_OFFSET = PAGE

ENTRY_FORMAT = "<IHHII"
ENTRY_FIELDS = ["bytes", "kind", "reserved", "id", "body_bytes"]
ENTRY_BYTES = 16


def _offsets(layout: str, fields: list[str]) -> dict[str, int]:
    """Byte offset of each field of a format that spells its padding."""
    items: list[tuple[str, bool]] = []
    digits = ""
    for letter in layout[1:]:
        if letter.isdigit():
            digits += letter
            continue
        if letter in "sx":
            items.append((digits + letter, letter == "s"))
        else:
            items.extend([(letter, True)] * int(digits or 1))
        digits = ""
    found: dict[str, int] = {}
    offset, names = 0, iter(fields)
    for item, named in items:
        if named:
            found[next(names)] = offset
        offset += struct.calcsize("<" + item)
    return found


CONTROL_OFFSET = _offsets(CONTROL_FORMAT, CONTROL_FIELDS)
RING_OFFSET = _offsets(RING_FORMAT, RING_FIELDS)
OPEN_OFFSET = _offsets(OPEN_FORMAT, OPEN_FIELDS)
RECORD_OFFSET = _offsets(RECORD_FORMAT, RECORD_FIELDS)
NAMES_OFFSET = _offsets(NAMES_FORMAT, NAMES_FIELDS)
CUTS_OFFSET = _offsets(CUTS_FORMAT, CUTS_FIELDS)
CUT_OFFSET = _offsets(CUT_FORMAT, CUT_FIELDS)


def control_bytes(
    *,
    policy: int = POLICY_BLOCK,
    recording: int = RECORDING_ON,
    clock: int = CLOCK_MONOTONIC,
    ring_initial_bytes: int = 65536,
    ring_max_records: int = 262144,
    process_max_bytes: int = 268435456,
    heartbeat_ns: int = 0,
    collector_pid: int = 0,
    capture_end: int = CAPTURE_END_NONE,
    capture_repeats: int = 0,
    capture_skip: int = 0,
    capture_name: str = "",
    capture_domain: str = "",
    domain_include: tuple[str, ...] = (),
    domain_exclude: tuple[str, ...] = (),
    rows_off: int = 0,
    backtrace: int = 0,
    metrics: int = 0,
    kernel_include: str = "",
    kernel_exclude: str = "",
) -> bytes:
    """The 4096 bytes of a `control` file. Names are cut to what their fields hold."""

    def listed(names: tuple[str, ...]) -> bytes:
        return b"".join(name.encode() + b"\0" for name in names)[:1022]

    body = struct.pack(
        CONTROL_FORMAT,
        CONTROL_MAGIC,
        LAYOUT_VERSION,
        policy,
        recording,
        clock,
        ring_initial_bytes,
        ring_max_records,
        process_max_bytes,
        heartbeat_ns,
        collector_pid,
        capture_end,
        capture_repeats,
        0,
        0,
        capture_name.encode()[:511],
        capture_domain.encode()[:255],
        listed(domain_include),
        listed(domain_exclude),
        0,
        capture_skip,
        rows_off,
        backtrace,
        metrics,
        kernel_include.encode()[:511],
        kernel_exclude.encode()[:511],
    )
    return body.ljust(CONTROL_BYTES, b"\0")


def ring_file_name(process_serial: int, ring_serial: int) -> str:
    """Name of a ring file in `rings/`."""
    return f"{process_serial:016x}-{ring_serial}.ring"


def names_file_name(process_serial: int) -> str:
    """Name of a names file in `names/`."""
    return f"{process_serial:016x}.names"
