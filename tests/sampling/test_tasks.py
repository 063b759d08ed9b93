"""asyncio from outside: all tasks, who awaits whom, and whose samples are whose."""

from __future__ import annotations

from typing import Any

import pytest
from topsprof.capture.sampling import dumping

PROGRAM = """
import asyncio, sys, threading

async def never():
    await asyncio.get_running_loop().create_future()  # for ever

async def middle(n):
    await never()  # through

async def numbers():
    yield 1
    await never()

async def iterates():
    async for _ in numbers():
        pass

async def group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(middle(1), name="first")
        tasks.create_task(iterates(), name="second")

async def awaits(task):
    await task

async def waits(task):
    await asyncio.wait([task])

async def main():
    first = asyncio.create_task(middle(2), name="alone")
    kept = [
        asyncio.create_task(group(), name="group"),
        asyncio.create_task(awaits(first), name="awaiter"),
        asyncio.create_task(waits(first), name="waiter"),
        asyncio.create_task(never()),
    ]
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    loop.call_later(0.01, lambda: (print("ready"), sys.stdin.readline()))
    await asyncio.gather(middle(3), middle(4))

asyncio.run(main())
"""


def test_all_tasks_and_their_stacks(start: Any, until: Any) -> None:
    program = start(PROGRAM)
    until(lambda: dumping.take(program.pid).threads[0].system_call == "read")
    found = dumping.take(program.pid, tasks=True)
    assert found.tasks is not None
    tasks = {task.name: task for task in found.tasks}
    numbered = {name for name in tasks if name.startswith("Task-")}
    assert set(tasks) - numbered == {"alone", "group", "first", "second", "awaiter", "waiter"}
    assert len(numbered) == 4  # main, the one without a name, and the two that are gathered
    assert all(task.state == "waiting" for task in found.tasks)

    def names(task: str) -> list[str]:
        return [frame.name for frame in tasks[task].frames]

    for_ever, through = program.line_of("# for ever"), program.line_of("# through")
    assert [(f.name, f.line) for f in tasks["alone"].frames] == [("never", for_ever), ("middle", through)]
    assert names("second") == ["never", "numbers", "iterates"]
    assert names("group")[-1] == "group" and names("awaiter") == ["awaits"]
    assert tasks["alone"].awaited_by == ["awaiter", "waiter"] or set(tasks["alone"].awaited_by) == {
        "awaiter",
        "waiter",
    }
    assert tasks["first"].awaited_by == tasks["second"].awaited_by == ["group"]
    assert tasks["awaiter"].waits_for == "task 'alone'"
    assert tasks["alone"].waits_for == "Future"
    main = next(task for task in found.tasks if task.coroutine == "main")
    gathered = [task for task in found.tasks if task.awaited_by == [main.name]]
    assert [task.coroutine for task in gathered] == ["middle", "middle"]


def test_tasks_that_are_done_are_left_out(start: Any) -> None:
    program = start(
        """
        import asyncio, sys
        async def quick():
            pass
        async def main():
            done = [asyncio.create_task(quick(), name=f"quick {n}") for n in range(5)]
            new = None
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            new = asyncio.create_task(quick(), name="new")
            print("ready")
            sys.stdin.readline()
        asyncio.run(main())
        """
    )
    found = dumping.take(program.pid, tasks=True).tasks
    assert found is not None
    assert {task.name: task.state for task in found} == {"new": "created", "Task-1": "running"}


def test_samples_name_the_task_that_ran(start: Any, sampled: Any) -> None:
    program = start(
        """
        import asyncio
        def work():
            return sum(range(20000))
        async def deeper():
            work()
            await asyncio.sleep(0)
        async def busy(n):
            while True:
                await deeper()
        async def main():
            kept = [asyncio.create_task(busy(n), name=f"busy {n}") for n in range(3)]
            print("ready")
            await asyncio.gather(*kept)
        asyncio.run(main())
        """
    )
    samples, loop = sampled(program.pid)
    seen: dict[str, int] = {}
    while min([seen.get(f"busy {n}", 0) for n in range(3)]) < 30:
        loop.run(0.1)
        for row in samples.take():
            if "work" in [name for name, _ in row["frames"]]:
                seen[row["task"]] = seen.get(row["task"], 0) + 1
    assert set(seen) <= {"", "busy 0", "busy 1", "busy 2"}
    told = sum(count for name, count in seen.items() if name)
    assert told > 5 * seen.get("", 0) or samples.sampler.counts()["tasks_wanted"] == 0
    row = next(row for row in samples.rows if row["task"])
    names = [name for name, _ in row["frames"]]
    assert "busy" in names and names.index("busy") > names.index("deeper")


@pytest.mark.parametrize("kind", ["_PyTask", "Task"])
def test_tasks_written_in_python(kind: str, start: Any, until: Any) -> None:
    """Subclasses of the task in C, and the one in Python that it stands for."""
    program = start(
        f"""
        import asyncio, sys
        class Own(getattr(asyncio.tasks, "{kind}")):
            pass
        async def never():
            await asyncio.get_running_loop().create_future()
        async def main():
            loop = asyncio.get_running_loop()
            loop.set_task_factory(lambda loop, coro, **words: Own(coro, loop=loop, **words))
            kept = asyncio.create_task(never(), name="mine")
            await asyncio.sleep(0)
            print("ready")
            sys.stdin.readline()
        asyncio.run(main())
        """
    )
    found = dumping.take(program.pid, tasks=True).tasks
    assert found is not None
    mine = next(task for task in found if task.name == "mine")
    assert (mine.coroutine, mine.state, mine.waits_for) == ("never", "waiting", "Future")
