"""Rows of other tables than TX: what the runtime records of a device. The one definition for writers (the
runtime's sink, C programs by `topstx_row` or the capsule) and readers (the collector).

A row is a record of kind 16 and up with a body in MORE slots. Of the record itself, `begin` and `end` are
session ns, `name` is the row's name, `task` its correlation id (the low 32 bits), `attr` the name of the
innermost TX range that was open. The body is a struct of the kind's fields, little-endian, without
padding, and after it, for kinds that say so, UTF-8 text. Fields are only ever appended: a reader takes a
shorter body of an older writer as if it ended in zeros.

27 bytes of a body fit into the first MORE slot and 30 into each further one: sizes are chosen by that.
"""

# Only what `import topstx` has loaded already: recorded programs import this.

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from topstx.recorder.interface import Backend

KIND_API: Final = 16
KIND_KERNEL: Final = 17
KIND_MEMCPY: Final = 18
KIND_MEMSET: Final = 19
KIND_MEMORY: Final = 20
KIND_SYNC: Final = 21
KIND_GRAPH: Final = 22
KIND_KERNEL_LINE: Final = 23
KIND_KERNEL_METRIC: Final = 24
KIND_GCU_EVENT: Final = 25
KIND_EXTERNAL: Final = 26
KIND_RUNTIME_OVERHEAD: Final = 27
KIND_BACKTRACE: Final = 28
KIND_STREAM_RACE: Final = 29
KIND_DEVICE: Final = 30
KIND_PRINT: Final = 31
KIND_HOST_FUNCTION: Final = 32
KIND_DRIVER_API: Final = 33
KIND_GRAPH_NODE: Final = 34
KIND_PYMEM: Final = 48  # its times are ticks
KIND_OSRT: Final = 49  # its times are ticks
KIND_OSRT_SHORT: Final = 50  # the same

TEXT_MAX: Final = 16000  # bytes of the text after a body

NONE: Final = -1  # of signed fields: there is none

# What small numbers in bodies mean. Append only.
API_DOMAINS: Final = ("unknown", "driver", "runtime")
COPY_KINDS: Final = ("unknown", "HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoSymbol", "SymbolToH")
MEMORY_KINDS: Final = ("Unknown", "Pageable", "Pinned", "Device", "Constant")
SYNC_KINDS: Final = ("unknown", "device", "stream", "event", "stream wait event", "blocking call")
MEMORY_OPERATIONS: Final = ("unknown", "alloc", "free")
MEMORY_DOMAINS: Final = ("raw", "mem", "object", "numpy")  # allocators of Python programs
FLAG_ASYNC: Final = 1  # of a copy or fill: its call doesn't wait for it
FLAG_COOPERATIVE: Final = 1  # of a kernel


class RowKind:
    """One kind of row. `fields` are (name, code of `struct`, what it means); `body` packs them in order."""

    __slots__ = ("body", "fields", "instant", "number", "table", "text")

    def __init__(
        self,
        number: int,
        table: str,
        fields: Sequence[tuple[str, str, str]],
        *,
        instant: bool = False,
        text: str = "",
    ) -> None:
        self.number = number
        self.table = table
        self.fields = tuple(fields)
        self.body = Struct("<" + "".join(code for _, code, _ in fields))
        self.instant = instant  # end is begin
        self.text = text  # what the text after the fields is; "": there is none

    @property
    def dtype(self) -> list[tuple[str, str]]:
        """The body for numpy: numpy.dtype(kind.dtype)."""
        return [(name, _NUMPY[code]) for name, code, _ in self.fields]

    @property
    def ring_slots(self) -> int:
        """Slots of 32 bytes that a row takes in a ring, text aside."""
        return 1 + (3 + self.body.size + 29) // 30


_NUMPY = {
    "q": "<i8", "Q": "<u8", "i": "<i4", "I": "<u4", "h": "<i2", "H": "<u2", "b": "i1", "B": "u1", "d": "<f8",
}  # fmt: skip

_PLACE = (
    ("stream_id", "i", "stream"),
    ("context_id", "h", "context"),
    ("device_id", "h", "device"),
)
_TIMES = (
    ("queued_ns", "q", "begin of the call that asked for it, session ns"),
    ("submit_ns", "q", "handed to the device, session ns"),
    ("contention_ns", "q", "of its length: stretched by sharing L3 and links"),
)
_GRAPH = (("graph_id", "I", "graph, 0: none"), ("graph_node_id", "I", "node of it, 0: none"))

