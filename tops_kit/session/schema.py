"""The tables of a session: the one definition of every column, with its unit and meaning.

Versions only append: a new column goes to the end of its table, and no column ever changes its meaning. A
reader of a newer `FORMAT_VERSION` refuses an unknown major version and ignores unknown columns of a known
one.

Times are int64 nanoseconds. An interval table stores `start_ns` and `duration_ns` (whatever is read through
`Session.table` or SQL has `end_ns` as well); an instant or counter table stores `start_ns` alone; a plain
table has no time.

Where a column lives in a segment:
    hot   start_ns, duration_ns, name: uncompressed, so that they can be mapped
    wide  all else, zstd
    args  the one JSON text column for what no column holds, zstd, in a file of its own
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FORMAT_VERSION = (1, 1)


class Kind(Enum):
    """What a row of a table is in time."""

    INTERVAL = "interval"
    INSTANT = "instant"
    COUNTER = "counter"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` is one of int64, int32, uint32, uint8, float64, bool, text, name.

    `name` is dictionary-coded text (few distinct values), `text` is plain text. Null means unknown or not
    applicable.
    """

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `track` names the columns that put a row on a track of the timeline; rows of a track are
    split into lanes by depth.

    `summary` are the column groups by which per-name summaries of `value` are kept (`duration_ns` of
    intervals by default).
    """

    name: str
    kind: Kind
    comment: str
    columns: tuple[Column, ...]
    track: tuple[str, ...] = ()
    summary: tuple[tuple[str, ...], ...] = ()
    values: tuple[str, ...] = ("duration_ns",)

    def column(self, name: str) -> Column:
        """The column of that name; KeyError when there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name}")

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _c(name: str, type_: str, comment: str) -> Column:
    return Column(name, type_, comment)


_START = _c("start_ns", "int64", "begin, ns of session time")
_DURATION = _c("duration_ns", "int64", "length, ns")
_PROCESS = _c(
    "process_id", "int64", "key of table process (the pid, unless two processes of the session share one)"
)
_THREAD = _c("thread_id", "int64", "thread of the process, as the system or the trace numbers it")
_DEVICE = _c("device_id", "int64", "device number")
_CONTEXT = _c("context_id", "int64", "context on the device")
_STREAM = _c("stream_id", "int64", "stream (queue) of the context")
_CORRELATION = _c("correlation_id", "int64", "same number as the runtime call that caused it")
_ARGS = _c("args", "text", "JSON object: what no other column holds")
_QUEUED = _c("queued_ns", "int64", "begin of the runtime call that asked for it")
_SUBMIT = _c("submit_ns", "int64", "handed to the device")
_CONTENTION = _c(
    "contention_ns", "int64", "how much longer it took as others used L3, links and PCIe too, ns"
)
_GRAPH_ID = _c("graph_id", "int64", "graph whose launch it is part of")
_NODE = _c("graph_node_id", "int64", "node of the graph that launched it")
_STACK = _c("stack_id", "int64", "call stack of the runtime call, its innermost frame: key of table stack")
_METRIC = _c(
    "metric_id",
    "int64",
    "counters of the launch: key of table kernel_metric, with process_id; launches with the same counters "
    "share them",
)
_EXTERNAL = _c("external_id", "int64", "framework operator that caused it (column external_id of table op)")


def _interval(
    name: str,
    comment: str,
    columns: tuple[Column, ...],
    track: tuple[str, ...],
    *summary: tuple[str, ...],
    values: tuple[str, ...] = ("duration_ns",),
    appended: tuple[Column, ...] = (),
) -> Table:
    """`appended`: columns that came with later versions."""
    head = (_START, _DURATION, _c("name", "name", "what ran"))
    return Table(
        name,
        Kind.INTERVAL,
        comment,
        (*head, *columns, _ARGS, *appended),
        track,
        summary or (("name",),),
        values,
    )


_HOST = ("process_id", "thread_id")
_QUEUE = ("process_id", "device_id", "stream_id")

