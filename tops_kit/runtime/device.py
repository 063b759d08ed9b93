"""Devices as a program chooses, asks and waits for them."""

from __future__ import annotations

from typing import Any

import topstx

from tops_kit.gcu import Specification
from tops_kit.runtime import activity as acts
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.stream import tell_sync

_LAST_NS = 1 << 62  # of session time: what begins then still has to end in 64 bits


class Device:
    """A device that the program sees. `with device:` makes it the thread's."""

    def __init__(self, index: int = 0) -> None:
        self.index = RUNTIME.context(index).device_id
        self._outer: list[tuple[int, Any]] = []

    @property
    def specification(self) -> Specification:
        """Its part with all figures: of a slice, what the slice has."""
        return RUNTIME.context(self.index).spec

    @property
    def name(self) -> str:
        """What it is: "S60"."""
        return self.specification.title

    @property
    def uuid(self) -> str:
        """What tells it from all others."""
        device = RUNTIME.context(self.index).device
        assert device is not None
        return device.uuid

    @property
    def memory(self) -> tuple[int, int]:
        """Free and total bytes of its memory."""
        from tops_kit.runtime.memory import mem_get_info

        return mem_get_info(self.index)

    def properties(self) -> dict[str, Any]:
        """What programs ask of a device, as plain values; all of it is simulated."""
        return device_properties(self.index)

    def synchronize(self) -> None:
        """Wait for all that is queued on it. Raises TopsError."""
        synchronize(self.index)

    def __enter__(self) -> Device:
        local = RUNTIME.local
        self._outer.append((local.device, local.stream))
        set_device(self.index)
        return self

    def __exit__(self, *_: object) -> None:
        RUNTIME.local.device, RUNTIME.local.stream = self._outer.pop()

    def __repr__(self) -> str:
        return f"<Device {self.index}: {self.name}, simulated>"


@api("topsGetDeviceCount")
def device_count() -> int:
    """How many devices (or slices) the program sees: TOPS_DEVICES and TOPS_VISIBLE_DEVICES choose them."""
    RUNTIME.start()
    return len(RUNTIME.contexts)


@api("topsSetDevice")
def set_device(index: int) -> None:
    """Choose the calling thread's device; its stream is the device's default one then. Raises TopsError."""
    RUNTIME.local.device = RUNTIME.context(index).device_id
    RUNTIME.local.stream = None


@api("topsGetDevice")
def get_device() -> int:
    """The number of the calling thread's device."""
    return RUNTIME.current().device_id


@api("topsGetDeviceProperties")
def device_properties(index: int | None = None) -> dict[str, Any]:
    """What programs ask of a device (default: the thread's), as plain values. Raises TopsError."""
    context = RUNTIME.current() if index is None else RUNTIME.context(index)
    spec, device = context.spec, context.device
    assert device is not None
    return {
        "name": spec.title,
        "part": spec.name,
        "architecture": spec.architecture,
        "simulated": True,
        "uuid": device.uuid,
        "slice": device.slice,
        "slices": device.slices,
        "multi_processor_count": spec.clusters,
        "sips_per_cluster": spec.sips_per_cluster,
        "sips": spec.sips,
        "max_threads_per_block": spec.sips_per_cluster,
        "clock_hz": spec.clock_hz,
        "total_memory_bytes": spec.l3_bytes,
        "l2_bytes": spec.l2_usable_bytes,
        "l1_bytes": spec.l1_bytes,
        "memory_bytes_per_s": spec.l3_bytes_per_s,
        "pcie_bytes_per_s": spec.pcie_bytes_per_s,
        "link_bytes_per_s": spec.link_bytes_per_s,
    }


@api("topsDeviceSynchronize")
def synchronize(device: int | None = None) -> None:
    """Wait for all that is queued on a device (default: the thread's).

    Raises TopsError: also what went wrong on the device since the last time.
    """
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.check()
    capture = RUNTIME.local.capture
    if capture is not None:
        capture.invalidate()
        fail(
            Code.topsErrorStreamCaptureUnsupported,
            "a stream is being captured, the device can't be waited for: end the capture first",
        )
    begin_ns = context.clock.now_ns()
    context.synchronize()
    if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
        RUNTIME.racing.host_waited_for_device(context)
    tell_sync(acts.SYNC_DEVICE, context, -1, begin_ns)