_CALL = (
    ("return_value", "i", "status"),
    ("stack_id", "I", "innermost frame that called it, see KIND_BACKTRACE; 0: not recorded"),
    ("stream_id", "i", "stream; NONE"),
    ("cbid", "H", "number of the API"),
    ("device_id", "h", "device"),
    ("domain", "B", "API_DOMAINS"),
)

_KINDS = (
    RowKind(KIND_API, "api", _CALL),
    RowKind(
        KIND_KERNEL,
        "kernel",
        (
            *_TIMES,
            ("grid_x", "I", "blocks"),
            ("grid_y", "I", "blocks"),
            ("grid_z", "I", "blocks"),
            ("block_x", "I", "threads of a block"),
            ("block_y", "I", "threads of a block"),
            ("block_z", "I", "threads of a block"),
            ("full_name", "I", "name id of the full name"),
            *_PLACE,
            *_GRAPH,
            ("metric_id", "I", "its counters, see KIND_KERNEL_METRIC; 0: not recorded"),
            ("grid_id", "I", "number of the launch in its process"),
            ("clusters", "H", "clusters it held"),
            ("flags", "B", "FLAG_COOPERATIVE"),
        ),
    ),
    RowKind(
        KIND_MEMCPY,
        "memcpy",
        (
            ("size_bytes", "Q", "bytes"),
            *_TIMES,
            *_PLACE,
            *_GRAPH,
            ("copy_kind", "B", "COPY_KINDS"),
            ("src_kind", "B", "MEMORY_KINDS"),
            ("dst_kind", "B", "MEMORY_KINDS"),
            ("flags", "B", "FLAG_ASYNC"),
            ("src_device_id", "h", "NONE: the host"),
            ("dst_device_id", "h", "NONE: the host"),
        ),
    ),
    RowKind(
        KIND_MEMSET,
        "memset",
        (
            ("size_bytes", "Q", "bytes"),
            *_TIMES,
            *_PLACE,
            *_GRAPH,
            ("value", "I", "what is stored"),
            ("memory_kind", "B", "MEMORY_KINDS"),
            ("element_bytes", "B", "of the value"),
            ("flags", "B", "FLAG_ASYNC"),
        ),
    ),
    RowKind(
        KIND_MEMORY,
        "memory",
        (
            ("address", "Q", "address"),
            ("size_bytes", "Q", "bytes"),
            ("in_use_bytes", "Q", "of the process on the device, after it"),
            ("serial", "Q", "number of the allocation in its process"),
            ("pool_id", "I", "pool, 0: none"),
            *_PLACE,
            ("stack_id", "I", "innermost frame that called it; 0: not recorded"),
            ("note", "I", "name id: where it was allocated; 0: none"),
            ("operation", "B", "MEMORY_OPERATIONS"),
            ("memory_kind", "B", "MEMORY_KINDS"),
        ),
        instant=True,
    ),
    RowKind(
        KIND_SYNC,
        "sync",
        (("event_id", "Q", "event, 0: none"), *_PLACE, ("sync_kind", "B", "SYNC_KINDS")),
    ),
    RowKind(
        KIND_GRAPH,
        "graph",
        (
            ("queued_ns", "q", "begin of the call that asked for it, session ns"),
            ("submit_ns", "q", "handed to the device, session ns"),
            ("graph_id", "I", "the graph"),
            ("exec_id", "I", "its executable form"),
            ("nodes", "I", "nodes that ran"),
            *_PLACE,
        ),
    ),
    RowKind(
        KIND_KERNEL_LINE,
        "kernel_line",
        (
            ("value", "d", "over all SIPs"),
            ("metric_id", "I", "which counters it belongs to, see KIND_KERNEL_METRIC"),
            ("counter", "I", "name id of the counter"),
            ("file", "I", "name id of the source file"),
            ("line", "I", "line"),
        ),
        instant=True,
    ),
    RowKind(
        KIND_KERNEL_METRIC,
        "kernel_metric",
        (
            ("value", "d", "of the launch, over all SIPs"),
            ("metric_id", "I", "launches with the same counters share them by this number, from 1"),
            ("counter", "I", "name id of the counter"),
        ),
        instant=True,
    ),
    RowKind(KIND_GCU_EVENT, "gcu_event", (("event_id", "Q", "event"), *_PLACE), instant=True),
    RowKind(
        KIND_EXTERNAL,
        "external",
        (("external_id", "Q", "somebody else's number"), ("external_kind", "I", "whose")),
        instant=True,
    ),
    RowKind(KIND_RUNTIME_OVERHEAD, "overhead", (("note", "I", "name id; 0: none"),)),
    RowKind(
        KIND_BACKTRACE,
        "stack",
        (
            ("stack_id", "I", "number of the frame with its callers in its process, from 1"),
            ("parent_id", "I", "that of its caller, 0: none"),
            ("file", "I", "name id of the source file"),
            ("line", "I", "line"),
        ),
        instant=True,
    ),
    RowKind(
        KIND_STREAM_RACE,
        "stream_race",
        (
            ("address", "Q", "of the bytes that both use"),
            ("size_bytes", "Q", "how many"),
            ("second", "I", "name id of the second operation; the row's name is the first"),
            ("second_correlation_id", "I", "its call"),
            ("first_stack", "I", "name id: where it was asked for; 0: unknown"),
            ("second_stack", "I", "name id: where it was asked for; 0: unknown"),
            ("device_id", "h", "device"),
        ),
        instant=True,
    ),
    RowKind(
        KIND_DEVICE,
        "device",
        (
            ("spec_name", "I", "name id of the part"),
            ("spec_hash", "I", "name id of the hash of its specification"),
            ("slice_name", "I", "name id; 0: a whole device"),
            ("cost_model", "I", "version of the cost model"),
            ("device_id", "h", "device"),
        ),
        instant=True,
        text="specification, a JSON object",
    ),
    RowKind(
        KIND_PRINT,
        "print",
        (
            ("stream_id", "i", "stream"),
            ("device_id", "h", "device"),
            ("block", "i", "that printed it; NONE"),
            ("thread", "i", "of the launch; NONE"),
        ),
        instant=True,
        text="the line",
    ),
    RowKind(KIND_HOST_FUNCTION, "host_function", (*_PLACE, *_GRAPH)),
    RowKind(KIND_DRIVER_API, "api", _CALL),
    RowKind(
        KIND_GRAPH_NODE,
        "graph_node",
        (
            ("graph_id", "I", "the graph; the row's name is the node's"),
            ("exec_id", "I", "its executable form"),
            ("graph_node_id", "I", "the node, from 1"),
            ("node_kind", "I", "name id: kernel, memcpy, ..."),
            ("device_id", "h", "where it runs"),
        ),
        instant=True,
        text="nodes that it waits for, a JSON list of their numbers",
    ),
    RowKind(
        KIND_OSRT,
        "osrt",
        (
            ("return_value", "q", "what the call returned"),
            ("size_bytes", "q", "bytes that it moved; NONE: it moves none"),
            ("target", "I", "name id of the path, peer or lock; 0: none"),
            ("fd", "i", "descriptor; NONE"),
            ("error", "H", "errno, 0: none"),
        ),
    ),
    RowKind(
        KIND_OSRT_SHORT,
        "osrt_short",
        (
            ("calls", "Q", "calls that were too short to be recorded"),
            ("total_ns", "Q", "what they took"),
            ("size_bytes", "Q", "what they moved"),
        ),
        instant=True,
    ),
    RowKind(
        KIND_PYMEM,
        "pymem",
        (
            ("serial", "Q", "number of the sampled allocation in its process, from 1"),
            ("size_bytes", "Q", "bytes that were asked for"),
            ("heap_bytes", "q", "estimated bytes in use of the process, after it"),
            ("weight_bytes", "d", "bytes of all allocations that it stands for"),
            ("stack_id", "I", "innermost frame that called it, see KIND_BACKTRACE; 0: no Python"),
            ("operation", "B", "MEMORY_OPERATIONS"),
            ("allocator", "B", "MEMORY_DOMAINS"),
        ),
        instant=True,
    ),
)

KINDS: Final = {kind.number: kind for kind in _KINDS}


class RowWriter:
    """Writes rows of this process through a back end of topstx. Cheap: keeps nothing."""

    __slots__ = ("backend", "intern", "row", "wanted")

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.row = backend.row  # row(kind, begin_ns, end_ns, name, body, correlation_id): the quickest way
        self.wanted = backend.row_wanted  # wanted(kind): whether rows of a kind are recorded now
        self.intern = backend.intern  # intern(text) -> id, for bodies

    def recording(self) -> bool:
        """Whether this process is in a session whose recording is on or armed."""
        return self.backend.is_recording()

    def session(self) -> str | None:
        """The session's folder, None when this process is in none."""
        return self.backend.session()

    def write(  # noqa: PLR0917 - the order of a record
        self,
        kind: int,
        begin_ns: int,
        end_ns: int,
        name: int | str,
        body: bytes,
        correlation_id: int = 0,
    ) -> bool:
        """Write one row: times in session ns, `name` a text or its id. False: not wanted, or dropped and
        counted.
        """
        return self.row(kind, begin_ns, end_ns, name, body, correlation_id)
