"""Which devices the machine has (TOPS_DEVICES), and which of them a program sees (TOPS_VISIBLE_DEVICES)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tops_kit.errors import UserError
from tops_kit.gcu.reading import load
from tops_kit.gcu.specification import Specification

DEVICES = "TOPS_DEVICES"
VISIBLE = "TOPS_VISIBLE_DEVICES"
DEFAULT = "s60"
MOST_DEVICES = 16


class DevicesError(UserError):
    """TOPS_DEVICES or TOPS_VISIBLE_DEVICES says something that can't be."""


@dataclass(frozen=True)
class Choice:
    """A device that a program sees: its number in the machine, and a slice of it or all (None)."""

    device: int
    part: int | None = None

    def __str__(self) -> str:
        return str(self.device) if self.part is None else f"{self.device}:{self.part}"


def configured(environ: Mapping[str, str]) -> list[Specification]:
    """The machine's: TOPS_DEVICES="s60", "2xs60", "s60,t20", "mine.toml", "none"; default: one s60."""
    text = environ.get(DEVICES, "").strip() or DEFAULT
    if text == "none":
        return []
    out: list[Specification] = []
    for entry in text.split(","):
        times, part = 1, entry.strip()
        found = re.fullmatch(r"(\d+)\s*[xX*]\s*(.+)", part)
        if found:
            times, part = int(found[1]), found[2]
        if not part or times < 1:
            raise DevicesError(f'{DEVICES}={text}: {entry!r} is no device: write "s60", "2xs60" or "s60,t20"')
        if len(out) + times > MOST_DEVICES:
            raise DevicesError(f"{DEVICES}={text}: more than {MOST_DEVICES} devices")
        try:
            out += [load(part)] * times
        except UserError as error:
            raise DevicesError(f"{DEVICES}={text}: {error}") from None
    return out


def visible(environ: Mapping[str, str], slices: Sequence[int], uuids: Sequence[str]) -> list[Choice]:
    """What a program sees of devices that are divided into so many slices (0: one piece).

    "0,2" in the order given; "1:0" is slice 0 of device 1; a divided device stands for all its slices; "" or
    "-1" for none. Raises DevicesError.
    """
    text = environ.get(VISIBLE)
    if text is None:
        return [choice for index in range(len(slices)) for choice in _whole(index, slices)]
    if text.strip() in ("", "-1", "none"):
        return []
    out: list[Choice] = []
    for entry in text.split(","):
        for choice in _choices(entry.strip(), text, slices, uuids):
            if choice in out:
                raise DevicesError(f"{VISIBLE}={text}: {choice} stands there twice")
            out.append(choice)
    return out


def _choices(entry: str, text: str, slices: Sequence[int], uuids: Sequence[str]) -> list[Choice]:
    if entry in uuids:
        return _whole(uuids.index(entry), slices)
    found = re.fullmatch(r"(\d+)(?::(\d+))?", entry)
    if not found:
        raise DevicesError(
            f'{VISIBLE}={text}: {entry!r} is no device: write "0,2", or "1:0" for slice 0 of device 1'
        )
    index = int(found[1])
    if index >= len(slices):
        have = f"0 to {len(slices) - 1}" if slices else "none"
        raise DevicesError(
            f"{VISIBLE}={text}: there is no device {index} ({have}; {DEVICES} says which there are)"
        )
    if found[2] is None:
        return _whole(index, slices)
    part = int(found[2])
    if part >= slices[index]:
        how = f"slices 0 to {slices[index] - 1}" if slices[index] else "no slices"
        raise DevicesError(
            f"{VISIBLE}={text}: device {index} has {how} (efsmi -i {index} --create-instance makes some)"
        )
    return [Choice(index, part)]


def _whole(index: int, slices: Sequence[int]) -> list[Choice]:
    return [Choice(index, part) for part in range(slices[index])] if slices[index] else [Choice(index)]
