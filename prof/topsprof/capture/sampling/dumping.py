"""What a Python process does at one moment: the stacks of its threads and tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tops_kit.collect.chunk_format import GC, HOLDS_GIL
from tops_kit.errors import UserError
from topsprof.capture.sampling import extension, target
from topsprof.capture.sampling.asyncio_tasks import AsyncioReader, Frame, Task
from topsprof.capture.sampling.native import NativeNames
from topsprof.capture.sampling.objects import Objects
from topsprof.capture.sampling.values import LIMITS, Limits, local_variables

_DEPTH: Final = 100_000


@dataclass(slots=True)
class DumpedFrame:
    """One frame; `line` is 0 where it is not known."""

    name: str
    file: str
    line: int
    variables: dict[str, str] | None = None
    """Name -> value as text; None: not asked for."""


@dataclass(slots=True)
class DumpedThread:
    """One thread of Python. `state` and `wait` are words of the extension's STATES and WAITS."""

    tid: int
    name: str
    interpreter: int
    state: str
    wait: str
    system_call: str
    gil_holder: int
    """The thread that has the GIL, of one that waits for it; 0: not known."""
    holds_gil: bool
    collects_garbage: bool
    native: str
    """Where a blocked thread is, as library!symbol; "" where it is not blocked."""
    task: str
    resolved: bool
    cut: bool
    """Whether there are more frames than are shown."""
    frames: list[DumpedFrame] = field(default_factory=list)


@dataclass(slots=True)
class DumpedTask:
    """One asyncio task that is not done."""

    name: str
    coroutine: str
    state: str
    waits_for: str
    awaited_by: list[str]
    frames: list[DumpedFrame] = field(default_factory=list)


@dataclass(slots=True)
class Dump:
    """A process at one moment."""

    pid: int
    command: list[str]
    python: str
    program: str
    threads: list[DumpedThread]
    tasks: list[DumpedTask] | None
    """None: not asked for."""

    def as_json(self) -> dict[str, Any]:
        """The same as plain dicts and lists."""
        return asdict(self)


def take(pid: int, *, variables: bool = False, tasks: bool = False, limits: Limits = LIMITS) -> Dump:
    """Look at a process once. Raises UserError where it can't be read, or has ended meanwhile."""
    found = target.find(pid)
    process = found.open(_DEPTH, native=False)
    objects = Objects(process, found.layout, found.version)
    dumper = _Dumper(found, process, objects, limits if variables else None)
    # Before names are looked up, which takes longer: threads and tasks are seen at nearly the same time.
    interpreters = objects.interpreters(found.runtime)
    reader = AsyncioReader(objects, dumper.resolve)
    if interpreters:
        process.set_tasks(reader.current_tasks(interpreters[-1]))
    looked = [each for each in process.look() if each is not None]
    all_tasks = reader.tasks(interpreters) if tasks else []
    if not looked and not Path(f"/proc/{pid}").exists():
        raise UserError(f"process {pid} has ended")
    names = dumper.thread_names(interpreters)
    threads = [dumper.thread(each, names, reader) for each in looked]
    threads.sort(key=lambda thread: (thread.tid != pid, thread.tid, -thread.interpreter))
    return Dump(
        pid,
        _command(pid),
        found.version,
        found.file,
        threads,
        [dumper.task(task, all_tasks) for task in all_tasks] if tasks else None,
    )


def _command(pid: int) -> list[str]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in raw.rstrip(b"\0").split(b"\0")]


class _Dumper:
    def __init__(
        self, found: target.Target, process: extension.Process, objects: Objects, limits: Limits | None
    ) -> None:
        self._target = found
        self._process = process
        self._objects = objects
        self._limits = limits
        self._native = NativeNames(found.pid, found.file)
        self._calls = extension.load().SYSCALLS

    def resolve(self, code: int, instruction: int) -> Frame | None:
        found = self._process.resolve(code, instruction)
        if found is None:
            return None
        name, file, _ = self._process.code(found[0])
        return Frame(name, file, found[1])

    def thread_names(self, interpreters: list[int]) -> dict[int, str]:
        """pthread id -> the name that the program gave."""
        objects = self._objects
        names: dict[int, str] = {}
        for interpreter in interpreters:
            module = objects.module_dict(interpreter, "threading")
            active = objects.item(module, "_active") if module else 0
            for key, thread in objects.entries(active, 1 << 16) if active else ():
                ident = objects.integer(key)
                name = objects.text(objects.attribute(thread, "_name"))
                if ident is not None and name:
                    names[ident] = name
        return names

    def thread(self, looked: dict[str, Any], names: dict[int, str], reader: AsyncioReader) -> DumpedThread:
        pid, tid, flags = self._target.pid, looked["tid"], looked["flags"]
        frames = looked["frames"]
        native = ""
        if looked["pc"] and looked["state"] in ("blocked", "gil"):
            native = str(self._native.name([looked["pc"]])[0])
        return DumpedThread(
            tid,
            names.get(looked["ident"], "") or ("MainThread" if tid == pid else _comm(pid, tid)),
            looked["interpreter"],
            looked["state"],
            looked["wait"],
            self._calls.get(looked["syscall"], f"system call {looked['syscall']}")
            if looked["syscall"] >= 0
            else "",
            looked["holder"],
            bool(flags & HOLDS_GIL),
            bool(flags & GC),
            native,
            looked["task"],
            looked["resolved"],
            looked["cut"],
            [
                self._frame(*self._process.code(code_id)[:2], line, address, code)
                for address, code, code_id, line, _, _ in frames
            ],
        )

    def _frame(self, name: str, file: str, line: int, address: int, code: int) -> DumpedFrame:
        variables = None
        if self._limits is not None and address:
            variables = dict(local_variables(self._objects, address, code, self._limits))
        return DumpedFrame(name, file, line, variables)

    def task(self, task: Task, others: list[Task]) -> DumpedTask:
        names = {other.address: other.name for other in others}
        return DumpedTask(
            task.name,
            task.coroutine,
            task.state,
            task.waits_for,
            [names[address] for address in task.awaited_by],
            [self._frame(f.name, f.file, f.line, f.address, f.code) for f in task.frames],
        )


def _comm(pid: int, tid: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{tid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return ""