@api("topsDeviceReset")
def device_reset(device: int | None = None) -> None:
    """Begin anew with a device (default: the thread's), also after an error of a kernel.

    What is queued is done first; then memory, streams, events and graphs of this process on it are gone.
    """
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    RUNTIME.reset(context.device_id)


@api("topsDeviceCanAccessPeer")
def can_access_peer(device: int, peer: int) -> bool:
    """Whether kernels of a device could use another one's memory: over a link, or within one card."""
    RUNTIME.context(device), RUNTIME.context(peer)
    return device != peer and RUNTIME.devices.connection(device, peer) in ("link", "pcie")


@api("topsDeviceEnablePeerAccess")
def enable_peer_access(peer: int) -> None:
    """From now on kernels of the thread's device may use another device's memory. Raises TopsError."""
    context, other = RUNTIME.current(), RUNTIME.context(peer)
    if context is other:
        fail(Code.topsErrorInvalidDevice, f"device {peer} is the thread's own")
    if peer in context.peers:
        fail(
            Code.topsErrorPeerAccessAlreadyEnabled, f"device {context.device_id} has access to {peer} already"
        )
    if not can_access_peer(context.device_id, peer):
        fail(
            Code.topsErrorPeerAccessUnsupported,
            f"device {context.device_id} can't use the memory of device {peer}: they are slices of one card",
        )
    context.peers.add(peer)


@api("topsDeviceDisablePeerAccess")
def disable_peer_access(peer: int) -> None:
    """Take `enable_peer_access` back. Raises TopsError."""
    context = RUNTIME.current()
    RUNTIME.context(peer)
    if peer not in context.peers:
        fail(Code.topsErrorPeerAccessNotEnabled, f"device {context.device_id} has no access to {peer}")
    context.peers.discard(peer)


def host_work(ns: int) -> None:
    """The host works for so many ns: session time passes, without using the CPU.

    In a host function it is what the function takes. Raises TopsError for less than 0, and
    for what session time has no room for.
    """
    if isinstance(ns, bool) or not isinstance(ns, int) or ns < 0:
        fail(
            Code.topsErrorInvalidValue, f"host_work takes nanoseconds, an int of at least 0, not {shown(ns)}"
        )
    RUNTIME.start()
    passed_ns = RUNTIME.clock.now_ns() + (RUNTIME.local.callback_ns if RUNTIME.local.in_callback else 0)
    if passed_ns + ns >= _LAST_NS:
        fail(Code.topsErrorInvalidValue, f"host_work({ns}): session time ends at {_LAST_NS} ns")
    if RUNTIME.local.in_callback:
        RUNTIME.local.callback_ns += ns
        return
    RUNTIME.clock.host_work(ns)


def now_ns() -> int:
    """Session time in ns: what records of the runtime carry, and what waits for the device move."""
    RUNTIME.start()
    return RUNTIME.clock.now_ns()


@api("topsProfilerStart")
def profiler_start() -> None:
    """A capture that waits for it (`topsprof run -c topsProfilerApi`) begins. Harmless without one."""
    RUNTIME.start()
    topstx.profiler_start()


@api("topsProfilerStop")
def profiler_stop() -> None:
    """A capture that `profiler_start` began ends. Harmless without one."""
    RUNTIME.start()
    topstx.profiler_stop()


@api("topsGetErrorName")
def error_name(code: int) -> str:
    """The vendor's name of an error number."""
    return _code(code).name


@api("topsGetErrorString")
def error_string(code: int) -> str:
    """What an error number means."""
    return _code(code).text


def _code(number: Any) -> Code:
    if not isinstance(number, int):
        fail(Code.topsErrorInvalidValue, f"an error's number is an int, not {shown(number)}")
    return Code(number) if number in Code._value2member_map_ else Code.topsErrorUnknown


@api("topsPeekAtLastError")
def last_error(device: int | None = None) -> int:
    """The vendor's number for what went wrong on a device (default: the thread's) by now; 0: nothing."""
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.timeline.advance(context.clock.now_ns())
    return int(context.error.code) if context.error is not None else 0
