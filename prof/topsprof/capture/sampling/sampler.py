"""Sampling of running processes: `Sampler` is one process, `SamplingLoop` takes the samples of many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tops_kit.collect.chunk_format import COLUMNS, Kind
from topsprof.capture.sampling import extension, target
from topsprof.capture.sampling.asyncio_tasks import AsyncioReader, Frame, Task
from topsprof.capture.sampling.native import NativeCode, NativeNames
from topsprof.capture.sampling.objects import Objects

DEPTH: Final = 1024
"""Frames of a stack that are read: the innermost ones, under the code CUT."""
CUT: Final = 0
"""The code id of frames that were cut off."""
NO_STACK: Final = -1
"""The stack of a thread in which no Python function runs."""
UNRESOLVED: Final = -2
"""The stack of a sample whose frames could not be read whole."""
UNNAMED: Final = -1
"""In `native`: native code ran, and its place is not known."""

_THREADS_NAMED: Final = 4096
_FIRST_TASKS_PAUSE: Final = 1
_LONGEST_TASKS_PAUSE: Final = 64


@dataclass(frozen=True, slots=True)
class Code:
    """A function: qualified name, file and line of its definition."""

    id: int
    name: str
    file: str
    first_line: int
    is_coroutine: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What was sampled since the last batch.

    Columns are memoryviews of one length; numpy and pyarrow take them as they are. Rows of one thread are in
    the order of time. `stacks`, `codes`, `natives` and `task_names` hold only what is new: ids stay what they
    are until the sampler ends.
    """

    time_ns: memoryview
    """When: CLOCK_MONOTONIC. The row stands for the `weight_ns` before it."""
    weight_ns: memoryview
    tid: memoryview
    stack: memoryview
    """Id of the innermost frame, NO_STACK or UNRESOLVED."""
    native: memoryview
    """Id of the machine code that ran or waits: 0 none of note, UNNAMED, else one of `natives`."""
    task: memoryview
    """Id of the asyncio task that ran; 0: none."""
    holder: memoryview
    """Of a thread that waits for the GIL: the one that has it, 0: not known."""
    syscall: memoryview
    """Number of the system call that the thread is in; -1: none."""
    state: memoryview
    """Index into STATES of the extension: running, native (without the GIL), gil, blocked, unknown."""
    wait: memoryview
    """Index into WAITS: what a blocked thread waits for."""
    flags: memoryview
    first_stack: int
    stacks: memoryview
    """Triples (parent stack id or -1, code id, line), of the ids from `first_stack` on."""
    codes: list[Code]
    natives: list[tuple[int, NativeCode]]
    """Ids of machine code. Where it `evaluates_python` the interpreter itself ran: no native code of note."""
    task_names: list[tuple[int, str]]
    pauses: list[tuple[int, int, int, int, int]]
    """Garbage collections that ended: begin and end (ns, CLOCK_MONOTONIC), thread (0: not known), stack id,
    generation (-1: not known). Each is known to one tick; shorter ones are met by chance."""
    collections: tuple[int, int, int]
    """How many collections of each generation there were since the process began, short ones, too."""

    def __len__(self) -> int:
        return len(self.tid)

    def nodes(self) -> Iterator[tuple[int, int, int, int]]:
        """The new stacks: (id, parent id, code id, line)."""
        for row in range(len(self.stacks) // 3):
            parent, code, line = self.stacks[3 * row : 3 * row + 3]
            yield self.first_stack + row, parent, code, line


def _cast(column: bytes, kind: Kind) -> memoryview:
    return memoryview(column).cast(kind)


@dataclass
class _TasksSearch:
    """When to look for asyncio again: how many calls to let pass."""

    pause: int = _FIRST_TASKS_PAUSE
    left: int = 0
    found: bool = field(default=False)


class Sampler:
    """One process that is sampled.

    Nothing of ours runs in it: its memory is read from outside. After it has executed another program it has
    ended for us: make a new one. Raises UserError (one line) where the process can't be sampled;
    `target.NotPythonError` where there is no Python in it (yet: try again while a program starts).
    """

    def __init__(self, pid: int, *, depth: int = DEPTH, native: bool = True) -> None:
        self.target = target.find(pid)
        self.pid = pid
        self._process = self.target.open(depth, native)
        self._objects = Objects(self._process, self.target.layout, self.target.version)
        self._asyncio = AsyncioReader(self._objects, self.frame)
        self._natives = NativeNames(pid, self.target.file)
        self._search = _TasksSearch()

    @property
    def end(self) -> str:
        """Why it can't be sampled any more: "exited" or "executed"; "" while it can."""
        return self._process.end

    def batch(self) -> Batch:
        """What was sampled since the last call; of any thread, also while the loop runs."""
        self.look_for_asyncio()
        taken = self._process.take()
        columns = {name: _cast(taken[name], kind) for name, kind in COLUMNS.items()}
        pointers = memoryview(taken["pointers"]).cast("Q").tolist()
        first: int = taken["first_pointer"]
        return Batch(
            **columns,
            first_stack=taken["first_stack"],
            stacks=memoryview(taken["stacks"]).cast("i"),
            codes=[
                Code(each[0], each[1], each[2], each[3], bool(each[4] & 0x180)) for each in taken["codes"]
            ],
            natives=list(enumerate(self._natives.name(pointers), first)),
            task_names=[(each[0], each[1]) for each in taken["tasks"]],
            pauses=taken["pauses"],
            collections=taken["collections"],
        )

    def counts(self) -> dict[str, int]:
        """Totals so far: samples, unresolved, cut, frames, native_named, native_unnamed, threads, ..."""
        return self._process.counts()

    def tasks(self) -> list[Task]:
        """All asyncio tasks of now that are not done. Takes some 0.1 ms a task: not for every sample."""
        return self._asyncio.tasks(self._objects.interpreters(self.target.runtime))

    def thread_names(self) -> dict[int, str]:
        """Names that the program gave its threads, by the system's number of each."""
        objects = self._objects
        names: dict[int, str] = {}
        for interpreter in objects.interpreters(self.target.runtime):
            module = objects.module_dict(interpreter, "threading")
            active = objects.item(module, "_active") if module else 0
            for _, thread in objects.entries(active, _THREADS_NAMED) if active else ():
                of_thread = dict(objects.attributes(thread))
                tid = objects.integer(of_thread.get("_native_id", 0))
                name = objects.text(of_thread.get("_name", 0))
                if tid and name:
                    names[tid] = name
        return names

    def frame(self, code: int, instruction: int) -> Frame | None:
        """The frame of an instruction: addresses are those in the process. None: there is no such code."""
        found = self._process.resolve(code, instruction)
        if found is None:
            return None
        name, file, _ = self._process.code(found[0])
        return Frame(name, file, found[1], 0, code)

    def look_for_asyncio(self) -> None:
        """Once coroutines have been seen, find where asyncio has its current tasks.

        Samples of before have no task, so it is to be called more often than `batch`, which calls it, too.
        """
        search = self._search
        if search.found or not self._process.tasks_wanted:
            return
        search.left -= 1
        if search.left > 0:
            return
        search.pause = search.left = min(search.pause * 2, _LONGEST_TASKS_PAUSE)
        interpreters = self._objects.interpreters(self.target.runtime)
        address = self._asyncio.current_tasks(interpreters[-1]) if interpreters else 0
        if address:
            self._process.set_tasks(address)
            search.found = True


class SamplingLoop:
    """Samples any number of processes at one rate, in the thread that calls `run`, without the GIL."""

    def __init__(self, rate_hz: float = 1000) -> None:
        self._loop = extension.load().Loop(round(1e9 / rate_hz))
        self._samplers: dict[int, Sampler] = {}

    def add(self, sampler: Sampler) -> None:
        """Sample a process from the next `run` on."""
        self._loop.add(sampler._process)
        self._samplers[id(sampler._process)] = sampler

    def remove(self, sampler: Sampler) -> None:
        """Sample it no more. Raises ValueError where it is not sampled."""
        self._loop.remove(sampler._process)
        del self._samplers[id(sampler._process)]

    def run(self, seconds: float) -> list[Sampler]:
        """Take samples for some time, or until a process ends, or until `stop`.

        Returns the samplers whose process ended, which are removed. The ticks go on where the last
        run left off: those missed meanwhile count as late.
        """
        return [self._samplers.pop(id(process)) for process in self._loop.run(seconds)]

    def stop(self) -> None:
        """Let `run` return at its next tick; for any thread."""
        self._loop.stop()

    def counts(self) -> dict[str, int]:
        """Ticks taken, those that came too late to be taken, and processes."""
        return self._loop.counts()
