"""The text of `efsmi -q`: the JSON's content as an indented list."""

from __future__ import annotations

from typing import Any

from tops_kit.efsmi import text
from tops_kit.efsmi.document import Json

_TITLES = {
    "device": "Device",
    "power": "Power (model)",
    "temperature": "Temperature (model)",
    "memory": "Memory",
    "usage": "Usage (last second)",
    "pcie": "PCIe",
    "driver": "Driver",
    "ecc": "ECC",
    "slices": "Slices",
}
_HEAD = ("index", "uuid", "name", "simulated")
_ACRONYMS = {"sip": "SIP", "sips": "SIPs", "uuid": "UUID", "drs": "DRS", "id": "ID", "tx": "Tx", "rx": "Rx"}
_NOT_SHOWN = ("model", "modes", "window_s", "model")
_LABEL_WIDTH = 28


def listing(document: Json) -> str:
    """A document of `document.py` for people."""
    lines = [
        "efsmi log: simulated devices",
        f"{'Timestamp'.ljust(_LABEL_WIDTH + 4)}: {document['timestamp']}",
    ]
    lines.append(f"{'Devices shown'.ljust(_LABEL_WIDTH + 4)}: {len(document['devices'])}")
    for device in document["devices"]:
        lines += ["", f"GCU {device['index']}: {device['name']}, {device['uuid']}"]
        for key, content in device.items():
            if key in _HEAD:
                continue
            if key == "processes":
                lines += ["  Processes", *_processes(content)]
            else:
                lines += [f"  {_TITLES[key]}", *_section(content, 4)]
    return "\n".join(lines) + "\n"


def _section(content: Json, indent: int) -> list[str]:
    lines = []
    for key, value in content.items():
        if key in _NOT_SHOWN:
            continue
        if isinstance(value, dict):
            lines += [f"{' ' * indent}{_label(key)}", *_section(value, indent + 2)]
        elif isinstance(value, list):
            for part in value:
                lines += [f"{' ' * indent}{_label(key)}", *_section(part, indent + 2)]
        else:
            lines.append(
                f"{' ' * indent}{_label(key).ljust(_LABEL_WIDTH + 4 - indent)}: {_value(key, value)}"
            )
    return lines


def _processes(content: list[Json]) -> list[str]:
    if not content:
        return ["    none"]
    lines = []
    for process in content:
        lines.append(f"    {process['pid']}: {process['command']}")
        rest = {key: value for key, value in process.items() if key not in ("pid", "command")}
        lines += _section(rest, 6)
    return lines


def _label(key: str) -> str:
    words = key.replace("_bytes_total", "_total").split("_")
    if words[-2:] == ["per", "s"]:
        words = words[:-3]
    elif words[-1] in ("bytes", "percent", "w", "c", "hz"):
        words = words[:-1]
    out = " ".join(_ACRONYMS.get(word, word) for word in words)
    return out[:1].upper() + out[1:]


def _value(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if key.endswith("_bytes_per_s"):
        return text.per_second(value) if value else "0"
    if key.endswith(("_bytes", "_bytes_total")):
        return f"{text.size(value)} ({value} bytes)" if value >= 1024 else f"{value} bytes"
    for suffix, unit in (("_percent", "%"), ("_w", "W"), ("_c", "C")):
        if key.endswith(suffix):
            return f"{value} {unit}"
    if key.endswith("_hz"):
        return f"{value / 1e6:.0f} MHz"
    return str(value)
