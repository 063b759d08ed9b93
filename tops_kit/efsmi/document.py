"""The JSON of efsmi: the one definition of its keys. Keys are added; none goes or changes its meaning."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from topstx._version import VERSION

from tops_kit.efsmi.machine import Look
from tops_kit.gcu.state.card import Card
from tops_kit.gcu.state.models import POWER_MODES
from tops_kit.gcu.state.snapshot import ProcessUse, Snapshot

SCHEMA = 1
SECTIONS = ("DEVICE", "POWER", "TEMP", "MEMORY", "USAGE", "PCIE", "DRIVER", "ECC", "SLICES", "PROCESSES")

Json = dict[str, Any]


def document(look: Look, sections: Collection[str] = SECTIONS) -> Json:
    """Everything about the devices, or some SECTIONS of it."""
    return {
        "schema": SCHEMA,
        "simulated": True,
        "tops_kit": VERSION,
        "timestamp": datetime.fromtimestamp(look.time_ns / 1e9, UTC).isoformat(timespec="milliseconds"),
        "configuration": look.configuration,
        "state_dir": look.place,
        "devices": [device_document(card, now, sections) for card, now in look.devices],
        "other_devices": [
            {"index": other.device, "part": other.part, "pids": list(other.pids)} for other in look.others
        ],
        "notes": list(look.notes),
    }


def device_document(card: Card, now: Snapshot, sections: Collection[str] = SECTIONS) -> Json:
    """One device."""
    out: Json = {"index": card.index, "uuid": card.uuid, "name": card.spec.name, "simulated": True}
    for section in SECTIONS:
        if section in sections:
            out[_KEYS[section]] = _MAKERS[section](card, now)
    return out


def percent(share: float) -> float:
    """A share as percent with one digit."""
    return round(100 * share, 1)


def _device(card: Card, now: Snapshot) -> Json:
    spec = card.spec
    return {
        "title": spec.title,
        "architecture": spec.architecture,
        "bus_id": card.bus,
        "clusters": spec.clusters,
        "sips_per_cluster": spec.sips_per_cluster,
        "sips": spec.sips,
        "sip_clock_hz": round(spec.clock_hz * now.mode.clock),
        "resets": now.resets,
        "specification": {
            "hash": spec.hash,
            "figures": len(spec.figures()),
            "assumed": spec.assumed(),
        },
    }


def _power(card: Card, now: Snapshot) -> Json:
    return {
        "model": True,
        "draw_w": round(now.power_w, 1),
        "limit_w": round(card.spec.power_w * now.mode.power, 1),
        "mode": now.mode.name,
        "modes": [mode.name for mode in POWER_MODES],
    }


def _temperature(_card: Card, now: Snapshot) -> Json:
    return {"model": True, "device_c": round(now.temperature_c, 1)}


def _memory(card: Card, now: Snapshot) -> Json:
    return {
        "total_bytes": card.spec.l3_bytes,
        "used_bytes": now.used_bytes,
        "free_bytes": now.free_bytes,
        "used_percent": percent(now.used_bytes / card.spec.l3_bytes),
        "bandwidth_bytes_per_s": card.spec.l3_bytes_per_s,
    }


def _usage(_card: Card, now: Snapshot) -> Json:
    return {
        "window_s": 1,
        "usage_percent": percent(now.active),
        "sip_usage_percent": percent(now.sip_use),
        "sips_busy": round(now.sip_use * now.spec.sips, 2),
        "sips_reserved": now.sips_reserved,
        "kernels_total": now.kernels,
        "busy_sip_ns_total": now.busy_sip_ns,
    }


def _pcie(card: Card, now: Snapshot) -> Json:
    return {
        "bus_id": card.bus,
        "peak_bytes_per_s": card.spec.pcie_bytes_per_s,
        "tx_bytes_per_s": round(now.up_bytes_per_s),
        "rx_bytes_per_s": round(now.down_bytes_per_s),
        "tx_bytes_total": now.up_bytes,
        "rx_bytes_total": now.down_bytes,
        "link_bytes_per_s": card.spec.link_bytes_per_s,
    }


def _driver(_card: Card, now: Snapshot) -> Json:
    return {"name": "simulated", "version": VERSION, "processes_reclaimed": now.reclaimed}


def _ecc(_card: Card, now: Snapshot) -> Json:
    return {
        "enabled": now.ecc.enabled,
        "corrected": now.ecc.corrected,
        "uncorrected": now.ecc.uncorrected,
        "corrected_ever": now.ecc.corrected_ever,
        "uncorrected_ever": now.ecc.uncorrected_ever,
    }


def _slices(card: Card, now: Snapshot) -> Json:
    return {
        "drs": now.drs,
        "count": len(now.slices),
        "instances": [
            {
                "id": part.number,
                "uuid": f"{card.uuid}/{part.number}",
                "visible_as": f"{card.index}:{part.number}",
                "sips": part.sips,
                "total_bytes": part.total_bytes,
                "used_bytes": part.used_bytes,
            }
            for part in now.slices
        ],
    }


def _processes(_card: Card, now: Snapshot) -> list[Json]:
    return [_process(process) for process in sorted(now.processes, key=lambda p: (p.pid, p.part or 0))]


def _process(process: ProcessUse) -> Json:
    return {
        "pid": process.pid,
        "user_id": process.user,
        "command": process.command,
        "slice": process.part,
        "used_bytes": process.used_bytes,
        "peak_bytes": process.peak_bytes,
        "blocks": process.blocks,
        "sip_usage_percent": percent(process.sip_use),
        "usage_percent": percent(process.active),
        "sips_reserved": process.sips_reserved,
        "tx_bytes_per_s": round(process.up_bytes_per_s),
        "rx_bytes_per_s": round(process.down_bytes_per_s),
        "kernels": process.kernels,
        "since": datetime.fromtimestamp(process.since_ns / 1e9, UTC).isoformat(timespec="seconds"),
    }


_KEYS = {
    "DEVICE": "device",
    "POWER": "power",
    "TEMP": "temperature",
    "MEMORY": "memory",
    "USAGE": "usage",
    "PCIE": "pcie",
    "DRIVER": "driver",
    "ECC": "ecc",
    "SLICES": "slices",
    "PROCESSES": "processes",
}
_MAKERS = {
    "DEVICE": _device,
    "POWER": _power,
    "TEMP": _temperature,
    "MEMORY": _memory,
    "USAGE": _usage,
    "PCIE": _pcie,
    "DRIVER": _driver,
    "ECC": _ecc,
    "SLICES": _slices,
    "PROCESSES": _processes,
}
