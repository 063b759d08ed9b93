"""Running a program under a tool, in the tool's own process."""

from __future__ import annotations

import gc
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


def run_program(argv: Sequence[str]) -> int:
    """Run `PROGRAM ARGS` (or `-m MODULE ARGS`) as python would, and give its exit code.

    When it is back, what the program's globals held is gone, so what is left of its device memory is leaked.
    Work of devices may still be under way: it is done, and told, at the process's end. 2, and a line on
    stderr: there is no such program.
    """
    argv = list(argv)
    module = argv[:1] == ["-m"]
    if module:
        del argv[0]
    if not argv:
        return _refuse(f"no program given: python {Path(sys.argv[0]).name} PROGRAM ARGS")
    if not module and not Path(argv[0]).exists():
        return _refuse(f"no program {argv[0]}")
    kept = sys.argv, list(sys.path)
    sys.argv = argv
    sys.path[0:1] = [str(Path.cwd()) if module else str(Path(argv[0]).resolve().parent)]
    try:
        if module:
            runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        return _code(end)
    except BaseException as error:
        traceback.print_exception(error.with_traceback(_of_program(error.__traceback__)))
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.stdout.flush()
        sys.argv = kept[0]
        sys.path[:] = kept[1]
        gc.collect()
    return 0


def _code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _of_program(frames: TracebackType | None) -> TracebackType | None:
    """A traceback without our frames and runpy's."""
    at = frames
    while at is not None and at.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        at = at.tb_next
    return at or frames


def _refuse(text: str) -> int:
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    return 2
