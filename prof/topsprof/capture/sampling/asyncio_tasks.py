"""asyncio's tasks in another process: their names, coroutine stacks, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from topsprof.capture.sampling.objects import Objects

Resolve = Callable[[int, int], "Frame | None"]
"""(address of a code object, address of an instruction) -> frame; `Sampler.frame`."""

_CHAIN_MAX: Final = 500
_TASKS_MAX: Final = 100_000
_WRAPPED: Final = 16
"""Where async_generator_asend, ..._athrow and coroutine_wrapper have what they stand for: first of all."""

_WAITING_CALLS: Final = {
    "TaskGroup.__aexit__": ("self", "_tasks"),
    "TaskGroup._aexit": ("self", "_tasks"),
    "_wait": ("fs", ""),
    "wait_for": ("fut", ""),
}
"""Functions of asyncio that wait for tasks -> (variable, attribute of it) that holds these."""

TaskState = Literal["running", "waiting", "created"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a stack. `line` is 0 where it is not known; `address` is that of the interpreter's frame."""

    name: str
    file: str
    line: int
    address: int = 0
    code: int = 0


@dataclass(slots=True)
class Task:
    """A task that is not done."""

    address: int
    name: str
    coroutine: str
    """Qualified name of its coroutine."""
    state: TaskState
    frames: list[Frame]
    """Innermost first. Of a running task only its coroutine: the thread's stack tells the rest."""
    waits_for: str = ""
    """What it waits for, in words; "" where it does not wait."""
    awaits: list[int] = field(default_factory=list)
    """Addresses of the tasks that it waits for."""
    awaited_by: list[int] = field(default_factory=list)
    coroutine_address: int = 0


