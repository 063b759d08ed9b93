"""Launch limits of streams (SC/PC mode): clusters and SIPs that a stream has alone."""

from __future__ import annotations

from dataclasses import replace

from tops_kit.gcu.state import DeviceLostError, SipsReservedError
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.stream import Stream


def set_limit(stream: Stream, clusters: int, sips: int) -> None:
    """Give a stream so many clusters with so many SIPs each (0: all) of its own; (0, 0) takes that back.

    Raises TopsError.
    """
    context, spec = stream.context, stream.context.spec
    for number, most, what in (
        (clusters, spec.clusters, "clusters"),
        (sips, spec.sips_per_cluster, "SIPs a cluster"),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
            fail(
                Code.topsErrorInvalidValue,
                f"{shown(number)} {what}: {spec.name} has {most}, 0 stands for all",
            )
    if stream.id == 0:
        fail(Code.topsErrorInvalidHandle, "the default stream can't have a launch limit: make a stream")
    # kernels that are queued were made for the clusters there are now
    for operation in context.lasts():
        context.wait(operation)
    release(stream)
    if not clusters and not sips:
        return
    clusters, sips = clusters or spec.clusters, sips or spec.sips_per_cluster
    device = context.device
    assert device is not None
    try:
        context.claim()
        stream.sips = device.sips.reserve(clusters, sips)
        stream.limited = True
        if clusters < spec.clusters:
            context.simulation.take_clusters(stream.queue, clusters)
            device.sips.own |= device.sips.numbers(stream.sips)
    except (SipsReservedError, DeviceLostError, ValueError) as error:
        release(stream)
        fail(Code.topsErrorLaunchOutOfResources, f"stream {stream.id}: {error}")
    stream.queue.exclusive = True
    stream.part = replace(spec, clusters=clusters, sips_per_cluster=sips)
    stream.queue.width = sips
    context.hear()


def release(stream: Stream) -> None:
    """Give back what a stream has alone."""
    context = stream.context
    if stream.queue.pool is not None and not context.dead:
        if stream.queue.last is not None:
            context.wait(stream.queue.last)
        context.simulation.give_back_clusters(stream.queue)
    if stream.sips is not None and context.device is not None:
        context.device.sips.own -= context.device.sips.numbers(stream.sips)
        context.device.sips.release(stream.sips)
    stream.sips = None
    stream.limited = False
    stream.queue.exclusive = False
    stream.part = context.part
    stream.queue.width = context.part.sips_per_cluster
    context.hear()
