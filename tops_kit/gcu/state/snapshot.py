"""Everything about a device at one moment, for people and programs that look from outside."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tops_kit.gcu.specification import Specification
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state import models, processes, slots
from tops_kit.gcu.state.layout import Layout
from tops_kit.gcu.state.shared import Words
from tops_kit.gcu.state.slots import SECOND_NS


@dataclass(frozen=True)
class ProcessUse:
    """What a process has of a device and does with it. `part`: the slice it works on, or None."""

    pid: int
    user: int
    command: str
    part: int | None
    used_bytes: int
    peak_bytes: int
    blocks: int
    sips_reserved: int
    sip_use: float  # of all the device's SIPs over the last second of its session time, 0 to 1
    active: float  # share of that second in which any kernel of it ran
    up_bytes_per_s: float
    down_bytes_per_s: float
    kernels: int
    since_ns: int  # Unix time


@dataclass(frozen=True)
class SliceUse:
    """A slice and how much of it is in use."""

    number: int
    used_bytes: int
    total_bytes: int
    sips: int


@dataclass(frozen=True)
class Ecc:
    """Errors of the memory since the last reset, and ever."""

    enabled: bool
    corrected: int
    uncorrected: int
    corrected_ever: int
    uncorrected_ever: int


@dataclass(frozen=True)
class Snapshot:
    """A device at one moment. Power and temperature are those of models.py."""

    spec: Specification  # of the whole device
    mode: models.PowerMode
    processes: tuple[ProcessUse, ...]
    slices: tuple[SliceUse, ...]
    drs: bool
    ecc: Ecc
    resets: int
    reclaimed: int
    used_bytes: int
    sips_reserved: int
    sip_use: float
    active: float
    up_bytes_per_s: float
    down_bytes_per_s: float
    power_w: float
    temperature_c: float
    kernels: int  # ever, as the three that follow
    busy_sip_ns: int
    up_bytes: int
    down_bytes: int

    @property
    def free_bytes(self) -> int:
        """What nobody has of the device's memory."""
        return self.spec.l3_bytes - self.used_bytes


def take(spec: Specification, words: Words | None) -> Snapshot:
    """A device's snapshot from its state; None for a device that nobody has used."""
    if words is None:
        words = memoryview(bytes(Layout(spec.sips).size_bytes)).cast("q")
        ecc = Ecc(True, 0, 0, 0, 0)
    else:
        errors = words[at.H_ECC_CORRECTED : at.H_ECC_UNCORRECTED_EVER + 1]
        ecc = Ecc(bool(words[at.H_ECC]), *errors)
    layout, wall = Layout(spec.sips), time.monotonic_ns()
    floats = memoryview(words).cast("B").cast("d")
    owners = list(words[layout.owners : layout.owners + spec.sips])
    users = []
    heat = models.cooled(floats[at.H_HEAT], wall - words[at.H_HEAT_AT])
    kernels, busy, up, down = words[at.H_KERNELS : at.H_DOWN + 1]
    for index in range(words[at.H_HIGH]):
        slot = layout.slot(index)
        if not words[slot]:
            continue
        kernels, busy = kernels + words[slot + at.S_KERNELS], busy + words[slot + at.S_BUSY]
        up, down = up + words[slot + at.S_UP], down + words[slot + at.S_DOWN]
        heat += slots.heat(words, floats, slot, wall)
        if processes.alive(slots.identity(words, slot)):
            users.append(_process(words, slot, spec, wall, owners.count(index + 1)))
    mode = models.POWER_MODES[words[at.H_POWER_MODE]]
    use = min(1.0, sum(user.sip_use for user in users))
    count = words[at.H_SLICES]
    return Snapshot(
        spec=spec,
        mode=mode,
        processes=tuple(users),
        slices=tuple(
            SliceUse(
                number,
                sum(user.used_bytes for user in users if user.part == number),
                spec.l3_bytes // count,
                spec.sips // count,
            )
            for number in range(count)
        ),
        drs=bool(words[at.H_DRS]),
        ecc=ecc,
        resets=words[at.H_RESETS],
        reclaimed=words[at.H_RECLAIMED],
        used_bytes=sum(user.used_bytes for user in users),
        sips_reserved=sum(user.sips_reserved for user in users),
        sip_use=use,
        active=min(1.0, sum(user.active for user in users)),
        up_bytes_per_s=sum(user.up_bytes_per_s for user in users),
        down_bytes_per_s=sum(user.down_bytes_per_s for user in users),
        power_w=models.power_w(spec, mode, use),
        temperature_c=models.temperature_c(spec, mode, heat),
        kernels=kernels,
        busy_sip_ns=busy,
        up_bytes=up,
        down_bytes=down,
    )


def _process(words: Words, slot: int, spec: Specification, wall_ns: int, reserved: int) -> ProcessUse:
    recent = slots.last_second(words, slot, wall_ns)
    share = words[slot + at.S_SHARE]
    return ProcessUse(
        pid=words[slot + at.S_PID],
        user=words[slot + at.S_USER],
        command=slots.command(words, slot),
        part=share - 1 if share else None,
        used_bytes=words[slot + at.S_USED],
        peak_bytes=words[slot + at.S_PEAK],
        blocks=words[slot + at.S_BLOCKS],
        sips_reserved=reserved,
        sip_use=min(1.0, recent.busy_sip_ns / (spec.sips * SECOND_NS)),
        active=min(1.0, recent.active_ns / SECOND_NS),
        up_bytes_per_s=recent.up_bytes,
        down_bytes_per_s=recent.down_bytes,
        kernels=words[slot + at.S_KERNELS],
        since_ns=words[slot + at.S_SINCE],
    )
