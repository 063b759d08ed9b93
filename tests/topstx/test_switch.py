"""What turns recording on and off while a program runs: profiler_start/stop, and tools that write the
control file. Ranges pair up across it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout as L

SWITCH = """
import os, topstx
from topstx import mark, pop_range, push_range
from topstx.recorder import layout as L

def switch(recording):
    "As a tool does it."
    with open(os.environ["TOPSTX_SESSION"] + "/control", "r+b") as file:
        file.seek(L.CONTROL_OFFSET["recording"])
        file.write(recording.to_bytes(4, "little"))

OFF, ON, ARMED = L.RECORDING_OFF, L.RECORDING_ON, L.RECORDING_ARMED
"""


def ranges(process: Any) -> list[tuple[str, int]]:
    return [(r.name, r.depth) for r in process.of(L.KIND_RANGE)]


@pytest.mark.smoke
@pytest.mark.parametrize("state", ["OFF", "ARMED"])
def test_pushes_that_are_not_recorded_pair_with_their_pops(program: Any, state: str) -> None:
    """A range pushed after recording went on again is ended by its own pop, not by that of the hidden one."""
    process = program(f"""{SWITCH}
push_range("epoch")
switch({state})
push_range("hidden"); push_range("hidden too", domain="d")
switch(ON)
push_range("inner"); mark("in inner"); pop_range()
mark("after inner")
pop_range(domain="d"); pop_range()
mark("in epoch"); pop_range()
mark("end")
""").only
    assert ranges(process) == [("inner", 1), ("epoch", 0)]
    inner, epoch = process.of(L.KIND_RANGE)
    times = {mark.name: mark.begin for mark in process.of(L.KIND_MARK)}
    assert inner.begin <= times["in inner"] <= inner.end <= times["after inner"]
    assert times["in epoch"] <= epoch.end <= times["end"]
    assert process.unbalanced == 0 and not process.open


def test_hidden_pushes_of_tasks_and_of_filtered_domains(program: Any) -> None:
    """A task's hidden push pairs with its pop though the range below is the thread's; what a filter hides
    takes part in nothing.
    """
    program.create(domain_exclude=("not",))
    process = program(f"""{SWITCH}
import asyncio
async def work():
    push_range("hidden"); pop_range()
    push_range("filtered", domain="not")
async def main():
    push_range("below")
    switch(OFF)
    await asyncio.gather(work(), work())
    switch(ON)
    mark("still below")
    push_range("above"); pop_range()
    pop_range()
asyncio.run(main())
""").only
    assert ranges(process) == [("above", 1), ("below", 0)]
    assert process.unbalanced == 0


def test_a_range_that_outlives_its_thread_leaves_counts_right(program: Any) -> None:
    """The end, elsewhere, of a range whose thread has ended must not upset the pairing of the ring's next
    thread.
    """
    process = program(f"""{SWITCH}
import threading
def run(function):
    thread = threading.Thread(target=function); thread.start(); thread.join()
left = topstx.annotate("left open")
def first():
    push_range("never ended"); left.__enter__()
    switch(OFF); push_range("hidden"); switch(ON)
def second():
    push_range("low"); left.__exit__(None, None, None)
    switch(OFF); push_range("hidden"); switch(ON)
    push_range("high"); pop_range(); pop_range(); pop_range()
run(first); run(second)
""").only
    assert sorted(ranges(process)) == [("high", 1), ("left open", 1), ("low", 0)]
    assert [r.name for r in process.open] == ["never ended"] and process.unbalanced == 0


CAPTURES = """
import topstx
for step in range(4):
    topstx.mark(f"before {step}")
    topstx.profiler_start(); topstx.profiler_start()
    topstx.mark(f"in {step}")
    topstx.profiler_stop(); topstx.profiler_stop()
