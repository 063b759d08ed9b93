"""`topsprof dump`: what the threads and tasks of a running Python program do at this moment."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import TYPE_CHECKING, Final

from topsprof.capture.platform import require_linux
from topsprof.terminal import styled
from topsprof.textwidth import printable

if TYPE_CHECKING:
    from topsprof.capture.sampling.dumping import Dump, DumpedFrame, DumpedTask, DumpedThread

_EPILOG: Final = (
    "The program is neither stopped nor changed: its memory is read from outside, so it may move on while we "
    "look. That needs the right to trace it: be its user (kernel.yama.ptrace_scope=0) or root."
)
_FRAMES_SHOWN: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `dump`."""
    parser.epilog = _EPILOG
    parser.add_argument("pid", metavar="PID", type=int, help="the process")
    parser.add_argument("--locals", action="store_true", help="show local variables")
    parser.add_argument("--tasks", action="store_true", help="show all asyncio tasks, and who awaits whom")
    parser.add_argument("--json", action="store_true", help="print JSON, with all frames")


def run(args: argparse.Namespace) -> int:
    """Print the stacks of a process once."""
    require_linux("dump")
    from topsprof.capture.sampling import dumping

    dump = dumping.take(args.pid, variables=args.locals, tasks=args.tasks)
    if args.json:
        print(json.dumps(dump.as_json(), indent=1, ensure_ascii=False))
    else:
        _print(dump)
    return 0


def _print(dump: Dump) -> None:
    command = shlex.join(dump.command) or "unknown command"
    print(f"Process {dump.pid}: {printable(command)}")
    print(f"Python {dump.python} ({printable(dump.program)})")
    if not dump.threads:
        print("\nno thread of it runs Python (yet)")
    several = any(thread.interpreter for thread in dump.threads)
    names = {thread.tid: thread.name for thread in dump.threads}
    for thread in dump.threads:
        print(f"\n{_bold(_head(thread, several))}: {_doing(thread, names)}")
        if not thread.resolved:
            print("    (its frames changed too fast to be read: try again)")
        _print_frames(thread.frames, cut=thread.cut)
    if dump.tasks is None:
        return
    print(f"\n{len(dump.tasks)} asyncio {'task' if len(dump.tasks) == 1 else 'tasks'}")
    for task in dump.tasks:
        print(f"\n{_bold(f'Task {printable(task.name)!r}')}: {_task_doing(task)}")
        _print_frames(task.frames, cut=False)


def _head(thread: DumpedThread, several: bool) -> str:
    name = f' "{printable(thread.name)}"' if thread.name else ""
    return f"Thread {thread.tid}{name}" + (f", interpreter {thread.interpreter}" if several else "")


def _doing(thread: DumpedThread, names: dict[int, str]) -> str:
    if thread.state == "gil":
        holder = names.get(thread.gil_holder)
        held = f", held by thread {thread.gil_holder}" + (f' "{printable(holder)}"' if holder else "")
        text = "waits for the GIL" + (held if thread.gil_holder else "")
    elif thread.state == "blocked":
        where = ", ".join(part for part in (thread.system_call, thread.native) if part)
        text = f"blocked ({thread.wait or 'unknown'})" + (f" in {where}" if where else "")
    elif thread.state == "native":
        text = "runs native code without the GIL"
    else:
        text = {"running": "runs", "unknown": "state unknown"}.get(thread.state, thread.state)
    if thread.holds_gil:
        text += ", holds the GIL"
    if thread.collects_garbage:
        text += ", collects garbage"
    if thread.task:
        text += f", in task {printable(thread.task)!r}"
    return text


def _task_doing(task: DumpedTask) -> str:
    text = {"waiting": "waits", "running": "runs", "created": "has not begun"}.get(task.state, task.state)
    if task.waits_for:
        text += f" for {printable(task.waits_for)}"
    if task.awaited_by:
        text += ", awaited by " + ", ".join(repr(printable(name)) for name in task.awaited_by)
    return text


def _print_frames(frames: list[DumpedFrame], *, cut: bool) -> None:
    shown = frames if len(frames) <= _FRAMES_SHOWN else frames[: _FRAMES_SHOWN // 2]
    rest = frames[-(_FRAMES_SHOWN // 2) :] if len(shown) < len(frames) else []
    for frame in shown:
        _print_frame(frame)
    if rest:
        print(f"    ... {len(frames) - len(shown) - len(rest)} frames ('--json' has all)")
    for frame in rest:
        _print_frame(frame)
    if cut:
        print(f"    ... more than {len(frames)} frames: those further out are not shown")


def _print_frame(frame: DumpedFrame) -> None:
    place = f"{frame.file}:{frame.line}" if frame.line else frame.file
    print(f"    {printable(frame.name)} ({printable(place)})")
    for name, value in (frame.variables or {}).items():
        print(f"        {printable(name)} = {printable(value)}")


def _bold(text: str) -> str:
    return styled(text, "bold", stream=sys.stdout)
