"""Stream races: small cases, and random programs against an order that is worked out in full."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tops_kit.gcu.races import Access, Mark, StreamRaces


def write(begin: int = 0, end: int = 100, allocation: int = 1) -> list[Access]:
    return [Access(allocation, begin, end, True)]


def read(begin: int = 0, end: int = 100, allocation: int = 1) -> list[Access]:
    return [Access(allocation, begin, end, False)]


def test_a_read_beside_a_write() -> None:
    races = StreamRaces()
    assert races.submit(1, write(), "fill") == []
    (race,) = races.submit(2, read(60, 300), "use")
    assert (race.first, race.first_stream, race.first_writes) == ("fill", 1, True)
    assert (race.second, race.second_stream, race.second_writes) == ("use", 2, False)
    assert (race.allocation, race.begin, race.end) == (1, 60, 100)


def test_no_race_without_a_write_an_overlap_or_another_stream() -> None:
    races = StreamRaces()
    assert races.submit(1, read(), "a") == []
    assert races.submit(2, read(), "b") == []
    assert races.submit(2, write(allocation=2), "c") == []
    assert races.submit(1, write(100, 200, allocation=2), "d") == []
    assert races.submit(1, write(100, 150, allocation=2), "e") == []
    assert races.submit(2, write(7, 7), "nothing") == []


def test_events_put_streams_in_order() -> None:
    races = StreamRaces()
    races.submit(1, write(), "a")
    event = races.mark(1)
    races.submit(1, write(200, 300), "after the event")
    races.wait(2, event)
    assert races.submit(2, read(), "b") == []
    assert len(races.submit(2, read(200, 300), "c")) == 1
    # through a third stream
    races.wait(3, races.mark(2))
    assert races.submit(3, write(), "d") == []


def test_the_host_puts_streams_in_order() -> None:
    races = StreamRaces()
    races.submit(1, write(), "a")
    races.host_waits_for_all([1])
    assert races.submit(2, write(), "b") == []
    assert len(races.submit(1, write(), "c")) == 1
    races.host_waits_for_all()
    assert races.submit(3, write(), "d") == []


def test_what_the_host_knew_travels_with_an_event() -> None:
    races = StreamRaces()
    races.submit(1, write(), "a")
    races.submit(2, read(200, 300), "b")
    races.wait(2, races.mark(1))
    races.host_waits(races.mark(2))  # so 1, too
    assert races.submit(3, write(), "c") == []


def test_each_race_is_said_once() -> None:
    races = StreamRaces()
    for step in range(50):
        races.submit(1, write(), step, "fill")
        races.submit(2, read(), step, "use")
    assert races.repeated > 50
    assert len(races.submit(2, write(), 50, "other")) == 1


def test_memory_stays_bounded() -> None:
    races = StreamRaces()
    for step in range(3000):
        races.submit(step % 3, write(step * 10, step * 10 + 10), step)
    assert len(races._touched[1]) <= 256
    assert races.forgotten == 3000 - 256
    races.host_waits_for_all()
    races.submit(1, write(0, 5), "now")
    assert len(races._touched[1]) == 1
    races.forget(1)
    assert not races._touched
    for stream in range(1000):
        races.wait(stream + 1, races.mark(stream))
        races.forget_stream(stream)
    assert len(races._clock(1000).known) <= 1


def test_a_stream_that_is_no_more_does_not_race() -> None:
    races = StreamRaces()
    races.submit(1, write(), "a")
    races.forget_stream(1)
    assert races.submit(2, write(), "b") == []


@dataclass
class Order:
    """Who comes before whom, by sets of all that came before."""

    before_next: dict[int, set[int]] = field(default_factory=dict)  # by stream
    host: set[int] = field(default_factory=set)

    def of(self, stream: int) -> set[int]:
        return self.before_next.setdefault(stream, set())


def test_a_stream_that_only_waited_hands_on_what_it_knows() -> None:
    races = StreamRaces()
    races.submit(2, read(allocation=2), "a")
    races.host_waits_for_all([2])
    races.submit(1, write(), "b")
    races.wait(2, races.mark(1))  # nothing is submitted on 2
    races.host_waits_for_all([2])
    assert races.submit(3, write(), "c") == []


STREAM = st.integers(0, 3)
ACCESS = st.builds(
    lambda allocation, begin, size, writes: Access(allocation, begin, begin + size, writes),
    st.integers(0, 1), st.integers(0, 6), st.integers(1, 5), st.booleans(),
)  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("submit"), STREAM, st.lists(ACCESS, min_size=1, max_size=3)),
    st.tuples(st.just("submit"), STREAM, st.lists(ACCESS, min_size=1, max_size=3)),
    st.tuples(st.just("mark"), STREAM, st.none()),
    st.tuples(st.just("wait"), STREAM, st.integers(0, 5)),
    st.tuples(st.just("host"), STREAM, st.none()),
    st.tuples(st.just("host mark"), STREAM, st.integers(0, 5)),
)


@settings(max_examples=400)
@given(st.lists(STEP, max_size=40))
def test_an_operation_is_said_to_race_where_it_does(steps: list[tuple[str, int, object]]) -> None:
    races, order = StreamRaces(), Order()
    marks: list[tuple[Mark, set[int]]] = []
    done: list[list[Access]] = []
    for what, stream, more in steps:
        if what == "submit":
            assert isinstance(more, list)
            before = order.of(stream) | order.host
            expected = {
                earlier
                for earlier, accesses in enumerate(done)
                if earlier not in before and any(_conflict(a, b) for a in accesses for b in more)
            }
            found = races.submit(stream, more, len(done), len(done))
            assert bool(found) == bool(expected)
            # of its own accesses none is a race; others may stand for those that came before them
            assert {race.first for race in found} <= expected
            order.before_next[stream] = before | {len(done)}
            done.append(more)
        elif what == "mark":
            marks.append((races.mark(stream), order.of(stream) | order.host))
        elif what == "host":
            races.host_waits_for_all([stream])
            order.host |= order.of(stream)
        elif marks:
            assert isinstance(more, int)
            mark, before = marks[more % len(marks)]
            if what == "wait":
                races.wait(stream, mark)
                order.before_next[stream] = order.of(stream) | before
            else:
                races.host_waits(mark)
                order.host |= before


def _conflict(a: Access, b: Access) -> bool:
    return a.allocation == b.allocation and a.begin < b.end and b.begin < a.end and (a.write or b.write)
