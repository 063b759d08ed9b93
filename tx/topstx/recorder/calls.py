"""Recording calls of Python functions: which of them, how it begins and how it ends.

The back end does the recording, by sys.monitoring (Python 3.12 and later) or a profile hook of every thread
(3.11); see crec_calls.h and twin_calls.py. What is to be traced is asked here once for each code object.
"""

# Only what a recorded program has loaded anyway.
# ruff: noqa: PTH118, PTH120, PTH100

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any, Final

    from topstx.recorder.interface import Backend

VARIABLE: Final = "TOPSTX_PYTHON_CALLS"
"""The environment variable that asks for it: `CallOptions.text`."""

LIMIT: Final = 1_000_000
"""Calls of one function within a second past which the rest of them is only counted."""

_TOOL: Final = "topsprof"
_TOOL_IDS: Final = (4, 3, 1, 0, 5, 2)  # those that debuggers, coverage and profilers agreed on come last
_GLOB: Final = frozenset("*?[")


class CallOptions:
    """What is traced. Patterns are globs of module names or, with a `/` or the ending `.py`, of file names;
    none: the program's own code.
    """

    __slots__ = ("c_calls", "limit", "patterns")

    def __init__(self, patterns: Iterable[str] = (), *, c_calls: bool = False, limit: int = LIMIT) -> None:
        """`limit`: calls a second of one function, 0: none."""
        self.patterns, self.c_calls, self.limit = tuple(patterns), c_calls, limit

    @property
    def text(self) -> str:
        """The value of VARIABLE: the figures, then a line for each pattern."""
        return "\n".join((f"{int(self.c_calls)} {self.limit}", *self.patterns))

    @classmethod
    def of_text(cls, text: str) -> CallOptions:
        """The options that `text` gave. Raises ValueError."""
        first, *patterns = text.split("\n")
        c_calls, limit = first.split()
        return cls(patterns, c_calls=c_calls != "0", limit=int(limit))


class Choice:
    """Says of code whether it is traced."""

    def __init__(self, patterns: Iterable[str]) -> None:
        import re
        from fnmatch import translate

        modules, files = [], []
        for pattern in patterns:
            if "/" in pattern or pattern.endswith(".py"):
                # a name without its folder, or a path from some folder on: wherever that lies
                files.append(pattern if pattern.startswith(("/", "*")) else f"*/{pattern}")
            elif pattern.endswith(".*") or not _GLOB & set(pattern):
                # a package is its own module and all below it
                package = pattern.removesuffix(".*")
                modules += [package, f"{package}.*"]
            else:
                modules.append(pattern)
        self._all = not modules and not files
        self._modules = re.compile("|".join(map(translate, modules))) if modules else None
        self._files = re.compile("|".join(map(translate, files))) if files else None
        self._own = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
        self._foreign = () if not self._all else _foreign_folders()

    def __call__(self, module: str, file: str, module_file: str) -> bool:
        """Whether code of `module` from `file` is traced; `module_file` is where the module itself lies."""
        if file.startswith(self._own) or file.endswith(_INJECTION):
            return False  # ours
        if not self._all:
            return bool(
                (self._modules is not None and self._modules.match(module))
                or (self._files is not None and self._files.match(file))
            )
        if file.startswith("<"):  # generated code goes with the module that it is in
            if file.startswith("<frozen ") or (not module_file and module != "__main__"):
                return False  # of a library, such as a named tuple's
            file = module_file
        return not file.startswith(self._foreign) and not any(part in file for part in _INSTALLED)


_INJECTION: Final = os.path.join("topsprof", "capture", "injection", "sitecustomize.py")
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _foreign_folders() -> tuple[str, ...]:
    """Folders of Python's own library."""
    found = {os.path.dirname(os.path.abspath(os.__file__)) + os.sep}
    found |= {os.path.realpath(folder) + os.sep for folder in found}
    return tuple(found)


class Calls:
    """Records calls, from `start` to `stop`."""

    def __init__(self, backend: Backend, options: CallOptions) -> None:
        self._backend = backend
        self._options = options
        self._choice = Choice(options.patterns)
        self._tool: int | None = None
        self.problem = ""
        """Why not all of them are recorded."""

    def decide(self, what: Any, names: dict[str, Any] | None) -> tuple[str, str, str, int] | None:
        """(name, module, file, line) of a code object with the globals of its frame, or of a function in C;
        None: it is not traced.
        """
        if names is None:
            name = getattr(what, "__qualname__", None) or getattr(what, "__name__", "?")
            owner = getattr(what, "__objclass__", None) or type(getattr(what, "__self__", None))
            module = getattr(what, "__module__", None) or getattr(owner, "__module__", None)
            return str(name), module if type(module) is str else "builtins", "", 0
        code: CodeType = what
        module, module_file = names.get("__name__"), names.get("__file__")
        if type(module) is not str:
            module = ""
        if not self._choice(module, code.co_filename, module_file if type(module_file) is str else ""):
            return None
        return code.co_qualname, module, code.co_filename, max(code.co_firstlineno, 0)

    def start(self) -> None:
        """Begin. RuntimeError when that is not possible here."""
        options = self._options
        monitoring = getattr(sys, "monitoring", None)
        disable = None if monitoring is None else monitoring.DISABLE
        found = self._backend.trace_calls(self.decide, disable, options.limit, options.c_calls)
        if monitoring is None or not isinstance(found, dict):
            if found:
                self.problem = (
                    f"{found} threads have a profile hook of their own: their calls are not recorded"
                )
            return
        self._tool = next((tool for tool in _TOOL_IDS if monitoring.get_tool(tool) is None), None)
        if self._tool is None:
            self._backend.untrace_calls()
            raise RuntimeError("calls can't be traced: sys.monitoring has no place for another tool")
        monitoring.use_tool_id(self._tool, _TOOL)
        events = 0
        for name, function in found.items():
            event = getattr(monitoring.events, name)
            monitoring.register_callback(self._tool, event, function)
            if not name.startswith("C_"):  # those follow CALL
                events |= event
        monitoring.set_events(self._tool, events)
        monitoring.restart_events()  # what an earlier recording disabled

    def stop(self) -> None:
        """End; calls that are open are recorded no more."""
        if self._tool is not None:
            monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            monitoring.set_events(self._tool, 0)
            monitoring.free_tool_id(self._tool)
            self._tool = None
        lost = self._backend.untrace_calls()
        if lost:
            self.problem = (
                f"another profiler took our place in {lost} threads: calls from then on are missing"
            )


class Follower:
    """Traces while its process is in a session; see `topstx.on_session`."""

    def __init__(self, backend: Backend, text: str) -> None:
        self._backend = backend
        self._text = text
        self._calls: Calls | None = None

    def __call__(self, folder: str | None) -> None:
        """The process entered the session in `folder`, or (None) leaves it."""
        if folder is None:
            self.end()
            return
        import atexit

        try:
            self._calls = Calls(self._backend, CallOptions.of_text(self._text))
            self._calls.start()
        except (RuntimeError, ValueError) as error:
            self._calls = None
            self._note(str(error))
            return
        self._note(self._calls.problem)
        atexit.unregister(self.end)
        atexit.register(self.end)

    def end(self) -> None:
        """No more calls."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.problem = ""
            calls.stop()
            self._note(calls.problem)

    def _note(self, problem: str) -> None:
        if problem:
            self._backend.process_entry("python_calls", problem)
