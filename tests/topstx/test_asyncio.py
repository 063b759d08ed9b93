"""Ranges of asyncio tasks that run side by side never mix."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topstx.recorder import layout as L

INTERLEAVED = """
    import asyncio, json, sys, topstx

    plans = json.loads(sys.argv[1])

    async def task(number, plan, turn):
        objects = []
        for step in plan:
            await turn()
            kind, label = step
            name = f"{number} {label}"
            if kind == "push": topstx.push_range(name)
            elif kind == "pop": topstx.pop_range()
            elif kind == "enter": objects.append(topstx.annotate(name)); objects[-1].__enter__()
            elif kind == "leave" and objects: objects.pop(label % len(objects)).__exit__(None, None, None)
            elif kind == "mark": topstx.mark(name)

    async def main():
        async def turn(): await asyncio.sleep(0)
        await asyncio.gather(*(task(n, plan, turn) for n, plan in enumerate(plans)))

    asyncio.run(main())
"""


def expected(number: int, plan: list[tuple[str, int]]) -> tuple[list[tuple[str, int, int]], list[str], int]:
    """What one task leaves: (name, depth, kind) in order of the ends, names left open, pops of nothing."""
    done: list[tuple[str, int, int]] = []
    pushed: list[tuple[str, int]] = []
    entered: list[tuple[str, int]] = []
    lost = 0
    for kind, label in plan:
        name, depth = f"{number} {label}", len(pushed) + len(entered)
        if kind == "push":
            pushed.append((name, depth))
        elif kind == "enter":
            entered.append((name, depth))
        elif kind == "mark":
            done.append((name, depth, L.KIND_MARK))
        elif kind == "pop":
            if pushed:
                done.append((*pushed.pop(), L.KIND_RANGE))
            else:
                lost += 1
        elif entered:
            done.append((*entered.pop(label % len(entered)), L.KIND_RANGE))
    return done, [name for name, _ in pushed + entered], lost


steps = st.tuples(st.sampled_from(["push", "pop", "enter", "leave", "mark"]), st.integers(0, 5))


@given(plans=st.lists(st.lists(steps, max_size=14), min_size=2, max_size=6))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_interleaving(
    program: Any, tmp_path_factory: pytest.TempPathFactory, plans: list[list[tuple[str, int]]]
) -> None:
    program.folder, program.created = tmp_path_factory.mktemp("tasks") / "session", False
    process = program(INTERLEAVED, json.dumps(plans)).only
    models = [expected(number, plan) for number, plan in enumerate(plans)]
    for number, (done, left, _) in enumerate(models):
        mine = [r for r in process.records if r.name.startswith(f"{number} ")]
        assert [(r.name, r.depth, r.kind) for r in mine] == done
        assert len({r.task for r in mine}) <= 1
        assert sorted(r.name for r in process.open if r.name.startswith(f"{number} ")) == sorted(left)
    tasks = [{r.task for r in process.records if r.name.startswith(f"{n} ")} for n in range(len(plans))]
    seen = [task for found in tasks for task in found]
    assert len(seen) == len(set(seen))
    assert process.unbalanced == sum(lost for _, _, lost in models)


@pytest.mark.smoke
def test_the_thread_itself_and_its_tasks(program: Any) -> None:
    process = program("""
        import asyncio, contextvars, topstx
        topstx.push_range("around")                       # no context yet
        contextvars.ContextVar("v").set(1)                # now the thread has one of its own
        topstx.push_range("around too")
        async def work(n):
            with topstx.annotate(f"work {n}"):
                topstx.push_range(f"step {n}")
                await asyncio.sleep(0.001)
                topstx.pop_range()
        async def main():
            await asyncio.gather(*(work(n) for n in range(20)))
            topstx.pop_range()                            # around too: nothing of its own is open
        asyncio.run(main())
        topstx.pop_range()
    """).only
    records = {r.name: r for r in process.records}
    assert len(records) == 42 and not process.open and process.unbalanced == 0
    assert (records["around"].task, records["around"].depth) == (0, 0)
    assert records["around too"].task == 0
    if program.backend == "c":  # the twin can't see that nobody entered this context
        assert records["around too"].depth == 1
    for n in range(20):
        assert records[f"work {n}"].task == records[f"step {n}"].task
        assert (records[f"work {n}"].depth, records[f"step {n}"].depth) == (0, 1)
    tasks = {records[f"work {n}"].task for n in range(20)}
    assert len(tasks) == 20


def test_many_tasks_at_once(program: Any) -> None:
    process = program("""
        import asyncio, topstx
        async def work(n):
            topstx.push_range("outer")
            for _ in range(3):
                with topstx.annotate("inner"): await asyncio.sleep(0)
            topstx.pop_range()
        async def main():
            for _ in range(3): await asyncio.gather(*(work(n) for n in range(1500)))
        asyncio.run(main())
    """, policy=L.POLICY_DROP).only  # fmt: skip
    assert process.names().count("outer") == 4500 and process.names().count("inner") == 13500
    assert {(r.name, r.depth) for r in process.records} == {("outer", 0), ("inner", 1)}
    assert not process.open


def test_a_range_that_leaves_its_task(program: Any) -> None:
    process = program("""
        import asyncio, topstx
        async def begin():
            r = topstx.annotate("passed on"); r.__enter__()
            topstx.push_range("left open")
            return r
        async def main():
            r = await asyncio.create_task(begin())
            topstx.push_range("other")
            r.__exit__(None, None, None)
            topstx.pop_range()
        asyncio.run(main())
    """).only
    assert process.names() == ["passed on", "other"]
    assert [r.name for r in process.open] == ["left open"]
