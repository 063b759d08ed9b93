"""Tables of an nsys SQLite export, and the columns of ours that they fill. The exporter writes by the same
list."""

from __future__ import annotations

from dataclasses import dataclass, field

from tops_kit.session.schema import TABLES

# Event types of NVTX_EVENTS
CATEGORY, MARK, PUSH_POP, START_END, DOMAIN = 33, 34, 59, 60, 75
STYLES = {MARK: "Mark", PUSH_POP: "PushPop", START_END: "StartEnd"}

# Enumerations of CUPTI; nsys writes them into tables of their own as well (id, name, label)
COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
MEMORY_KINDS = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
    7: "Unknown",
}
SYNC_KINDS = {
    1: "Event Synchronize",
    2: "Stream Wait Event",
    3: "Stream Synchronize",
    4: "Context Synchronize",
}


@dataclass(frozen=True, slots=True)
class Enumeration:
    """A table (id, name, label) of codes, and the meaning of those that need no table."""

    table: str
    known: dict[int, str]


COPY = Enumeration("ENUM_CUDA_MEMCPY_OPER", COPY_KINDS)
MEMORY = Enumeration("ENUM_CUDA_MEM_KIND", MEMORY_KINDS)
SYNC = Enumeration("ENUM_CUPTI_SYNC_TYPE", SYNC_KINDS)


@dataclass(frozen=True, slots=True)
class Mapped:
    """One table of nsys. `columns`: ours -> theirs, of plain numbers; `strings`: of numbers of table
    StringIds."""

    theirs: str
    ours: str
    columns: dict[str, str]
    strings: dict[str, str] = field(default_factory=dict)
    enums: dict[str, tuple[str, Enumeration]] = field(default_factory=dict)
    thread: str = ""  # their column of process and thread, globalTid or globalPid
    extra: dict[str, str] = field(
        default_factory=dict
    )  # their columns that nobody fills here: name -> SQL type

    @property
    def stated(self) -> frozenset[str]:
        """Our columns that theirs hold; all others travel under their own names."""
        return (
            frozenset(self.columns)
            | frozenset(self.strings)
            | frozenset(self.enums)
            | {"start_ns", "duration_ns"}
            | (
                {"process_id", "thread_id"}
                if self.thread == "globalTid"
                else {"process_id"}
                if self.thread
                else set()
            )
        )


_QUEUE = {
    "device_id": "deviceId",
    "context_id": "contextId",
    "stream_id": "streamId",
    "correlation_id": "correlationId",
}
_GRID = {f"{kind}_{axis}": f"{kind}{axis.upper()}" for kind in ("grid", "block") for axis in "xyz"}

MAPPED = (
    Mapped(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "kernel",
        _QUEUE
        | _GRID
        | {
            "registers": "registersPerThread",
            "shared_bytes": "dynamicSharedMemory",
            "graph_node_id": "graphNodeId",
        },
        {"name": "shortName", "full_name": "demangledName"},
        thread="globalPid",
        extra={"mangledName": "INTEGER", "staticSharedMemory": "INTEGER"},
    ),
    Mapped(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "memcpy",
        _QUEUE | {"size_bytes": "bytes", "graph_node_id": "graphNodeId"},
        enums={
            "copy_kind": ("copyKind", COPY),
            "src_kind": ("srcKind", MEMORY),
            "dst_kind": ("dstKind", MEMORY),
        },
        thread="globalPid",
    ),
    Mapped(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "memset",
        _QUEUE | {"size_bytes": "bytes", "value": "value", "graph_node_id": "graphNodeId"},
        enums={"memory_kind": ("memKind", MEMORY)},
        thread="globalPid",
    ),
    Mapped(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "sync",
        _QUEUE,
        enums={"sync_kind": ("syncType", SYNC)},
        thread="globalPid",
        extra={"eventId": "INTEGER"},
    ),
    Mapped("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "graph", _QUEUE | {"graph_id": "graphId"}, thread="globalPid"),
    Mapped(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "api",
        {"correlation_id": "correlationId", "return_value": "returnValue"},
        {"name": "nameId"},
        thread="globalTid",
        extra={"eventClass": "INTEGER"},
    ),
    Mapped(
        "OSRT_API",
        "osrt",
        {"return_value": "returnValue"},
        {"name": "nameId"},
        thread="globalTid",
        extra={"eventClass": "INTEGER"},
    ),
)
NVTX = "NVTX_EVENTS"
OWN_PREFIX = "TOPS_"  # tables of ours that nsys has no like of
THREAD_MAP = (
    "TOPS_THREAD_IDS"  # globalTid -> our process and thread, where they don't fit into its 24 bits each
)

PID_BITS = 24


def global_id(pid: int, tid: int = 0) -> int:
    """nsys's number of a thread: 24 bits each of process and thread."""
    return pid << PID_BITS | tid


_TEXTS = {
    column.name for table in TABLES.values() for column in table.columns if column.type in ("name", "text")
} | {"text", "jsonText"}
_REALS = {
    column.name for table in TABLES.values() for column in table.columns if column.type == "float64"
} | {"doubleValue", "floatValue"}


def column_type(table: str, name: str) -> str:
    """What the values of a column are, theirs or ours: `text`, `real` or `number`."""
    if table == NVTX and name == "category":  # theirs is a number, ours is its name
        return "number"
    return "text" if name in _TEXTS else "real" if name in _REALS else "number"