class AsyncioReader:
    """Reads the tasks of a process."""

    def __init__(self, objects: Objects, resolve: Resolve) -> None:
        self._objects = objects
        self._resolve = resolve
        self._task_types: dict[int, str] = {}

    def current_tasks(self, interpreter: int) -> int:
        """The address of the dict {loop: current task}; 0 where asyncio is not imported."""
        module = self._objects.module_dict(interpreter, "asyncio.tasks")
        return self._objects.item(module, "_current_tasks") if module else 0

    def tasks(self, interpreters: list[int]) -> list[Task]:
        """All tasks that are not done, with who awaits whom filled in."""
        found: dict[int, Task] = {}
        for interpreter in interpreters:
            for address in self._addresses(interpreter):
                task = None if address in found else self._task(address)
                if task is not None:
                    found[address] = task
        for task in found.values():
            task.awaits = [address for address in dict.fromkeys(task.awaits) if address in found]
            for address in task.awaits:
                found[address].awaited_by.append(task.address)
            names = ", ".join(repr(found[address].name) for address in task.awaits[:3])
            more = len(task.awaits) - 3
            if names:
                what = "task" if len(task.awaits) == 1 else "tasks"
                task.waits_for = f"{what} {names}" + (f" and {more} more" if more > 0 else "")
        return list(found.values())

    def _addresses(self, interpreter: int) -> Iterator[int]:
        objects = self._objects
        module = objects.module_dict(interpreter, "asyncio.tasks")
        if not module:
            return
        sets = objects.items(module, {"_all_tasks", "_scheduled_tasks", "_eager_tasks"})
        for value in sets.values():
            if objects.type_name(value) == "WeakSet":
                for reference in objects.members(objects.attribute(value, "data"), _TASKS_MAX):
                    target = objects.word(reference + objects.at["weakref_object"])
                    if target and objects.type_name(target) != "NoneType":
                        yield target
            else:
                yield from objects.members(value, _TASKS_MAX)

    def is_task(self, address: int) -> bool:
        """Whether an object is a task: of C, or of Python ("py")."""
        return self._kind(address) in ("c", "py")

    def _kind(self, address: int) -> str:
        """ "c" or "py" for a task, "future" for another future, else ""."""
        objects = self._objects
        kind = objects.type_of(address)
        if kind not in self._task_types:
            names = set()
            for base in objects.sequence(objects.word(kind + objects.at["type_mro"]), 100)[0]:
                names.add(objects.c_text(objects.word(base + objects.at["type_name"])))
            found = "c" if "_asyncio.Task" in names else "py" if "Task" in names else ""
            if not found and names & {"_asyncio.Future", "Future"}:
                found = "future"
            self._task_types[kind] = found
        return self._task_types[kind]

    def _fields(self, address: int) -> tuple[int, int, int]:
        """(coroutine, name, what it waits for) of a task."""
        objects, at = self._objects, self._objects.at
        if self._kind(address) == "c":
            return tuple(objects.word(address + at[f"task_{name}"]) for name in ("coro", "name", "waiter"))  # type: ignore[return-value]
        attributes = dict(objects.attributes(address))
        return tuple(attributes.get(name, 0) for name in ("_coro", "_name", "_fut_waiter"))  # type: ignore[return-value]

    def name(self, address: int) -> str:
        """The name of a task. From 3.12 on one that nobody has asked for is a number yet."""
        name = self._fields(address)[1]
        text = self._objects.text(name)
        if text is not None:
            return text
        number = self._objects.integer(name)
        return f"Task-{number}" if number is not None else ""

    def _task(self, address: int) -> Task | None:
        if not self.is_task(address):
            return None
        objects = self._objects
        coroutine, _, waiter = self._fields(address)
        state = self._state(coroutine)
        if state is None:
            return None
        frames = list(self.chain(coroutine))
        qualname = objects.text(objects.word(coroutine + objects.at["gen_name"])) or objects.type_name(
            coroutine
        )
        task = Task(address, self.name(address), qualname, state, frames[::-1], coroutine_address=coroutine)
        if state == "waiting" and objects.type_name(waiter) != "NoneType":
            self._add_waits(task, waiter)
        return task

    def _state(self, coroutine: int) -> TaskState | None:
        """None where it is done, or is no coroutine of Python's (it can't be told then)."""
        objects = self._objects
        if objects.type_name(coroutine) not in ("coroutine", "generator"):
            return "waiting" if objects.type_name(coroutine) else None
        value = objects.number(coroutine + objects.at["gen_state"], 1)
        if value > 0:
            return None
        if value == 0:
            return "running"
        return "created" if value == (-3 if self._yields_are_told() else -2) else "waiting"

    def _yields_are_told(self) -> bool:
        """Whether the state of a generator tells `yield from` and `await` from `yield`: from 3.13 on."""
        return self._objects.at["thread_cframe"] < 0

    def chain(self, coroutine: int) -> Iterator[Frame]:
        """The frames of a coroutine and of what it awaits, outermost first."""
        objects, at = self._objects, self._objects.at
        seen: set[int] = set()
        while coroutine and coroutine not in seen and len(seen) < _CHAIN_MAX:
            seen.add(coroutine)
            name = objects.type_name(coroutine)
            if name in ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper"):
                coroutine = objects.word(coroutine + _WRAPPED)
                continue
            if name not in ("coroutine", "generator", "async_generator"):
                return
            if objects.number(coroutine + at["gen_state"], 1) > 0:
                return
            place = coroutine + at["gen_frame"]
            code, instr = objects.word(place + at["frame_code"]), objects.word(place + at["frame_instr"])
            frame = self._resolve(code, instr)
            if frame is None:
                return
            yield Frame(frame.name, frame.file, frame.line, place, code)
            coroutine = self._awaited(coroutine, place, instr)

    def _awaited(self, coroutine: int, frame: int, instr: int) -> int:
        """What a suspended coroutine awaits: the top of its stack; 0: nothing."""
        objects, at = self._objects, self._objects.at
        if objects.number(coroutine + at["gen_state"], 1) != -1:
            return 0
        if not self._yields_are_told():
            following = objects.block(instr + 2, 2)
            if (
                following is None or following[1] < 2
            ):  # RESUME says what it comes back from: 2 yield from, 3 await
                return 0
        top = objects.number(frame + at["frame_stacktop"])
        if not 0 < top < 1 << 16:
            return 0
        return objects.word(frame + at["frame_locals"] + 8 * (top - 1))

    def _add_waits(self, task: Task, waiter: int) -> None:
        objects = self._objects
        kind = objects.type_name(waiter)
        task.waits_for = kind.rpartition(".")[2]
        if self.is_task(waiter):
            task.awaits.append(waiter)
        elif kind == "_GatheringFuture":
            children = objects.sequence(objects.attribute(waiter, "_children"), _TASKS_MAX)[0]
            task.awaits += [child for child in children if self.is_task(child)]
            task.waits_for = f"gather of {len(children)}"
        for frame in task.frames[:3]:
            variable, attribute = _WAITING_CALLS.get(frame.name, ("", ""))
            if not variable:
                continue
            held = self._variable(frame, variable)
            held = objects.attribute(held, attribute) if held and attribute else held
            members = objects.members(held, _TASKS_MAX) or ([held] if held and self.is_task(held) else [])
            task.awaits += [member for member in members if self.is_task(member)]

    def _variable(self, frame: Frame, wanted: str) -> int:
        """The value of a local variable; 0: none."""
        objects, at = self._objects, self._objects.at
        names, _ = objects.sequence(objects.word(frame.code + at["code_names"]), 1000)
        for index, name in enumerate(names):
            if objects.text(name) == wanted:
                value = objects.word(frame.address + at["frame_locals"] + 8 * index)
                return objects.word(value + at["cell_value"]) if objects.type_name(value) == "cell" else value
        return 0
