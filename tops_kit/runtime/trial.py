"""Trying a kernel on parts: launched with an example, checked against its reference, reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.findings import Report, location_json
from tops_kit.gcu import Specification
from tops_kit.runtime.arrays import is_array
from tops_kit.runtime.compiled_files import CompiledKernel
from tops_kit.runtime.errors import LaunchError
from tops_kit.runtime.examples import Difference
from tops_kit.runtime.kernel import Kernel
from tops_kit.runtime.result import Launch
from tops_kit.runtime.saved_launch import Replay, SavedLaunch
from tops_kit.topscc.python.signature import MISSING

JSON_VERSION = 1  # grows when a key changes its meaning; new keys do not count


@dataclass(frozen=True, slots=True)
class Trial:
    """A kernel tried on one part. `checked`: arrays compared with the reference, and their elements."""

    launch: Launch
    checked: Mapping[str, int]
    differences: tuple[Difference, ...]
    findings: Report | None  # of the sanitizer, where it was asked for
    checkable: bool = True  # whether a reference is possible: compiled files have none
    replay: Replay | None = None  # of a saved launch

    @property
    def good(self) -> bool:
        """Whether nothing is wrong, as far as was looked."""
        if self.replay is not None and self.replay.differences():
            return False
        return not self.differences and not (self.findings is not None and len(self.findings))

    def text(self, *, lines: int = 5, pipeline: bool = False) -> str:
        """For people."""
        out = [*self._verdict(), self.launch.report.text(lines)]
        chart = self.launch.report.pipeline
        if pipeline and chart is not None and chart.sips():
            out.append(chart.text(chart.sips()[0]))
        return "\n".join(out)

    def _verdict(self) -> list[str]:
        name = self.launch.program.name
        out = [str(self.findings)] if self.findings is not None else []
        if self.replay is not None:
            return [*out, *_as_recorded(self.replay)]
        if not self.checked:
            why = f"the file names no reference (@{name}.reference)"
            if not self.checkable:
                why = "a compiled file has no reference: try the kernel's source"
            return [*out, f"{name}: not checked: {why}"]
        for one in self.differences:
            place = ", ".join(str(index) for index in one.at)
            out.append(
                f"{name}: {one.name} differs from the reference in {one.wrong:,} of {one.elements:,} "
                f"elements, most at [{place}]: {one.got!r}, should be {one.expected!r}"
            )
        wrong = {one.name for one in self.differences}
        right = [
            f"{array} ({count:,} elements)" for array, count in self.checked.items() if array not in wrong
        ]
        return [*out, f"{name}: as the reference: {', '.join(right)}"] if right else out

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "version": JSON_VERSION,
            "kernel": self.launch.program.name,
            "part": self.launch.part.name,
            "good": self.good,
            "checked": dict(self.checked),
            "differences": [asdict(one) for one in self.differences],
            "fault": None,
            "findings": None if self.findings is None else self.findings.to_json(),
            "output": list(self.launch.output),
            "timing": self.launch.report.to_json(),
            "saved_launch": None if self.replay is None else _replay_json(self.replay),
        }


def _as_recorded(replay: Replay) -> list[str]:
    saved = replay.saved
    if saved.recorded_fault is not None:
        return [f"{saved.name}: no fault, and when it was recorded: {saved.recorded_fault}"]
    if saved.file.outcome is None:
        return [f"{saved.name}: the program that recorded it ended within the launch: nothing to compare"]
    return [f"{saved.name}: {one}" for one in replay.differences()] or [
        f"{saved.name}: as recorded: all memory that it was given, and its cycles"
    ]


def _replay_json(replay: Replay) -> dict[str, Any]:
    saved = replay.saved
    return {
        "name": saved.name,
        "recorded_cycles": saved.recorded_cycles,
        "recorded_fault": saved.recorded_fault,
        "differences": replay.differences(),
    }


def try_saved(
    saved: SavedLaunch, *, sanitize: bool = False, pipeline: bool = False, quiet: bool = False
) -> Trial:
    """Launch a saved launch again, and compare what it leaves. Raises KernelFault, UserError."""
    findings = None
    if sanitize:
        findings = saved.replay(mode="sanitized", quiet=True).launch.faults
    replay = saved.replay(mode="timed", pipeline=pipeline, quiet=quiet)
    return Trial(replay.launch, {}, (), findings, checkable=False, replay=replay)


def fault_json(fault: KernelFault, part: Specification) -> dict[str, Any]:
    """A trial that ended with a fault, as `Trial.to_json`."""
    return {
        "version": JSON_VERSION,
        "kernel": fault.kernel,
        "part": part.name,
        "good": False,
        "checked": {},
        "differences": [],
        "fault": {
            "kind": fault.kind.name,
            "message": fault.message,
            "location": location_json(fault.location),
            "thread": fault.thread,
            "block": fault.block,
            "buffer": fault.buffer,
            "space": fault.space,
        },
        "findings": None if fault.report is None else fault.report.to_json(),
        "output": list(fault.output),
        "timing": None,
    }


def try_kernel(
    kernel: Kernel | CompiledKernel,
    part: Specification,
    arguments: Mapping[str, Any],
    shape: Mapping[str, Any],
    *,
    sanitize: bool = False,
    pipeline: bool = False,
    quiet: bool = False,
) -> Trial:
    """Launch a kernel on a part, on copies of the arrays; check what it stores.

    `shape` has `threads`, or `grid` and `block`; without, all SIPs of the part. Raises KernelError,
    KernelFault, LaunchError.
    """
    chosen = kernel.on(part)
    threads = _threads(shape, part)
    findings = None
    if sanitize:
        findings = chosen.options(mode="sanitized", quiet=True)[threads](**_copies(arguments)).faults
    launch = chosen.options(mode="timed", pipeline=pipeline, quiet=quiet)[threads](**_copies(arguments))
    if not kernel.examples.has_reference:
        return Trial(launch, {}, (), findings, isinstance(kernel, Kernel))
    try:
        expected = kernel.examples.expected(_copies(_whole(kernel, arguments)), launch.stored)
        differences = kernel.examples.differences(expected, launch.arrays)
    except LaunchError as reason:
        raise LaunchError(f"{kernel.name}: {reason}") from None
    checked = {name: int(_size(launch[name])) for name in expected}
    return Trial(launch, checked, tuple(differences), findings)


def _threads(shape: Mapping[str, Any], part: Specification) -> Any:
    if "block" in shape:
        return shape.get("grid", 1), shape["block"]
    if "grid" in shape:
        return shape["grid"], part.sips_per_cluster
    return shape.get("threads", part.sips)


def _whole(kernel: Kernel | CompiledKernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the defaults of those that are not given, as the launch has them."""
    defaults = {p.name: p.default for p in kernel.parameters if p.default is not MISSING}
    return {**defaults, **arguments}


def _copies(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments whose arrays the launch may change."""
    return {name: _copy(value) if is_array(value) else value for name, value in arguments.items()}


def _copy(array: Any) -> Any:
    """With the same strides' order, and writable."""
    return array.clone() if hasattr(array, "clone") else array.copy(order="K")


def _size(array: Any) -> int:
    return int(array.numel()) if hasattr(array, "numel") else int(array.size)