_TABLES = (
    _interval(
        "api",
        "calls of the device runtime and driver",
        (
            _PROCESS,
            _THREAD,
            _CORRELATION,
            _c("domain", "name", "runtime or driver"),
            _c("return_value", "int64", "status the call returned"),
            _DEVICE,
            _STREAM,
            _EXTERNAL,
        ),
        _HOST,
        appended=(_STACK,),
    ),
    _interval(
        "op",
        "operators of a framework, e.g. aten::mm",
        (
            _PROCESS,
            _THREAD,
            _EXTERNAL,
            _c("shapes", "name", "input shapes, JSON"),
            _c("types", "name", "input types, JSON"),
            _c("module", "name", "module hierarchy the operator ran in"),
            _c("stack", "name", "Python call stack, innermost last, frames separated by ';'"),
            _c("sequence_number", "int64", "pairs forward and backward operators"),
            _c("forward_thread_id", "int64", "thread of the forward operator that a backward one belongs to"),
            _c("scope", "name", "category the trace gave, e.g. cpu_op"),
        ),
        _HOST,
    ),
    _interval(
        "step",
        "iterations of a training or serving loop",
        (
            _PROCESS,
            _THREAD,
            _c("step", "int64", "number of the iteration"),
        ),
        _HOST,
    ),
    _interval(
        "kernel",
        "kernels that ran on a device; name is short, full_name has arguments and template parameters",
        (
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _CORRELATION,
            _EXTERNAL,
            _c("full_name", "name", "name as the compiler wrote it"),
            _c(
                "queued_ns",
                "int64",
                "begin of the runtime call that launched it; null in traces of other tools, "
                "where the api row of the same correlation_id says it",
            ),
            _c("submit_ns", "int64", "handed to the device"),
            _c("grid_x", "int64", "blocks"),
            _c("grid_y", "int64", "blocks"),
            _c("grid_z", "int64", "blocks"),
            _c("block_x", "int64", "threads of a block"),
            _c("block_y", "int64", "threads of a block"),
            _c("block_z", "int64", "threads of a block"),
            _c("graph_node_id", "int64", "node of the graph that launched it"),
            _c("registers", "int64", "registers per thread"),
            _c("shared_bytes", "int64", "on-chip memory of a block, bytes"),
            _c("occupancy", "float64", "estimated achieved occupancy, percent"),
            _c("collective", "name", "collective communication it carries out, e.g. allreduce"),
            _c("collective_bytes", "int64", "bytes of the collective's message"),
            _c("group", "name", "communication group"),
        ),
        _QUEUE,
        ("name",),
        ("full_name", "name"),
        ("full_name", "name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
        appended=(
            _CONTENTION,
            _METRIC,
            _GRAPH_ID,
            _c("grid_id", "int64", "number of the launch in its process"),
            _c("clusters", "int64", "clusters of the device that it held"),
        ),
    ),
    _interval(
        "memcpy",
        "copies by or to a device",
        (
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _CORRELATION,
            _EXTERNAL,
            _c("copy_kind", "name", "HtoD, DtoH, DtoD, PtoP, HtoH"),
            _c("src_kind", "name", "memory it reads: Pageable, Pinned, Device, ..."),
            _c("dst_kind", "name", "memory it writes"),
            _c("size_bytes", "int64", "bytes copied"),
            _c("graph_node_id", "int64", "node of the graph that launched it"),
        ),
        _QUEUE,
        ("copy_kind",),
        values=("duration_ns", "size_bytes"),
        appended=(
            _QUEUED,
            _SUBMIT,
            _CONTENTION,
            _GRAPH_ID,
            _c("src_device_id", "int64", "device it reads from; null: the host"),
            _c("dst_device_id", "int64", "device it writes to; null: the host"),
        ),
    ),
    _interval(
        "memset",
        "fills of device memory",
        (
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _CORRELATION,
            _EXTERNAL,
            _c("memory_kind", "name", "memory it writes"),
            _c("size_bytes", "int64", "bytes filled"),
            _c("value", "int64", "the value written"),
            _c("graph_node_id", "int64", "node of the graph that launched it"),
        ),
        _QUEUE,
        ("memory_kind",),
        values=("duration_ns", "size_bytes"),
        appended=(_QUEUED, _SUBMIT, _CONTENTION, _GRAPH_ID),
    ),
    Table(
        "memory",
        Kind.INSTANT,
        "allocations and releases",
        (
            _START,
            _c("name", "name", "alloc or free, or what the trace calls it"),
            _PROCESS,
            _THREAD,
            _DEVICE,
            _c("device_type", "name", "kind of memory's owner: cpu, cuda, gcu, ..."),
            _c("address", "int64", "address, as int64 bits"),
            _c("size_bytes", "int64", "bytes; negative when released"),
            _c("allocated_bytes", "int64", "bytes in use after it"),
            _c("reserved_bytes", "int64", "bytes the allocator holds after it"),
            _ARGS,
            _CORRELATION,
            _CONTEXT,
            _STREAM,
            _c("memory_kind", "name", "Device, Pinned, ..."),
            _c("allocation", "int64", "number of the allocation in its process: an address may come back"),
            _c("pool_id", "int64", "memory pool"),
            _c("range", "name", "innermost TX range of the thread that was open"),
            _c("place", "name", "where the program asked for it"),
            _STACK,
        ),
        _HOST,
    ),
    _interval(
        "sync",
        "waits for a device, stream or event, seen on the device's side",
        (
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _CORRELATION,
            _EXTERNAL,
            _c("sync_kind", "name", "stream, device, event, ..."),
        ),
        _QUEUE,
        appended=(_THREAD, _c("event_id", "int64", "event that was waited for")),
    ),
    _interval(
        "graph",
        "launches of whole graphs",
        (
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _CORRELATION,
            _EXTERNAL,
            _c("graph_id", "int64", "the graph"),
        ),
        _QUEUE,
        appended=(
            _QUEUED,
            _SUBMIT,
            _c("exec_id", "int64", "its executable form"),
            _c("nodes", "int64", "nodes that ran"),
        ),
    ),
    _interval(
        "tx",
        "annotations: ranges and marks (duration 0)",
        (
            _PROCESS,
            _THREAD,
            _c("task_id", "int64", "asyncio task or other context of the thread; 0: the thread itself"),
            _c("domain", "name", "domain; empty: the default one"),
            _c("category", "name", "category"),
            _c("style", "name", "PushPop, StartEnd or Mark"),
            _c("color", "uint32", "0xAARRGGBB; 0: none"),
            _c(
                "payload", "text", 'payload as JSON (a number, a string, an object; bytes as {"base64": ...})'
            ),
            _c("error", "name", "type of the exception that left the range; '?' when unknown; null: none"),
            _c("unfinished", "bool", "the range never ended; its end is the end of its process"),
            _c("end_thread_id", "int64", "thread that ended a StartEnd range, when another"),
            _c("depth", "int32", "enclosing ranges of the same thread and task, as recorded; null: unknown"),
        ),
        ("process_id", "thread_id", "task_id"),
        ("domain", "name", "style"),
    ),
    Table(
        "counter",
        Kind.COUNTER,
        "values over time",
        (
            _START,
            _c("name", "name", "counter"),
            _PROCESS,
            _THREAD,
            _DEVICE,
            _c("series", "name", "series of a counter that has several"),
            _c("value", "float64", "value from start_ns on"),
            _c("unit", "name", "unit"),
            _c("domain", "name", "domain; empty: the default one"),
            _ARGS,
        ),
        ("process_id", "device_id", "domain", "name", "series"),
    ),
    _interval(
        "python",
        "calls of Python functions, traced",
        (
            _PROCESS,
            _THREAD,
            _c("module", "name", "module or class"),
            _c("file", "name", "source file"),
            _c("line", "int64", "line of the definition"),
        ),
        _HOST,
        ("name",),
        ("module", "name"),
        appended=(
            _c(
                "call",
                "name",
                "call (of a generator or coroutine: its first part), resume (a later part), "
                "c (a function in C); null: unknown",
            ),
            _c("ended", "name", "how it ended: return, yield, raise, unfinished; null: unknown"),
            _c(
                "generator_id",
                "int64",
                "the same in all parts of a call of a generator or coroutine; numbers come again",
            ),
        ),
    ),
    Table(
        "sample",
        Kind.INSTANT,
        "call stack samples",
        (
            _START,
            _PROCESS,
            _THREAD,
            _c("task_id", "int64", "asyncio task; 0: none"),
            _c("stack_id", "int64", "innermost frame: key of table stack"),
            _c(
                "state",
                "name",
                "running, native (without the GIL), gil (waits for it), blocked, unknown, simulator (of a "
                "kernel); null: not told",
            ),
            _c("weight", "float64", "what the sample stands for, in `unit`"),
            _c("unit", "name", "ns, bytes or samples"),
            _ARGS,
            _c("wait", "name", "what a blocked thread waits for: lock, sleep, file, socket, poll, ..."),
            _c("native", "name", "machine code that ran or waits, library!function; null: Python itself"),
            _c("holder_id", "int64", "thread that has the GIL, of one that waits for it"),
            _c("task", "name", "name of the asyncio task"),
            _c("syscall", "name", "system call that the thread is in"),
            _c("gc", "bool", "the thread collects garbage"),
            _c("holds_gil", "bool", "the thread has the GIL"),
        ),
        _HOST,
    ),
    Table(
        "stack",
        Kind.PLAIN,
        "frames of sampled call stacks, as a tree",
        (
            _c("stack_id", "int64", "key"),
            _c("parent_id", "int64", "the caller's stack_id; null at a root"),
            _c("name", "name", "function"),
            _c("file", "name", "source file or library"),
            _c("line", "int64", "line"),
            _c("first_line", "int64", "line of the function's definition"),
        ),
    ),
    Table(
        "pymem",
        Kind.INSTANT,
        "sampled allocations of Python programs, and their releases",
        (
            _START,
            _c("name", "name", "alloc or free"),
            _PROCESS,
            _THREAD,
            _c("allocation", "int64", "number of the sample in its process: the same in its alloc and free"),
            _c("size_bytes", "int64", "bytes that were asked for"),
            _c("weight_bytes", "float64", "bytes of all allocations that it stands for"),
            _c("heap_bytes", "int64", "estimate of the bytes that the process has in use after it"),
            _c("allocator", "name", "Python's allocator: raw, mem or object; numpy: data of its arrays"),
            _c("stack_id", "int64", "where it was asked for, the innermost frame: key of table stack"),
            _c("range", "name", "innermost TX range of the thread that was open"),
            _ARGS,
        ),
        _HOST,
    ),
    _interval(
        "osrt",
        "calls of the operating system: files, sockets, locks, sleeps",
        (
            _PROCESS,
            _THREAD,
            _c("size_bytes", "int64", "bytes moved"),
            _c("target", "name", "path, peer or lock"),
            _c("return_value", "int64", "what the call returned"),
        ),
        _HOST,
        appended=(
            _c("fd", "int64", "file descriptor"),
            _c("error", "name", "why it failed, as EAGAIN; empty: it did not"),
        ),
    ),
    Table(
        "kernel_line",
        Kind.PLAIN,
        "counters per source line of a kernel launch",
        (
            _PROCESS,
            _CORRELATION,
            _c("kernel", "name", "kernel"),
            _c("file", "name", "source file"),
            _c("line", "int64", "line"),
            _c("counter", "name", "cycles, stalls by reason, bytes, ..."),
            _c("value", "float64", "value, summed over SIPs"),
            _METRIC,
        ),
    ),
    _interval(
        "overhead",
        "time that the tools themselves cost",
        (
            _PROCESS,
            _THREAD,
        ),
        _HOST,
        appended=(
            _CORRELATION,
            _c("function", "name", "function whose calls were only counted, as they were too many"),
            _c("module", "name", "its module"),
            _c("calls", "int64", "how many calls"),
        ),
    ),
    Table(
        "link",
        Kind.PLAIN,
        "who caused whom: flows of a trace, waits, hand-overs (of recordings too: view cause)",
        (
            _c("kind", "name", "what the link means, e.g. ac2g, fwdbwd, flow"),
            _c("link_id", "int64", "number the trace gave"),
            _c("source_process_id", "int64", "where it leaves"),
            _c("source_thread_id", "int64", "where it leaves"),
            _c("source_ns", "int64", "when it leaves"),
            _c("target_process_id", "int64", "where it arrives"),
            _c("target_thread_id", "int64", "where it arrives"),
            _c("target_ns", "int64", "when it arrives"),
        ),
    ),
    Table(
        "process",
        Kind.PLAIN,
        "processes",
        (
            _PROCESS,
            _c("pid", "int64", "process number of the system or the trace"),
            _c("parent_id", "int64", "process_id of the parent"),
            _c("name", "name", "short name"),
            _c("command", "text", "command line, JSON list"),
            _c("host", "name", "host"),
            _c("rank", "int64", "rank in a distributed job"),
            _c("start_ns", "int64", "begin"),
            _c("end_ns", "int64", "end"),
            _c("exit_status", "int64", "exit code; negative: minus the signal that killed it; null: unknown"),
            _c(
                "ended_by",
                "name",
                "exit, signal, exec or unknown; null: still running when recording stopped",
            ),
            _c("runtime", "name", "interpreter and its version"),
            _c("recorder", "name", "C, twin or header"),
            _c("sort_index", "int64", "order that the trace asks for"),
            _c("labels", "text", "labels of the trace"),
            _ARGS,
        ),
    ),
    Table(
        "thread",
        Kind.PLAIN,
        "threads",
        (
            _PROCESS,
            _THREAD,
            _c("name", "name", "name"),
            _c("start_ns", "int64", "begin"),
            _c("end_ns", "int64", "end"),
            _c("sort_index", "int64", "order that the trace asks for"),
        ),
    ),
    Table(
        "stream",
        Kind.PLAIN,
        "streams of devices",
        (
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _c("name", "name", "name"),
            _c("priority", "int64", "priority"),
            _c("sort_index", "int64", "order that the trace asks for"),
        ),
    ),
    Table(
        "device",
        Kind.PLAIN,
        "devices",
        (
            _PROCESS,
            _DEVICE,
            _c("name", "name", "product name"),
            _c("kind", "name", "gcu, gpu, ..."),
            _c("properties", "text", "JSON object of what the trace says of it"),
            _c("part", "name", "part that is modelled, e.g. s60"),
            _c("specification_hash", "name", "of the part's figures, which are in `properties`"),
            _c("cost_model", "int64", "version of the cost model"),
            _c("slice", "name", "virtual function that it is; null: a whole device"),
        ),
    ),
    Table(
        "kernel_metric",
        Kind.PLAIN,
        "counters of kernel launches, over all SIPs; launches with the same counters share a metric_id",
        (
            _PROCESS,
            _METRIC,
            _c("correlation_id", "int64", "of the first launch with them"),
            _c("kernel", "name", "kernel"),
            _c("counter", "name", "cycles, flops, bytes by memory and direction, stalls by cause, ..."),
            _c("value", "float64", "value"),
        ),
    ),
    Table(
        "gcu_event",
        Kind.INSTANT,
        "events that streams reached",
        (
            _START,
            _PROCESS,
            _DEVICE,
            _CONTEXT,
            _STREAM,
            _CORRELATION,
            _c("event_id", "int64", "the event"),
        ),
        _QUEUE,
    ),
    Table(
        "external",
        Kind.INSTANT,
        "numbers of others that runtime calls were made under",
        (
            _START,
            _PROCESS,
            _THREAD,
            _CORRELATION,
            _c("external_kind", "int64", "whose numbers, as the program chose"),
            _c("external_id", "int64", "the number"),
        ),
        _HOST,
    ),
    _interval(
        "host_function",
        "functions of the host that streams waited for",
        (_PROCESS, _DEVICE, _CONTEXT, _STREAM, _CORRELATION, _GRAPH_ID, _NODE),
        _QUEUE,
    ),
    Table(
        "graph_node",
        Kind.PLAIN,
        "nodes of executable graphs, and which of them each waits for",
        (
            _PROCESS,
            _c("graph_id", "int64", "the graph"),
            _c("exec_id", "int64", "its executable form"),
            _c("graph_node_id", "int64", "the node, from 1, as rows of what it launched have it"),
            _c("node_kind", "name", "kernel, memcpy, memset, host, event record, empty"),
            _c("name", "name", "what it does: kernel with blocks and threads, direction and bytes"),
            _DEVICE,
            _c("after", "text", "JSON list of the nodes that it waits for"),
        ),
    ),
    Table(
        "osrt_short",
        Kind.PLAIN,
        "calls too short for a row of table osrt, by function; rows of a function add up",
        (
            _PROCESS,
            _c("name", "name", "function"),
            _c("calls", "int64", "how many"),
            _c("total_ns", "int64", "what they took, ns"),
            _c("size_bytes", "int64", "bytes moved"),
        ),
    ),
    Table(
        "stream_race",
        Kind.INSTANT,
        "pairs of operations that used the same bytes with no order between them, one of them storing",
        (
            _START,
            _c("name", "name", "the first operation"),
            _PROCESS,
            _DEVICE,
            _CORRELATION,
            _c("second", "name", "the second operation"),
            _c("second_correlation_id", "int64", "runtime call of the second"),
            _c("address", "int64", "first byte that both use, as int64 bits"),
            _c("size_bytes", "int64", "bytes that both use"),
            _c("first_stack", "name", "where the first was asked for"),
            _c("second_stack", "name", "where the second was asked for"),
        ),
        ("process_id", "device_id"),
    ),
    Table(
        "print",
        Kind.INSTANT,
        "lines that kernels printed",
        (
            _START,
            _c("name", "name", "kernel"),
            _PROCESS,
            _DEVICE,
            _STREAM,
            _CORRELATION,
            _c("text", "text", "the line"),
            _c("block", "int64", "block that printed it"),
            _c("thread", "int64", "thread of the launch that printed it"),
        ),
        _QUEUE,
    ),
    _interval(
        "gc",
        "pauses in which a Python thread collected garbage, from samples: begin and end are known to the "
        "time between two samples, and shorter pauses are met by chance",
        (
            _PROCESS,
            _THREAD,
            _c("generation", "int64", "oldest generation that was collected: 0, 1 or 2; null: unknown"),
            _c("stack_id", "int64", "where the thread was: key of table stack, its innermost frame"),
        ),
        _HOST,
        ("name",),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _TABLES}

# Rows of these tables are slices of a timeline; the SQL view `slice` unites them.
SLICE_TABLES = tuple(table.name for table in _TABLES if table.kind is Kind.INTERVAL)
