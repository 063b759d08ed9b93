"""Activities as rows: for each kind of activity how its tuple becomes a row's body.

Kinds whose rows have text after the body, or come seldom, have functions of their own in `recording.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from topstx.recorder import layout, rows
from topstx.recorder.row_sink import CONST, EXTRA, FIELD, INTERN, THREE, Packing

from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_table import DRIVER_API, NAMES, RUNTIME_API

if TYPE_CHECKING:
    from collections.abc import Callable

    from topstx.recorder.row_sink import Item, NameOf

    from tops_kit.runtime.plan import Plan

# What is told when the device has done it: it belongs to the call that asked for it, while recording was on.
ON_THE_DEVICE: Final = (
    acts.KERNEL | acts.MEMCPY | acts.MEMSET | acts.GRAPH | acts.GCU_EVENT | acts.HOST_FUNCTION
)
_COPY_NAMES: Final = tuple(f"[memcpy {kind}]" for kind in acts.COPY_KINDS)


def _packing(
    kind: int,
    row: int,
    activity: type[NamedTuple],
    name: NameOf | str,
    /,
    *,
    start: str = "start_ns",
    end: str = "end_ns",
    device: str = "",
    filter: str = "",
    **sources: str | int,
) -> Packing:
    """A description. The body's fields are taken from fields of the activity of the same name, unless
    `sources` says otherwise: another name, a constant, or "extra".
    """
    places = {field: place for place, field in enumerate(activity._fields)}
    items: list[Item] = []
    grids = {"grid_x": "grid", "block_x": "block"}
    for field, code, _ in rows.KINDS[row].fields:
        source = sources.get(field, field)
        if isinstance(source, int):
            items.append((CONST, source, code))
        elif source == "extra":
            items.append((EXTRA, 0, code))
        elif field in grids:
            items.append((THREE, places[grids[field]], code))
        elif field.endswith(("_y", "_z")):
            continue
        else:
            operation = INTERN if source in ("full_name", "note") else FIELD
            items.append((operation, places[source], code))
    return Packing(
        kind,
        row | layout.ROW_LATE if kind & ON_THE_DEVICE else row,
        start=places[start],
        end=places[end],
        correlation=places["correlation_id"],
        name=places[name] if isinstance(name, str) else name,
        items=items,
        device=places[device] if device else -1,
        filter=places[filter] if filter else -1,
    )


def _api(kind: int, row: int, domain: int) -> Packing:
    return _packing(
        kind, row, acts.ApiActivity, (0, dict(NAMES[domain])), stack_id="extra",
        device="device_id", domain=1 if domain == DRIVER_API else 2,
    )  # fmt: skip


def packings() -> list[Packing]:
    """Of all kinds of activities but those that have text after the body."""
    graph_names = _Numbered("graph")
    overhead = acts.OverheadActivity._fields.index("overhead_kind")
    return [
        _api(acts.API, rows.KIND_API, RUNTIME_API),
        _api(acts.DRIVER, rows.KIND_DRIVER_API, DRIVER_API),
        _packing(
            acts.KERNEL, rows.KIND_KERNEL, acts.KernelActivity, "name", device="device_id", filter="name",
            metric_id="extra", flags="cooperative",
        ),
        _packing(
            acts.MEMCPY, rows.KIND_MEMCPY, acts.MemcpyActivity, (0, _COPY_NAMES), device="device_id",
        ),
        _packing(
            acts.MEMSET, rows.KIND_MEMSET, acts.MemsetActivity, (2, _Numbered("[memset]", number=False)),
            device="device_id",
        ),
        _packing(
            acts.MEMORY, rows.KIND_MEMORY, acts.MemoryActivity, (0, rows.MEMORY_OPERATIONS),
            start="end_ns", device="device_id", stack_id="extra",
        ),
        _packing(
            acts.SYNCHRONIZATION, rows.KIND_SYNC, acts.SyncActivity, (0, rows.SYNC_KINDS), device="device_id"
        ),
        _packing(
            acts.GRAPH, rows.KIND_GRAPH, acts.GraphActivity, (0, graph_names), device="device_id"
        ),
        _packing(
            acts.GCU_EVENT, rows.KIND_GCU_EVENT, acts.GcuEventActivity,
            (0, _Numbered("event", number=False)), end="start_ns",
        ),
        _packing(
            acts.EXTERNAL_CORRELATION, rows.KIND_EXTERNAL, acts.ExternalCorrelation,
            (0, _Numbered("external", number=False)), end="start_ns",
        ),
        _packing(
            acts.OVERHEAD, rows.KIND_RUNTIME_OVERHEAD, acts.OverheadActivity, (overhead, acts.OVERHEAD_KINDS)
        ),
        _packing(acts.HOST_FUNCTION, rows.KIND_HOST_FUNCTION, acts.HostFunctionActivity, "name"),
    ]  # fmt: skip


def kernel_body(intern: Callable[[str], int], plan: Plan) -> bytes:
    """The body of a kernel's row with what is the same for all its launches; the rest is 0."""
    grid, block = ((*extents, 1, 1)[:3] for extents in (plan.grid, plan.block))
    return rows.KINDS[rows.KIND_KERNEL].body.pack(
        0, 0, 0, *grid, *block, intern(plan.full_name), 0, 0, 0, 0, 0, 0, 0, 0, plan.cooperative
    )


class _Numbered(dict[int, str]):
    """Names that have a number, made when they are first asked for; without `number` always the same."""

    def __init__(self, text: str, *, number: bool = True) -> None:
        self._text = text
        self._number = number

    def __missing__(self, key: int) -> str:
        if not self._number:
            return self._text
        made = self[key] = f"{self._text} {key}"
        return made
