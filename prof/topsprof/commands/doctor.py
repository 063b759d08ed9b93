"""`topsprof doctor`: what recording uses on this machine, and what limits it."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from topsprof.capture.platform import require_linux
from topsprof.terminal import columns, hanging, styled

if TYPE_CHECKING:
    from topsprof.capture.checkup import Check

_EXIT_BROKEN = 1
_TEXT_BEGINS = 7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `doctor`."""
    parser.epilog = "exit code: 0, also with notes; 1 when recording does not work here."
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-trial", action="store_true", help="don't record a tiny program as a test")


def run(args: argparse.Namespace) -> int:
    """Print the checks; 1 when one is broken."""
    require_linux("doctor")
    from topsprof.capture import checkup

    found: list[Check] = []
    section = ""
    for check in checkup.checks(self_test=not args.no_trial):
        found.append(check)
        if args.json:
            continue
        if check.section != section:
            section = check.section
            print(styled(section, "bold", stream=sys.stdout))
        print(_line(check), flush=True)
    if args.json:
        print(checkup.as_json(found))
    else:
        print("\n" + _verdict(found))
    return _EXIT_BROKEN if any(check.state == checkup.BROKEN for check in found) else 0


def _verdict(found: Sequence[Check]) -> str:
    """The whole in a line."""
    states = Counter(check.state for check in found)
    notes = f"{states['note']} note{'' if states['note'] == 1 else 's'}"
    if states["broken"]:
        return styled(f"Recording does not work here: see BAD above; {notes}", "red", stream=sys.stdout)
    return f"Nothing is broken; {notes}"


def _line(check: Check) -> str:
    colour = {"ok": "green", "note": "magenta"}.get(check.state, "red")
    mark = {"ok": "ok  ", "note": "note"}.get(check.state, "BAD ")
    text = f"{check.name}: {check.value}"
    width = columns(sys.stdout)
    if width is not None:
        text = hanging(text, width, _TEXT_BEGINS)
    return f"  {styled(mark, colour, stream=sys.stdout)} {text}"
