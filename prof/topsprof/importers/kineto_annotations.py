"""gpu_user_annotation: ranges of the host as a device's stream saw them.

They say the device and the stream where the pid and the thread of the host's ranges stand. In the session
they belong to the host process, on a thread for each stream of each device: `FIRST_THREAD` + device * 65536 +
stream. Linux numbers its threads up to 2^22. Perfetto reads no more than 32 bits of a thread's number, and
from 2,000,000,000 on are those that our Chrome export makes up.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from topsprof.importers.chrome_rows import Rows
from topsprof.importers.scan import Int64s

ANNOTATION: Final = "gpu_user_annotation"
FIRST_THREAD: Final = 1_600_000_000
_DEVICES: Final = 1 << 12
_STREAMS: Final = 1 << 16
_END: Final = FIRST_THREAD + _DEVICES * _STREAMS


def annotation_place(rows: Rows, pids: Int64s, tids: Int64s) -> tuple[Int64s, Int64s]:
    """(device, stream) of each row, by its args, else by pid and tid. The args keep them too."""
    device, has_device = rows.batch.values("device", rows.at)
    stream, has_stream = rows.batch.values("stream", rows.at)
    return np.where(has_device, device, pids), np.where(has_stream, stream, tids)


def annotation_threads(tids: Int64s, device: Int64s, stream: Int64s) -> Int64s:
    """The thread of each row; one that has such a thread already, as our own export writes it, keeps it."""
    threads: Int64s = FIRST_THREAD + (device % _DEVICES) * _STREAMS + stream % _STREAMS
    return np.where((tids >= FIRST_THREAD) & (tids < _END), tids, threads)


def annotation_thread_name(device: int, stream: int) -> str:
    """
    >>> annotation_thread_name(0, 7)
    'device 0 stream 7 annotations'
    """
    return f"device {device} stream {stream} annotations"
