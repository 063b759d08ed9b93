"""The table of `efsmi`, its list of devices, its topology."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from topstx._version import VERSION

from tops_kit.efsmi import text
from tops_kit.efsmi.machine import Look
from tops_kit.gcu.state.card import Card
from tops_kit.gcu.state.device import connection
from tops_kit.gcu.state.slices import profiles

_LEGEND = (
    ("X", "the device itself"),
    ("LARE", "the parts' own link"),
    ("PCIE", "the PCIe bus, through the host"),
)


def overview(look: Look, width: int) -> str:
    """All devices and the processes on them."""
    title = f"efsmi {VERSION}: simulated devices, no hardware"
    lines = [f"{text.bold(title)}   {datetime.fromtimestamp(look.time_ns / 1e9):%Y-%m-%d %H:%M:%S}", ""]
    if look.devices:
        lines += text.columns(_device_rows(look), right=(0, 4, 5, 6, 7, 8, 9), most=width)
    else:
        lines.append("no devices (TOPS_DEVICES=none)")
    slices = _slice_rows(look)
    if slices:
        lines += ["", *text.columns(slices, right=(0, 2, 3), most=width)]
    lines += ["", *_process_lines(look, width), ""]
    lines.append("SIPs, Use: of the last second. Power and temperature are models.")
    for remark in look.remarks():
        lines += textwrap.wrap(f"note: {remark}", width, subsequent_indent="  ", break_long_words=False)
    return "\n".join(lines) + "\n"


def listing(look: Look) -> str:
    """One line for each device (and slice), with the uuid."""
    lines = []
    for card, now in look.devices:
        lines.append(f"GCU {card.index}: {card.spec.title} (simulated) (UUID: {card.uuid})")
        lines += [
            f"  slice {card.index}:{part.number}: {part.sips} SIPs, {text.size(part.total_bytes)} "
            f"(UUID: {card.uuid}/{part.number})"
            for part in now.slices
        ]
    return "\n".join(lines or ["no devices (TOPS_DEVICES=none)"]) + "\n"


def profile_list(card: Card) -> str:
    """The ways in which a device can be divided."""
    rows = [["Profile", "Slices", "SIPs each", "Clusters each", "Memory each", "Bandwidth each"]]
    for profile in profiles(card.spec):
        rows.append(
            [
                f"1/{profile.slices}",
                str(profile.slices),
                str(profile.sips),
                str(profile.clusters),
                text.size(profile.memory_bytes),
                text.per_second(profile.bandwidth_bytes_per_s),
            ]
        )
    return "\n".join([f"{card.name}, simulated", *text.columns(rows, right=(1, 2, 3, 4, 5))]) + "\n"


def topology_document(cards: Sequence[Card]) -> dict[str, Any]:
    """How devices reach each other, as JSON: connection[i][j] is "self", "link" or "pcie"."""
    return {
        "simulated": True,
        "devices": [{"index": card.index, "name": card.spec.name, "bus_id": card.bus} for card in cards],
        "connection": [[connection(one, other) for other in cards] for one in cards],
    }


def topology(cards: Sequence[Card]) -> str:
    """The matrix of how devices reach each other."""
    words = {"self": "X", "link": "LARE", "pcie": "PCIE"}
    rows = [["", *(f"GCU{card.index}" for card in cards), "Bus", "Part"]]
    for one in cards:
        between = [words[connection(one, other)] for other in cards]
        rows.append([f"GCU{one.index}", *between, one.bus, one.spec.title])
    lines = ["simulated topology", "", *text.columns(rows), "", "legend:"]
    lines += [f"  {name.ljust(4)}  {what}" for name, what in _LEGEND]
    speeds = {card.spec.name: card.spec for card in cards}.values()
    lines += [
        f"  {spec.title}: "
        + (f"link {text.per_second(spec.link_bytes_per_s)}, " if spec.link_bytes_per_s else "no link, ")
        + f"PCIe {text.per_second(spec.pcie_bytes_per_s)}"
        for spec in speeds
    ]
    return "\n".join(lines) + "\n"


def _device_rows(look: Look) -> list[list[str]]:
    rows = [["Dev", "Name", "Bus", "Mode", "Temp", "Power W", "SIPs", "Use", "Memory MiB", "ECC"]]
    for card, now in look.devices:
        ecc = str(now.ecc.uncorrected + now.ecc.corrected) if now.ecc.enabled else "off"
        rows.append(
            [
                str(card.index),
                text.cut(card.spec.title, 12),
                card.bus,
                now.mode.name,
                f"{now.temperature_c:.0f}C",
                f"{now.power_w:.0f}/{card.spec.power_w * now.mode.power:.0f}",
                f"{now.sip_use * card.spec.sips:.1f}/{card.spec.sips}",
                text.share(now.active),
                _used(now.used_bytes, card.spec.l3_bytes),
                ecc,
            ]
        )
    return rows


def _slice_rows(look: Look) -> list[list[str]]:
    """A heading and the slices; nothing where there are none."""
    rows = [
        [
            str(card.index),
            f"{card.index}:{part.number}",
            str(part.sips),
            _used(part.used_bytes, part.total_bytes),
        ]
        for card, now in look.devices
        for part in now.slices
    ]
    return [["Dev", "Slice", "SIPs", "Memory MiB"], *rows] if rows else []


def _process_lines(look: Look, width: int) -> list[str]:
    rows = [["Dev", "PID", "SIP", "Reserved", "Memory MiB", "Command"]]
    for card, now in look.devices:
        for process in sorted(now.processes, key=lambda p: (p.part or 0, p.pid)):
            place = str(card.index) if process.part is None else f"{card.index}:{process.part}"
            rows.append(
                [
                    place,
                    str(process.pid),
                    text.share(process.sip_use),
                    str(process.sips_reserved) if process.sips_reserved else "-",
                    text.mib(process.used_bytes),
                    process.command,
                ]
            )
    if len(rows) == 1:
        return ["no process uses a device"] if look.devices else []
    return text.columns(rows, right=(0, 1, 2, 3, 4), most=width)


def _used(used_bytes: int, total_bytes: int) -> str:
    return f"{text.mib(used_bytes)}/{text.mib(total_bytes)}"
