"""`topsprof dump`: what a person and a script get."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topsprof.capture.sampling import target
from topsprof.capture.sampling.objects import Objects
from topsprof.capture.sampling.values import Limits, represent

VALUES = """
import sys
class Slotted:
    __slots__ = ("a",)
class Plain:
    pass
def inner(argument, *rest, keyword=None, **others):
    number = -(2 ** 70)
    text = "größe 名 😀"
    raw = b"bytes\\x00"
    real, nothing, yes, no = 1.5, None, True, False
    numbers = list(range(100))
    nested = {"a": [1, (2, {3: {4}})], "b": set(), "c": frozenset({1})}
    one = (1,)
    plain = Plain()
    hidden = 1
    def closure():
        return hidden
    long = "x" * 1000
    unbound = 1
    del unbound
    print("ready")
    sys.stdin.readline()
inner("given", 1, 2, keyword=3, other=4)
"""


def test_variables(start: Any, dumped: Any, until: Any) -> None:
    program = start(VALUES)
    until(lambda: dumped(program.pid)["threads"][0]["system_call"] == "read")
    frames = dumped(program.pid, "--locals")["threads"][0]["frames"]
    variables = next(frame["variables"] for frame in frames if frame["name"] == "inner")
    plain, closure = variables.pop("plain"), variables.pop("closure")
    assert plain.startswith("<Plain at 0x") and closure.startswith("<function at 0x")
    assert variables == {
        "argument": "'given'",
        "rest": "(1, 2)",
        "keyword": "3",
        "others": "{'other': 4}",
        "number": str(-(2**70)),
        "text": "'größe 名 😀'",
        "raw": "b'bytes\\x00'",
        "real": "1.5",
        "nothing": "None",
        "yes": "True",
        "no": "False",
        "numbers": "[0, 1, 2, 3, 4, ... 95 more]",
        "nested": "{'a': [1, (... 2)], 'b': set(), 'c': frozenset({1})}",
        "one": "(1,)",
        "hidden": "1",
        "long": f"{'x' * 80!r}... 920 more",
    }


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@pytest.fixture
def echo(start: Any, until: Any) -> Any:
    """Puts a value into a variable of a program, and reads it from outside."""
    program = start(
        """
        import ast, sys
        def hold(line):
            value = [ast.literal_eval(line)]
            print("held")
            return sys.stdin.readline()
        print("ready")
        line = sys.stdin.readline()
        while True:
            line = hold(line)
        """
    )
    found = target.find(program.pid)
    process = found.open(100, False)
    objects = Objects(process, found.layout, found.version)

    def read(value: Any, limits: Limits) -> str:
        program.tell(repr(value))
        assert program.read() == "held"
        frames = until(
            lambda: [
                frame
                for thread in process.look()
                if thread
                for frame in thread["frames"]
                if process.code(frame[2])[0] == "hold"
            ]
        )
        holder = objects.word(frames[0][0] + objects.at["frame_locals"] + 8)
        assert objects.type_name(holder) == "list"
        return represent(objects, objects.sequence(holder)[0][0], limits)

    return read


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values)
def test_values_are_shown_as_repr_does(value: Any, echo: Any) -> None:
    shown = echo(value, Limits(characters=100_000, items=100_000, depth=100))
    again = ast.literal_eval(shown)
    assert again == value and repr(again) == repr(value)


def test_text_for_people(start: Any, topsprof: Any) -> None:
    program = start(
        """
        import sys, threading
        lock = threading.Lock()
        lock.acquire()
        begun = threading.Event()
        def locked():
            begun.set()
            lock.acquire()  # waits
        threading.Thread(target=locked, name="a \\x1b[31m name", daemon=True).start()
        begun.wait()
        print("ready")
        sys.stdin.readline()
        """
    )
    text = ""
    while "blocked (lock)" not in text or "blocked (pipe)" not in text:
        done = topsprof("dump", program.pid)
        assert done.returncode == 0, done.stderr
        text = done.stdout
    assert text.startswith(f"Process {program.pid}: ")
    assert f'Thread {program.pid} "MainThread": blocked (pipe) in read' in text
    assert f"    locked ({program.process.args[3]}:{program.line_of('# waits')})\n" in text  # type: ignore[index]
    assert "\x1b" not in text


def test_deep_stacks_are_shortened_for_people(start: Any, topsprof: Any) -> None:
    program = start(
        "import sys\nsys.setrecursionlimit(9999)\ndef down(n):\n"
        "    if n:\n        down(n - 1)\n    else:\n        print('ready')\n        sys.stdin.readline()\n"
        "down(3000)\n"
    )
    text = topsprof("dump", program.pid).stdout
    assert "frames ('--json' has all)" in text and text.count("down (") == 199
    assert text.rstrip().endswith(")") and "<module>" in text


def test_a_program_without_threads_of_python_yet(topsprof: Any) -> None:
    done = topsprof("dump", 2**22 + 1)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"topsprof: there is no process {2**22 + 1}\n"


def test_pids_are_numbers(topsprof: Any) -> None:
    done = topsprof("dump", "x")
    assert done.returncode == 2 and "invalid int value" in done.stderr


def test_other_systems_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from topsprof import cli

    monkeypatch.setattr(sys, "platform", "darwin")
    assert cli.main(["dump", "1"]) == 2
    assert "needs Linux" in capsys.readouterr().err


def test_our_own_process_can_be_dumped() -> None:
    code = (
        "import os\nfrom topsprof.capture.sampling import dumping\n"
        "print([frame.name for frame in dumping.take(os.getpid()).threads[0].frames][-1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "<module>\n"
