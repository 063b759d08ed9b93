"""Every operation of the devices, in order."""

from __future__ import annotations

from topsprof.reports._kernels import NAME_SQL, with_base
from topsprof.reports._operations import MEMCPY_SQL, MEMSET_SQL
from topsprof.reports.model import Report, column

_PLACE = "device_id, context_id, stream_id"
_NO_SHAPE = "NULL, NULL, NULL, NULL, NULL, NULL"

REPORT = with_base(
    Report(
        "gcu_trace",
        "GCU Trace",
        "Kernels, copies and fills one by one, in order of their start (since the session's start). MB are "
        "10^6 bytes.",
        requires=("kernel|memcpy|memset",),
        columns=(
            column("Start", "point"),
            column("Duration", "time"),
            column("CorrId", "id"),
            *(column(title, "id") for title in ("GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ")),
            column("Bytes (MB)", "number"),
            column("Throughput (MB/s)", "number"),
            column("SrcMemKd"),
            column("DstMemKd"),
            column("Device"),
            column("Ctx", "id"),
            column("Strm", "id"),
            column("Name"),
        ),
        sql=f"""
        WITH named AS (
            SELECT process_id, device_id, any_value(name) AS device FROM device GROUP BY ALL
        ), work AS (
            SELECT start_ns, duration_ns, correlation_id, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                   NULL::BIGINT AS size_bytes, NULL::VARCHAR AS src_kind, NULL::VARCHAR AS dst_kind,
                   process_id, {_PLACE}, {NAME_SQL} AS name
            FROM {{kernel}} kernel
            UNION ALL
            SELECT start_ns, duration_ns, correlation_id, {_NO_SHAPE}, size_bytes, src_kind::VARCHAR,
            dst_kind::VARCHAR,
                   process_id, {_PLACE}, {MEMCPY_SQL}
            FROM {{memcpy}}
            UNION ALL
            SELECT start_ns, duration_ns, correlation_id, {_NO_SHAPE}, size_bytes, NULL, memory_kind::VARCHAR,
                   process_id, {_PLACE}, {MEMSET_SQL}
            FROM {{memset}}
        )
        SELECT start_ns - {{origin}}, duration_ns, correlation_id, grid_x, grid_y, grid_z, block_x, block_y,
        block_z,
               size_bytes / 1e6, CASE WHEN duration_ns > 0 THEN size_bytes * 1e3 / duration_ns END, src_kind,
               dst_kind,
               CASE WHEN named.device IS NULL THEN work.device_id::VARCHAR
                    ELSE named.device || ' (' || work.device_id || ')' END,
               context_id, stream_id, name
        FROM work LEFT JOIN named USING (process_id, device_id)
        ORDER BY start_ns, duration_ns DESC, work.device_id, stream_id, name
    """,
    )
)
