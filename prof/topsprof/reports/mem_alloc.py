"""Memory of devices: who holds it, when most of it was in use, and what was never freed."""

from __future__ import annotations

from dataclasses import replace

from topsprof.reports.model import Column, Report, column

_ALLOCATIONS = """
    WITH events AS (
        SELECT start_ns, size_bytes, allocated_bytes, allocation, process_id, device_id,
               coalesce(memory_kind, device_type)::VARCHAR AS kind, range::VARCHAR AS range,
               place::VARCHAR AS place
        FROM {memory} WHERE size_bytes <> 0
    ), known AS (
        -- an allocation's number says which free is its own: its address may come back
        SELECT process_id, device_id, kind, allocation,
               max(size_bytes) AS size_bytes, min(start_ns) FILTER (size_bytes > 0) AS start_ns,
               max(start_ns) FILTER (size_bytes < 0) AS freed_ns,
               any_value(range) FILTER (size_bytes > 0) AS range,
               any_value(place) FILTER (size_bytes > 0) AS place
        FROM events WHERE allocation IS NOT NULL GROUP BY process_id, device_id, kind, allocation
    ), allocations AS (
        SELECT *, CASE WHEN freed_ns IS NULL THEN size_bytes ELSE 0 END AS kept_bytes
        FROM known WHERE start_ns IS NOT NULL
    ), peaks AS (
        SELECT process_id, device_id, kind, max(allocated_bytes) AS peak_bytes,
               min_by(start_ns, (-allocated_bytes, start_ns)) AS peak_ns,
               -- not what the last event says: several may share its time
               arg_min(allocated_bytes - size_bytes, start_ns) + sum(size_bytes) AS last_bytes
        FROM events GROUP BY process_id, device_id, kind
    ), placed AS (
        SELECT allocations.*,
               CASE WHEN start_ns <= peak_ns AND (freed_ns IS NULL OR freed_ns > peak_ns)
                    THEN size_bytes ELSE 0 END AS peak_part_bytes
        FROM allocations JOIN peaks USING (process_id, device_id, kind)
    )
"""

_FIGURES = """
    sum(kept_bytes) / 1e6, count(*) FILTER (kept_bytes > 0), sum(peak_part_bytes) / 1e6,
    sum(size_bytes) / 1e6, count(*), count(freed_ns), max(size_bytes) / 1e6
"""
_FIGURE_COLUMNS = (
    column("Kept (MB)", "number", 0),
    column("Kept", "count", 1),
    column("At Peak (MB)", "number", 1),
    column("Allocated (MB)", "number", 2),
    column("Allocs", "count", 2),
    column("Frees", "count", 3),
    column("Largest (MB)", "number", 5),
)
_OWNER_COLUMNS = (column("Memory", rank=6), column("Device", "id"), column("PID", "id"))
_ORDER = "sum(kept_bytes) DESC, sum(peak_part_bytes) DESC, sum(size_bytes) DESC"
_WORDS = (
    "Kept is what was not freed by the end of the recording, in breaks of it neither: of a program that "
    "ended, a leak. At Peak is what of it was there when most memory of its kind was in use. MB are 10^6 "
    "bytes."
)


def _by(title: str, description: str, key: str, column_: Column) -> Report:
    return Report(
        "mem_alloc",
        title,
        f"{description} {_WORDS}",
        requires=("memory",),
        columns=(*_FIGURE_COLUMNS, *_OWNER_COLUMNS, column_),
        sql=f"""{_ALLOCATIONS}
            SELECT {_FIGURES}, kind, device_id, process_id, {key} FROM placed
            GROUP BY kind, device_id, process_id, {key}
            ORDER BY {_ORDER}, {key}, process_id, device_id, kind
        """,
    )