print(topstx.is_recording())
"""


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("end", "repeats", "captured", "shutdown"),
    [
        (L.CAPTURE_END_NONE, 0, 4, 0),
        (L.CAPTURE_END_STOP, 0, 1, 0),
        (L.CAPTURE_END_STOP_SHUTDOWN, 0, 1, 1),
        (L.CAPTURE_END_REPEAT, 2, 2, 0),
        (L.CAPTURE_END_REPEAT, 0, 4, 0),
    ],
)
def test_profiler_start_and_stop(program: Any, end: int, repeats: int, captured: int, shutdown: int) -> None:
    program.create(recording=L.RECORDING_OFF, capture_end=end, capture_repeats=repeats)
    process = program(CAPTURES).only
    assert process.names(L.KIND_MARK) == [f"in {step}" for step in range(captured)]
    control = program.reader.get_control(program.folder)
    assert (control["capture_count"], control["shutdown_request"]) == (captured, shutdown)
    assert program.stdout == "False\n" and control["recording"] == L.RECORDING_OFF


@pytest.mark.parametrize(
    "control",
    [
        {"recording": L.RECORDING_OFF, "shutdown_request": 1},  # `topsprof stop`
        {"recording": L.RECORDING_OFF, "heartbeat_ns": 1},  # the collector ended long ago
        {"recording": L.RECORDING_ARMED, "capture_name": "range"},  # -c topstx
        {"recording": L.RECORDING_OFF, "capture_name": "range"},  # the same, when its range has ended
    ],
)
def test_profiler_start_where_it_has_no_say(program: Any, control: dict[str, Any]) -> None:
    program.create(**{key: value for key, value in control.items() if key != "shutdown_request"})
    program.reader.set_control(program.folder, shutdown_request=control.get("shutdown_request", 0))
    process = program(CAPTURES).only
    after = program.reader.get_control(program.folder)
    assert not process.records and after["capture_count"] == 0 and after["recording"] == control["recording"]


def test_a_range_that_began_before_the_stop_is_recorded(program: Any) -> None:
    process = program(
        """
        import topstx
        with topstx.annotate("begun"):
            topstx.push_range("pushed")
            topstx.profiler_stop()
            topstx.pop_range()
        with topstx.annotate("late"): pass
        """
    ).only
    assert process.names() == ["pushed", "begun"]


def test_all_processes_follow_the_switch(program: Any) -> None:
    program.create(recording=L.RECORDING_OFF)
    recording = program("""
        import os, topstx
        topstx.profiler_start()
        child = os.fork()
        if not child:
            topstx.mark("child")
            topstx.profiler_stop()
            os._exit(0)
        os.waitpid(child, 0)
        topstx.mark("too late")
    """)
    assert [r.name for r in recording.records if r.kind == L.KIND_MARK] == ["child"]


SOURCE = r"""
#include "topstx.h"
#include <stdio.h>
int main(void) {
    topstx_domain d = topstx_domain_create("d");
    topstx_mark("off");
    topstx_profiler_start();
    topstx_range_push("epoch");
    topstx_profiler_stop();
    topstx_domain_range_push(d, "hidden");
    TOPSTX_PUSH("hidden too");
    topstx_profiler_start();
    topstx_range_push("inner");
    topstx_range_pop();
    TOPSTX_POP();
    topstx_mark("after inner");
    topstx_domain_range_pop(d);
    topstx_mark("in epoch");
    topstx_range_pop();
    topstx_profiler_stop();
    printf("%d\n", topstx_is_recording());
    return 0;
}
"""


def test_the_switch_in_c(compile_c: Callable[..., Path], ring_reader: Any, tmp_path: Path) -> None:
    folder = ring_reader.create_session(
        tmp_path / "session", recording=L.RECORDING_OFF, capture_end=L.CAPTURE_END_REPEAT
    )
    done = subprocess.run(
        [compile_c(SOURCE, "-Wall", "-Wextra")],
        env={"TOPSTX_SESSION": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    process = ring_reader.read_recording(folder).only
    assert done.stdout == "0\n" and ranges(process) == [("inner", 1), ("epoch", 0)]
    assert [r.name for r in process.records if r.kind != L.KIND_THREAD] == [
        "inner",
        "after inner",
        "in epoch",
        "epoch",
    ]
    assert process.unbalanced == 0 and ring_reader.get_control(folder)["capture_count"] == 2
