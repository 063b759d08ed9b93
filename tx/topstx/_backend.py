"""Which recorder serves this Python: the C extension, its twin in Python, or none; and why."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from topstx.recorder.interface import Backend


_INTERFACE = 9  # of _crec.c, which says when to raise it
# What this version calls. An extension that was built of older sources (a checkout moved on, and was not
# installed again) lacks the newest of it.
_CALLED = (
    *("annotate", "push_range", "pop_range", "mark", "start_range", "end_range", "Domain", "Counter"),
    *("get_domain", "counter", "set_thread_name", "is_recording", "profiler_start", "profiler_stop"),
    *("process_entry", "session", "attach", "detach", "disable", "NAME"),
    *("row", "row_wanted", "intern", "process_serial", "SharedTimeBase", "RowSink", "listen"),
    *("trace_calls", "untrace_calls", "tell_calls"),
    *("trace_memory", "trace_numpy", "untrace_memory"),
)


def flag(name: str) -> bool:
    """Is the environment variable set to something other than nothing and "0"?"""
    return os.environ.get(name, "") not in ("", "0")


def _off(reason: str, *, told: bool) -> tuple[Backend, str]:
    from topstx import _off as off

    if told and os.environ.get("TOPSTX_SESSION"):
        print(f"topstx: {reason}", file=sys.stderr)
    backend: Backend = off  # type: ignore[assignment]
    return backend, reason


def choose() -> tuple[Backend, str]:
    """The back end, and why it is not the C extension or is off ("" when neither).

    TOPSTX_DISABLE turns all off; TOPSKIT_PURE=1 takes the twin; TOPSKIT_REQUIRE_C=1 raises ImportError
    where the extension can't be imported (a build that must not fall back unseen).
    """
    if "t" in getattr(sys, "abiflags", ""):
        return _off("nothing is recorded: free-threaded builds of Python are not supported", told=True)
    disabled = flag("TOPSTX_DISABLE")
    pure = flag("TOPSKIT_PURE")
    reason = "TOPSKIT_PURE is set" if pure else ""
    if not pure:
        try:
            from topstx.recorder import _crec

            stamp = getattr(_crec, "INTERFACE", 0)
            if stamp != _INTERFACE or any(not hasattr(_crec, name) for name in _CALLED):
                raise ImportError("_crec was built from other sources: pip install -e . again")
            c: Backend = _crec
            if disabled:
                _crec.disable()  # its no-ops are quicker than any in Python
            return c, "TOPSTX_DISABLE is set" if disabled else ""
        except ImportError as error:
            if flag("TOPSKIT_REQUIRE_C"):
                raise
            missing = isinstance(error, ModuleNotFoundError) or error.name == "topstx.recorder"
            reason = "not built: no C compiler when this was installed" if missing else str(error)
    if disabled:
        return _off("TOPSTX_DISABLE is set", told=False)
    if "subinterpreter" in reason:
        return _off(f"nothing is recorded: {reason}", told=True)
    try:
        from topstx.recorder import twin

        backend: Backend = twin  # type: ignore[assignment]  # its classes take narrower types
    except ImportError as error:
        return _off(f"nothing is recorded: {reason}; {error}", told=True)
    return backend, reason
