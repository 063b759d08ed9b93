"""TopsTX: annotations for programs. Ranges, marks and counters, recorded when a profiler listens and nearly
free when none does.

    import topstx

    @topstx.annotate()                         # a range around each call, named after the function
    def load(path): ...

    with topstx.annotate("step", color="blue", payload=7):
        topstx.mark("halfway")

    queue = topstx.counter("queue", "items")
    queue.sample(3)

    io = topstx.get_domain("io")               # a group of its own
    io.push_range("read"); io.pop_range()

Record with `topsprof run -- python program.py`, or with `topstx.capture()` from within. Arguments are
nvtx's; the spellings `range_push`, `range_pop`, `range_start`, `range_end` work too. TOPSTX_DISABLE=1 in
the environment turns everything into no-ops. No call raises because recording fails, and nothing that a
call returns should steer the program.
"""

from __future__ import annotations

import os

from topstx import _version
from topstx._backend import choose as _choose
from topstx._process import Follower as _Follower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from topstx.recorder.rows import RowWriter

__all__ = [
    "Counter",
    "Domain",
    "__version__",
    "annotate",
    "backend",
    "capture",
    "counter",
    "end_range",
    "get_domain",
    "include_dir",
    "is_recording",
    "listen",
    "mark",
    "on_session",
    "pop_range",
    "profiler_start",
    "profiler_stop",
    "push_range",
    "range_end",
    "range_pop",
    "range_push",
    "range_start",
    "row_writer",
    "set_process_name",
    "set_thread_name",
    "snapshot",
    "start_range",
]

__version__ = _version.VERSION
_recorder, _reason = _choose()
_disabled = _reason == "TOPSTX_DISABLE is set"
_follower = _Follower(_recorder, _reason)

annotate = _recorder.annotate
push_range = range_push = _recorder.push_range
pop_range = range_pop = _recorder.pop_range
mark = _recorder.mark
start_range = range_start = _recorder.start_range
end_range = range_end = _recorder.end_range
Domain = _recorder.Domain
Counter = _recorder.Counter
get_domain = _recorder.get_domain
counter = _recorder.counter
set_thread_name = _recorder.set_thread_name
is_recording = _recorder.is_recording
listen = _recorder.listen
profiler_start = _recorder.profiler_start
profiler_stop = _recorder.profiler_stop


def set_process_name(name: str) -> None:
    """Name this process in the recording."""
    _recorder.process_entry("name", name)


def backend() -> str:
    """What records in this process: "c" (the extension), "twin" (its equal in Python), or "off"."""
    return "off" if _disabled else _recorder.NAME


def include_dir() -> str:
    """The folder of `topstx.h`, for compilers of C and C++ programs."""
    return os.path.join(os.path.dirname(__file__), "recorder", "include")  # noqa: PTH118, PTH120 - pathlib is too heavy here


def capture(output: str | os.PathLike[str] | None = None) -> AbstractContextManager[Path | None]:
    """Record this process and its children for the length of a `with` block, which gets the session's path.

    `output` names the session folder (".topsprof" is appended where missing), by default the lowest free
    reportN.topsprof. Inside a session that is being recorded already the block belongs to that one. With
    TOPSTX_DISABLE nothing is recorded and the block gets None.

    Raises FileExistsError when the folder exists, RuntimeError when tops-kit is missing or its collector
    doesn't start.
    """
    from topstx._capture import capture as block

    return block(_recorder, _follower, output, _disabled)


def snapshot(name: str = "") -> None:
    """Ask for a session of the last seconds, where this process is recorded by `topsprof run --keep-last`;
    else nothing happens. `name` says what it is of, and becomes a part of its name.

    It is made by the collector a moment later; the program waits for nothing but the making of a small file.
    """
    from topstx._snapshot import ask

    ask(_recorder.session(), name)


def on_session(listener: Callable[[str | None], object]) -> None:
    """Call `listener(folder)` when this process enters a session (at once when it is in one), and
    `listener(None)` before it leaves it. For libraries that record rows; a fork child is not told anew.
    """
    _follower.listen(listener)


def row_writer() -> RowWriter:
    """What writes rows of other tables (topstx.recorder.rows) into this process's session."""
    from topstx.recorder.rows import RowWriter

    return RowWriter(_recorder)


if os.environ.get("TOPSTX_SESSION") and not _disabled:
    _follower.enter(os.environ["TOPSTX_SESSION"])
    if os.environ.get("TOPSTX_PYTHON_CALLS"):
        from topstx.recorder.calls import Follower as _CallFollower

        on_session(_CallFollower(_recorder, os.environ["TOPSTX_PYTHON_CALLS"]))
    if os.environ.get("TOPSTX_PYTHON_MEMORY"):
        from topstx.recorder.memory import Follower as _MemoryFollower

        on_session(_MemoryFollower(_recorder, os.environ["TOPSTX_PYTHON_MEMORY"]))