_PEAK = Report(
    "mem_alloc",
    "Memory Peak",
    "Most memory in use at one time, by process, device and kind of memory: how much, when, in how many "
    "allocations, and which line had most of it. At End is what was in use last. MB are 10^6 bytes.",
    requires=("memory",),
    columns=(
        column("Peak (MB)", "number", 0),
        column("At", "point", 0),
        column("Allocs", "count", 2),
        column("At End (MB)", "number", 1),
        *_OWNER_COLUMNS,
        column("Most By (MB)", "number", 2),
        column("Place"),
    ),
    sql=f"""{_ALLOCATIONS}, parts AS (
            SELECT process_id, device_id, kind, place, sum(peak_part_bytes) AS bytes,
                   count(*) FILTER (peak_part_bytes > 0) AS allocations
            FROM placed GROUP BY ALL ORDER BY place
        ), holders AS (
            SELECT process_id, device_id, kind, sum(allocations) AS allocations, max(bytes) AS bytes,
                   arg_max(place, bytes) AS place
            FROM parts GROUP BY ALL
        )
        SELECT peak_bytes / 1e6, peak_ns - {{origin}}, allocations, last_bytes / 1e6, peaks.kind,
               peaks.device_id, peaks.process_id, bytes / 1e6, place
        FROM peaks LEFT JOIN holders ON peaks.kind IS NOT DISTINCT FROM holders.kind
             AND peaks.device_id IS NOT DISTINCT FROM holders.device_id
             AND peaks.process_id = holders.process_id
        ORDER BY peak_bytes DESC, peaks.process_id, peaks.device_id, peaks.kind
    """,
)

_LEAKS = Report(
    "mem_alloc",
    "Memory Not Freed",
    "Allocations that were not freed by the end of the recording, by the line that asked for them, its TX "
    "range and their size. State says whether the program had ended by then (leaked) or went on (in use), "
    "when it might have freed them later. MB are 10^6 bytes.",
    requires=("memory",),
    columns=(
        column("Kept (MB)", "number", 0),
        column("Allocs", "count", 1),
        column("Size (bytes)", "count", 2),
        column("First", "point", 5),
        column("Last", "point", 6),
        column("State", rank=1),
        *_OWNER_COLUMNS,
        column("TX Range", rank=4),
        column("Place"),
    ),
    sql=f"""{_ALLOCATIONS}
        SELECT sum(size_bytes) / 1e6, count(*), size_bytes, min(allocations.start_ns) - {{origin}},
               max(allocations.start_ns) - {{origin}},
               CASE WHEN any_value(ended_by) IS NULL THEN 'in use' ELSE 'leaked' END,
               kind, device_id, process_id, range, place
        FROM allocations LEFT JOIN process USING (process_id) WHERE kept_bytes > 0
        GROUP BY kind, device_id, process_id, range, place, size_bytes
        ORDER BY sum(size_bytes) DESC, place, range, size_bytes, process_id, device_id, kind
    """,
)

_TIMELINE = Report(
    "mem_alloc",
    "Memory Timeline",
    "Each allocation and release, with what is in use after it by its process on the device (pinned memory: "
    "of the host). MB are 10^6 bytes.",
    requires=("memory",),
    columns=(
        column("Start", "point", 0),
        column("Operation", rank=1),
        column("Size (MB)", "number", 0),
        column("In Use (MB)", "number", 0),
        *_OWNER_COLUMNS,
        column("TX Range", rank=4),
        column("Place"),
    ),
    sql="""
        SELECT start_ns - {origin}, name::VARCHAR, size_bytes / 1e6, allocated_bytes / 1e6,
               coalesce(memory_kind, device_type)::VARCHAR AS kind, device_id, process_id, range::VARCHAR,
               place::VARCHAR
        FROM {memory} ORDER BY start_ns, process_id, allocation, size_bytes DESC
    """,
)

_BY_PLACE = _by(
    "Memory Allocations", "Allocations by the line that asked for them.", "place", column("Place")
)
REPORT = replace(
    _BY_PLACE,
    description=f"{_BY_PLACE.description} Arguments: range (by TX range), size, peak, leaks, timeline.",
    variants={
        "range": _by(
            "Memory Allocations by TX Range",
            "Allocations by the innermost TX range that was open on the thread.",
            "range",
            column("TX Range"),
        ),
        "size": _by(
            "Memory Allocations by Size",
            "Allocations by size.",
            "size_bytes",
            column("Size (bytes)", "count", 0),
        ),
        "peak": _PEAK,
        "leaks": _LEAKS,
        "timeline": _TIMELINE,
    },
)
