"""The settings that efsmi changes, each told in a line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tops_kit.efsmi.machine import Machine
from tops_kit.errors import UserError

_NAMES = (
    "drs",
    "create_instance",
    "destroy_instance",
    "power_mode",
    "ecc",
    "reset_ecc",
    "inject_ecc",
    "reset",
)


def wanted(args: argparse.Namespace) -> bool:
    """Whether a command line changes anything."""
    return any(getattr(args, name) for name in _NAMES)


def apply(machine: Machine, args: argparse.Namespace) -> Iterator[str]:
    """Make the changes in the order in which they make sense. Raises UserError."""
    card = machine.one("set")
    name = f"{card.name}, simulated"
    if args.destroy_instance:
        card.destroy_slices()
        yield f"{name}: one piece again"
    if args.reset:
        lost = card.reset(force=args.force)
        yield f"{name}: reset" + (f"; {lost} users lost it" if lost else "")
    if args.power_mode:
        card.set_power_mode(args.power_mode)
        yield f"{name}: power mode {args.power_mode}, for programs that start from now on"
    if args.ecc:
        card.set_ecc(args.ecc == "on")
        yield f"{name}: ECC {args.ecc}"
    if args.reset_ecc:
        card.clear_ecc()
        yield f"{name}: ECC counts are 0"
    if args.inject_ecc:
        kind, count = _errors(args.inject_ecc)
        card.note_ecc(**{kind: count})
        yield f"{name}: {count} {kind} ECC errors counted"
    if args.drs:
        card.set_drs(args.drs == "on")
        yield f"{name}: slices (DRS) {args.drs}"
    if args.create_instance:
        count = _slices(args.create_instance)
        card.create_slices(count)
        seen = ", ".join(f"{card.index}:{number}" for number in range(count))
        yield f"{name}: {count} slices; programs see them as TOPS_VISIBLE_DEVICES={seen.replace(' ', '')}"


def _slices(given: str) -> int:
    """ "2" or "1/2"."""
    text = given.removeprefix("1/")
    if not text.isascii() or not text.isdigit():
        raise UserError(f"--create-instance {given}: a number of slices (efsmi --list-profile)")
    return int(text)


def _errors(given: str) -> tuple[str, int]:
    kind, _, count = given.partition(":")
    if kind not in ("corrected", "uncorrected") or not (count or "1").isdecimal() or len(count) > 9:
        raise UserError(f"--inject-ecc {given}: corrected or uncorrected, and how many: corrected:3")
    return kind, int(count or 1)
