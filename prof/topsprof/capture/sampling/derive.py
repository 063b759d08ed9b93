"""Derives where a Python keeps its threads, frames and objects, and writes it as `layout-X.Y.toml`.

    python -m topsprof.capture.sampling.derive [-o FOLDER] PYTHON...

Sizes and offsets come from the headers that PYTHON is installed with: `offsets.c` is compiled with them. What
no header tells (asyncio's tasks are private to their C module) PYTHON itself is asked for: it looks at the
memory of a task that it knows.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError

FOLDER: Final = Path(__file__).parent
_ANSWER_TIMEOUT_S: Final = 60

_QUESTION: Final = (
    "import json, sys, sysconfig; "
    "print(json.dumps([list(sys.version_info[:2]), sysconfig.get_path('include'), "
    "sysconfig.get_config_var('CC') or 'cc', bool(sysconfig.get_config_var('Py_GIL_DISABLED'))]))"
)

_PROBE: Final = """
import asyncio, ctypes, dis, opcode

found = {}
loop = asyncio.new_event_loop()
future = loop.create_future()


async def waits():
    await future


async def main():
    task = loop.create_task(waits(), name="the name of a task")
    await asyncio.sleep(0)
    places = {"task_loop": loop, "task_name": task.get_name(), "task_coro": task.get_coro()}
    places["task_waiter"] = future
    words = (ctypes.c_uint64 * 32).from_address(id(task))
    for name, value in places.items():
        found[name] = 8 * list(words).index(id(value))
    future.set_result(None)
    await task


loop.run_until_complete(main())
loop.close()
names = dict(opcode.opmap)
for attribute in ("_specialized_opmap", "_specialized_instructions"):
    known = getattr(opcode, attribute, None)
    if isinstance(known, dict):
        names.update(known)
try:
    import _opcode_metadata
    names.update(_opcode_metadata._specialized_opmap)
    names.update(_opcode_metadata.opmap)
except ImportError:
    names.update({name: code for code, name in enumerate(getattr(dis, "_all_opname", ())) if name[0] != "<"})
calls = [0, 0, 0, 0]
for name, code in names.items():
    if name.startswith(("CALL", "PRECALL", "INSTRUMENTED_CALL")) and "INTRINSIC" not in name and code < 256:
        calls[code // 64] |= 1 << code % 64
for index, word in enumerate(calls):
    found[f"calls_{index}"] = word - (1 << 64) if word >> 63 else word
for name, value in found.items():
    print(name, "=", value)
"""


def derive(python: str) -> tuple[str, dict[str, int]]:
    """The version ("3.11") and the layout of `python`. UserError: it, or its headers, are of no use."""
    try:
        answer = subprocess.run(
            [python, "-I", "-S", "-c", _QUESTION],
            capture_output=True,
            check=True,
            timeout=_ANSWER_TIMEOUT_S,
        ).stdout
        version, include, compiler, free_threaded = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UserError(f"'{python}' does not answer: {error}") from None
    if free_threaded:
        raise UserError(f"'{python}' is free-threaded: give an ordinary Python")
    if not (Path(include) / "internal" / "pycore_frame.h").is_file():
        raise UserError(f"'{python}' has no internal headers in {include}: install its development files")
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / "offsets"
        command = [*shlex.split(compiler), f"-I{include}", str(FOLDER / "offsets.c"), "-o", str(program)]
        try:
            subprocess.run(command, capture_output=True, check=True, text=True)
            offsets = subprocess.run([str(program)], capture_output=True, check=True, text=True).stdout
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no message"])[0]
            raise UserError(f"offsets.c can't be compiled for '{python}': {reason}") from None
        except OSError as error:
            raise UserError(f"the compiler of '{python}' can't be started: {error}") from None
    probe = subprocess.run([python, "-I", "-c", _PROBE], capture_output=True, check=False, text=True)
    if probe.returncode != 0:
        raise UserError(f"'{python}' can't look at its tasks: {probe.stderr.strip().splitlines()[-1:]}")
    layout = {}
    for line in (offsets + probe.stdout).splitlines():
        name, _, value = line.partition(" = ")
        layout[name.strip()] = int(value)
    del layout["version"]
    return ".".join(map(str, version)), layout


def text(version: str, layout: dict[str, int]) -> str:
    """The contents of the file of a layout."""
    head = (
        f"# Where Python {version} keeps things, in bytes. Made by derive.py from its headers: do not edit.\n"
    )
    return head + "".join(f"{name} = {value}\n" for name, value in layout.items())


def main(words: Sequence[str] | None = None) -> int:
    """Derive the layouts of the Pythons named on the command line."""
    parser = argparse.ArgumentParser(prog="derive", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", metavar="FOLDER", type=Path, default=FOLDER, help="where to write")
    parser.add_argument("python", nargs="+")
    args = parser.parse_args(words)
    try:
        for python in args.python:
            version, layout = derive(python)
            file = args.o / f"layout-{version}.toml"
            file.write_text(text(version, layout), encoding="utf-8")
            print(f"{file}: {len(layout)} numbers")
    except UserError as error:
        print(f"derive: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
