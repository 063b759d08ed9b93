"""What the runtime asks of the simulated driver, as tools hear of it (domain DRIVER_API)."""

from __future__ import annotations

from tops_kit.runtime.api_table import DRIVER_API
from tops_kit.runtime.hooks import HOOKS

QUEUE_SUBMIT = HOOKS.point("queueSubmit", ("operation",), domain=DRIVER_API)
QUEUE_WAIT = HOOKS.point("queueWait", ("operation",), domain=DRIVER_API)
MEMORY_MAP = HOOKS.point("memoryMap", ("size_bytes", "note"), domain=DRIVER_API)
MEMORY_UNMAP = HOOKS.point("memoryUnmap", ("address", "note"), domain=DRIVER_API)
PROGRAM_LOAD = HOOKS.point("programLoad", ("program",), domain=DRIVER_API)
