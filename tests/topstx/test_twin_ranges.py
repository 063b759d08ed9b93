"""The Python twin's ranges: whatever the order of calls, each comes out once, with its facts."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topstx.recorder import layout, twin

READER: Any = sys.modules["ring_reader"]  # conftest.py has loaded it


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Path]:
    folder: Path = READER.create_session(tmp_path / "session")
    assert twin.attach(str(folder))
    yield folder
    twin.detach()


def finish(folder: Path) -> Any:
    """What the process recorded, after it left."""
    twin.detach()
    return READER.read_recording(folder).only


@dataclass
class _Model:
    """Ranges of one thread outside any context, as interface.py states them."""

    stack: list[tuple[str, str, bool, int]] = field(default_factory=list)  # name, domain, pushed, depth
    ended: list[tuple[str, str, int]] = field(default_factory=list)
    unbalanced: int = 0

    def begin(self, name: str, domain: str, pushed: bool) -> tuple[str, str, bool, int]:
        opened = (name, domain, pushed, len(self.stack))
        self.stack.append(opened)
        return opened

    def pop(self, domain: str) -> None:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index][2] and self.stack[index][1] == domain:
                self.end(index)
                return
        self.unbalanced += 1

    def end(self, index: int) -> None:
        name, domain, _, depth = self.stack.pop(index)
        self.ended.append((name, domain, depth))


_DOMAIN = st.sampled_from(["", "a", "b"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), _DOMAIN),
        st.tuples(st.just("pop"), _DOMAIN),
        st.tuples(st.just("enter"), _DOMAIN),
        st.tuples(st.just("exit"), st.integers(0, 5)),
    ),
    max_size=60,
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=_STEPS)
def test_any_order_of_calls_matches_the_model(tmp_path_factory: pytest.TempPathFactory, steps: Any) -> None:
    folder = READER.create_session(tmp_path_factory.mktemp("twin") / "session")
    assert twin.attach(str(folder))
    model = _Model()
    entered: list[tuple[Any, tuple[str, str, bool, int]]] = []
    for number, (what, argument) in enumerate(steps):
        name = f"r{number}"
        if what == "push":
            twin.push_range(name, domain=argument or None)
            model.begin(name, argument, True)
        elif what == "pop":
            twin.pop_range(argument or None)
            model.pop(argument)
        elif what == "enter":
            opened = twin.annotate(name, domain=argument or None)
            opened.__enter__()
            entered.append((opened, model.begin(name, argument, False)))
        elif entered:
            opened, in_model = entered.pop(argument % len(entered))
            opened.__exit__(None, None, None)
            model.end(model.stack.index(in_model))
    process = finish(folder)
    assert [(r.name, r.domain, r.depth) for r in process.of()] == model.ended
    assert sorted((r.name, r.domain, r.depth) for r in process.open) == sorted(
        (name, domain, depth) for name, domain, _, depth in model.stack
    )
    assert process.unbalanced == model.unbalanced


@pytest.mark.smoke
def test_tasks_never_mix_their_ranges(session: Path) -> None:
    async def work(number: int) -> None:
        twin.push_range(f"outer {number}")
        for step in range(3):
            with twin.annotate(f"inner {number}", payload=step):
                await asyncio.sleep(0)
        await asyncio.sleep(0.001 * (4 - number))
        twin.pop_range()

    async def main() -> None:
        twin.push_range("main")
        await asyncio.gather(*(work(number) for number in range(4)))
        twin.pop_range()

    asyncio.run(main())
    process = finish(session)
    assert process.unbalanced == 0 and not process.open
    tasks = {}
    for record in process.of():
        if record.name == "main":
            assert (record.task, record.depth) == (0, 0)
            continue
        kind, number = record.name.split()
        assert record.depth == (0 if kind == "outer" else 1)
        tasks.setdefault(number, set()).add(record.task)
    assert all(len(found) == 1 and 0 not in found for found in tasks.values())
    assert len(set().union(*tasks.values())) == 4


def test_the_first_context_variable_of_a_thread_changes_nothing(session: Path) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    def work() -> None:
        twin.push_range("outer")
        variable.set(1)  # from here on the thread has a context of its own
        twin.push_range("inner")
        twin.pop_range()
        twin.pop_range()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    process = finish(session)
    assert [(r.name, r.depth, r.task) for r in process.of()] == [("inner", 1, 0), ("outer", 0, 0)]


@pytest.mark.parametrize("native", [True, False], ids=["context pointer", "asyncio task"])
def test_both_ways_to_tell_contexts_apart(tmp_path: Path, native: bool) -> None:
    from topstx.recorder.twin_memory import ContextFinder, Memory

    finder = ContextFinder(Memory().native if native else None)
    cell = finder.for_this_thread()

    async def identity() -> tuple[int, int]:
        first = cell[0]
        await asyncio.sleep(0)
        return first, cell[0]

    async def main() -> list[tuple[int, int]]:
        return await asyncio.gather(*(identity() for _ in range(5)))

    found = asyncio.run(main())
    assert all(first == second != 0 for first, second in found)
    assert len({first for first, _ in found}) == 5


def test_a_context_other_than_a_task_is_one_of_its_own(session: Path) -> None:
    def work() -> None:
        inside = contextvars.Context()
        twin.push_range("outside")  # a new thread is in no context
        inside.run(twin.push_range, "inside")
        contextvars.Context().run(twin.pop_range)  # nothing is open there, so it closes what no context holds
        inside.run(twin.pop_range)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    process = finish(session)
    assert process.names() == ["outside", "inside"]
    assert process.unbalanced == 0


def test_a_range_entered_twice_has_two_slots(session: Path) -> None:
    shared = twin.annotate("shared")
    barrier = threading.Barrier(3)

    def work() -> None:
        with shared:
            barrier.wait(10)
            barrier.wait(10)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    barrier.wait(10)
    with shared, shared:
        pass
    barrier.wait(10)
    for thread in threads:
        thread.join()
    process = finish(session)
    assert process.names() == ["shared"] * 4
    assert not process.open and not any(record.shared for record in process.of())
    assert len({record.tid for record in process.of()}) == 3


def test_a_finish_in_another_thread_goes_to_the_shared_ring(session: Path) -> None:
    opened = twin.annotate("far", payload={"a": "x" * 50})
    opened.__enter__()
    thread = threading.Thread(target=opened.__exit__, args=(ValueError, None, None))
    thread.start()
    thread.join()
    process = finish(session)
    (record,) = process.of()
    assert record.shared and record.tid == threading.get_native_id() != record.end_tid
    assert record.error == "ValueError" and record.payload == {"a": "x" * 50}
    assert not process.open


_PAYLOADS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.dictionaries(st.text(max_size=8), st.one_of(st.integers(-9, 9), st.text(max_size=40)), max_size=8),
)


@settings(max_examples=40, deadline=None)
@given(payloads=st.lists(_PAYLOADS, min_size=1, max_size=40))
def test_payloads_come_back_as_they_went(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[Any]
) -> None:
    folder = READER.create_session(tmp_path_factory.mktemp("twin") / "session")
    assert twin.attach(str(folder))
    for payload in payloads:
        twin.mark("m", payload=payload)
    assert [record.payload for record in finish(folder).of(layout.KIND_MARK)] == payloads


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (True, 1),
        (1 << 70, str(1 << 70)),
        ([1, 2], "[1, 2]"),
        ({"a": {1, 2}.__class__}, {"a": "<class 'set'>"}),
        ("\ud800", "\\ud800"),
    ],
)
def test_odd_payloads_are_text(session: Path, payload: object, expected: object) -> None:
    twin.mark("m", payload=payload)
    (record,) = finish(session).of(layout.KIND_MARK)
    assert record.payload == expected


def test_a_long_payload_is_cut_between_characters(session: Path) -> None:
    twin.mark("m", payload="é" * layout.PAYLOAD_MAX)
    (record,) = finish(session).of(layout.KIND_MARK)
    assert record.flags & layout.FLAG_TRUNCATED
    assert record.payload == "é" * (layout.PAYLOAD_MAX // 2)


class _Hostile:
    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_nothing_that_is_passed_raises(session: Path) -> None:
    bad: Any = _Hostile()
    twin.push_range(bad, color=bad, domain=bad, category=bad, payload=bad)
    twin.pop_range(bad)
    twin.mark(bad, payload={1j: 2})
    twin.end_range(bad)
    twin.counter(bad, bad, bad).sample(bad)
    twin.set_thread_name(bad)
    twin.process_entry(bad, bad)
    with twin.annotate(bad, color="#12", payload=bad):
        pass
    process = finish(session)
    assert process.names() == ["<unprintable _Hostile>"] * 2
    assert process.unbalanced == 0


@pytest.mark.parametrize(
    ("color", "value"),
    [
        ("red", 0xFFFF0000),
        ("#0f0", 0xFF00FF00),
        ("#102030", 0xFF102030),
        ("#80102030", 0x80102030),
        (0x102030, 0xFF102030),
        (0x80102030, 0x80102030),
        ("no such colour", 0),
        ("#12345g", 0),
        (1.5, 0),
    ],
)
def test_colours(session: Path, color: object, value: int) -> None:
    twin.mark("m", color=color)
    (record,) = finish(session).of(layout.KIND_MARK)
    assert record.color == value
