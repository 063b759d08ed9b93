"""Several processes on one device: what they have of it, and what happens when one is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from tops_kit.gcu.memory import OutOfDeviceMemory, UnknownAddress
from tops_kit.gcu.state import DeviceLostError, Devices, SettingError, SipsReservedError, devices
from tops_kit.gcu.state import layout as at

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

Start = Callable[[str], "subprocess.Popen[str]"]

_BEGIN = """\
import os, signal, sys
from tops_kit.gcu.state import devices
machine = devices()
device = machine[0]
def tell(*what):
    print(*what, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def start(environ: dict[str, str]) -> Iterator[Start]:
    """Start a process that uses the device; it goes on at each line that it is sent."""
    running: list[subprocess.Popen[str]] = []

    def begin(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN + program],
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def _heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _go_on(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return _heard(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill it and wait until it is dead, but leave its entry: a zombie has nothing either."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.smoke
def test_processes_share_the_memory(machine: Devices, start: Start) -> None:
    other = start("block = device.memory.allocate(30 << 30)\ntell('has')\nmachine.close()\ntell('gave')")
    assert _heard(other) == "has"
    memory = machine[0].memory
    assert memory.info()[0] == 18 << 30
    assert [(holder.pid, holder.size_bytes) for holder in memory.holders()] == [(other.pid, 30 << 30)]
    with pytest.raises(
        OutOfDeviceMemory, match=rf"18.00 GiB of 48.00 GiB free; process {other.pid} \(python"
    ) as caught:
        memory.allocate(20 << 30)
    assert caught.value.holders[0].pid == other.pid
    assert memory.allocate(18 << 30)
    assert _go_on(other) == "gave"
    assert memory.info()[0] == 30 << 30


@pytest.mark.smoke
def test_what_a_killed_process_had_is_free(machine: Devices, start: Start) -> None:
    other = start("device.memory.allocate(48 << 30)\ndevice.sips.reserve(2, 12)\ntell('has all')")
    assert _heard(other) == "has all"
    memory, sips = machine[0].memory, machine[0].sips
    assert memory.info()[0] == 0
    assert sips.available() == (0, 0)
    with pytest.raises(SipsReservedError, match=rf"process {other.pid} .* has 24"):
        sips.reserve(1, 1)
    _kill(other)
    assert memory.info()[0] == 48 << 30
    assert memory.allocate(48 << 30)
    assert sips.reserve(2, 12).sips == 24
    now = machine[0].card.snapshot()
    assert now.reclaimed == 1
    assert [process.pid for process in now.processes] == [os.getpid()]


def test_a_process_that_ends_gives_back(machine: Devices, start: Start) -> None:
    other = start("device.memory.allocate(1 << 30)\ntell('has')")
    assert _heard(other) == "has"
    assert _go_on(other) == ""
    assert other.wait() == 0
    now = machine[0].card.snapshot()
    assert (now.used_bytes, now.reclaimed, now.processes) == (0, 0, ())


def test_killed_while_it_changes_the_totals(machine: Devices, start: Start) -> None:
    other = start(
        "from tops_kit.gcu.state import layout as at\n"
        "device.memory.allocate(1000)\n"
        "state = device.card.state\n"
        "def change():\n"
        "    state.words[at.H_USED] = 77_777\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "tell('ready')\n"
        "state.locked(change)\n"
    )
    memory = machine[0].memory
    memory.allocate(5)
    assert _heard(other) == "ready"
    assert _go_on(other) == ""
    assert other.wait() == -signal.SIGKILL
    assert memory.info()[0] == (48 << 30) - 5
    memory.allocate((48 << 30) - 5)  # the lock is free, and the totals are right again
    assert memory.info()[0] == 0


def test_a_pid_that_is_used_again_is_another_process(machine: Devices, start: Start) -> None:
    other = start("device.memory.allocate(1000)\ntell('has')")
    assert _heard(other) == "has"
    memory = machine[0].memory
    memory.allocate(1)
    state = machine[0].card.state
    slot = next(slot for slot in state.used_slots() if state.words[slot + at.S_PID] == other.pid)
    state.words[slot + at.S_START] -= 1  # as if it had begun at another time
    assert memory.info()[0] == (48 << 30) - 1


def test_many_processes_at_once_and_some_killed(machine: Devices, start: Start) -> None:
    loop = (
        "import random\n"
        "tell('ready')\n"
        "have = []\n"
        "for n in range(int(sys.argv[1]) if len(sys.argv) > 1 else 400):\n"
        "    have.append(device.memory.allocate(random.randrange(1, 1 << 20)).address)\n"
        "    if len(have) > 20: device.memory.free(have.pop(random.randrange(20)))\n"
        "tell(device.memory.used_bytes, sum(block.size_bytes for block in device.memory.blocks()))\n"
    )
    processes = [start(loop) for _ in range(4)]
    for process in processes:
        assert _heard(process) == "ready"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    processes[0].kill()
    total = 0
    for process in processes[1:]:
        counted, had = map(int, _heard(process).split())
        assert counted == had
        total += had
    processes[0].wait()
    memory = machine[0].memory
    assert memory.info()[0] == (48 << 30) - total
    for process in processes[1:]:
        _kill(process)
    memory.allocate(48 << 30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_nothing_of_its_parent(machine: Devices, start: Start) -> None:
    parent = start(
        "block = device.memory.allocate(1000)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        device.memory.free(block.address)\n"
        "    except Exception as error:\n"
        "        print(error, flush=True)\n"
        "    mine = device.memory.allocate(10)\n"
        "    print(device.memory.used_bytes, device.memory.find(block.address), flush=True)\n"
        "    sys.exit()\n"
        "os.waitpid(pid, 0)\n"
        "tell(device.memory.used_bytes, device.memory.find(block.address) is block)\n"
    )
    wrong = r"can't free 0x\w+: it belongs to the process that this one was forked from"
    assert re.fullmatch(wrong, _heard(parent))
    assert _heard(parent) == "10 None"
    assert _heard(parent) == "1000 True"


def test_threads(machine: Devices) -> None:
    memory = machine[0].memory
    wrong: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(300):
                memory.free(memory.allocate(3000).address)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert memory.used_bytes == 0


def test_reset(machine: Devices, start: Start) -> None:
    other = start(
        "block = device.memory.allocate(1000)\n"
        "tell('has')\n"
        "device.usage.note(0, 1, 1)\n"
        "print(device.lost)\n"
        "for use in (lambda: device.memory.allocate(1), lambda: device.sips.reserve(1, 1)):\n"
        "    try:\n"
        "        use()\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)\n"
        "device.memory.free(block.address)\n"
        "device.reset()\n"
        "tell(device.memory.allocate(7).size_bytes, device.memory.used_bytes)\n"
    )
    assert _heard(other) == "has"
    card = machine[0].card
    with pytest.raises(SettingError, match=rf"is in use and can't be reset: by process {other.pid} \(python"):
        card.reset()
    assert card.reset(force=True) == 1
    assert machine[0].memory.info()[0] == 48 << 30
    lost = "DeviceLostError device 0 (S60) was reset while this process used it: what it had there is gone"
    assert _go_on(other) == "True"
    assert _heard(other) == lost
    assert _heard(other) == lost
    assert _heard(other) == "7 7"
    assert card.snapshot().resets == 1


def test_own_reset(machine: Devices) -> None:
    device = machine[0]
    block = device.memory.allocate(100)
    device.card.reset(force=True)
    with pytest.raises(DeviceLostError):
        device.sips.reserve(1, 1)
    device.reset()
    assert device.memory.blocks() == []
    with pytest.raises(UnknownAddress, match="was freed already at the device's reset"):
        device.memory.free(block.address)
    assert device.memory.allocate(3).size_bytes == device.memory.used_bytes == 3


def test_a_process_goes_on_when_the_state_was_rebuilt(machine: Devices) -> None:
    memory = machine[0].memory
    memory.allocate(1000)
    state = machine[0].card.state
    first, end = state.layout.slots, state.layout.words
    state.words[first:end] = memoryview(bytes((end - first) * 8)).cast("q")
    state.words[at.H_USED] = state.words[at.H_HIGH] = 0
    memory.allocate(1)
    assert memory.used_bytes == 1001
    assert memory.info()[0] == (48 << 30) - 1001


def test_too_many_users(machine: Devices, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at, "SLOTS", 3)
    others = [devices(environ) for _ in range(4)]
    for other in others[:3]:
        other[0].memory.allocate(1)
    with pytest.raises(Exception, match=r"device 0 \(S60\) has 3 users already: end some"):
        others[3][0].memory.allocate(1)
    for other in others:
        other.close()
