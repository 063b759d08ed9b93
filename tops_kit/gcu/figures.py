"""What a part's file states: the names of its figures, their units, and which values make sense."""

from __future__ import annotations

from dataclasses import dataclass

Number = int | float


@dataclass(frozen=True)
class Figure:
    """One figure of a part: `name` as in its file (tables: "macs_per_cycle.f32"), value, unit, and source.

    A source that begins with "assumption" marks what nothing public states.
    """

    name: str
    value: Number
    unit: str
    source: str

    @property
    def assumed(self) -> bool:
        """Whether nothing public states it."""
        return self.source.startswith("assumption")

    def __str__(self) -> str:
        return f"{self.name} = {self.value} {self.unit} ({self.source})"


@dataclass(frozen=True)
class Field:
    """How a figure stands in a part's file.

    `section` is its table there. `whole` numbers have no fraction; values from `least` to `most` make sense.
    `keys`: not one figure, but a table with one for each key.
    """

    name: str
    section: str
    unit: str
    whole: bool = True
    least: float = 0
    most: float = 1 << 50
    keys: tuple[str, ...] = ()


VECTOR_TYPES = ("f32", "i32", "f16", "bf16", "i16", "i8")  # u8 and bool are as fast as i8
MATRIX_TYPES = ("f32", "f16", "bf16", "i8")  # i32 and i16 are as fast as f32, u8 as i8
MEMORIES = ("l3", "l2", "l1")

MOST_SIPS = 4096  # of a part, as timing_state.h has it
_CYCLES = 10**9  # the most that anything takes
_SLOW, _FAST = 0.001, 10**9  # of what happens in a cycle

FIELDS = (
    Field("clusters", "device", "clusters", least=1, most=256),
    Field("sips_per_cluster", "device", "SIPs", least=1, most=256),
    Field("clock_hz", "device", "Hz", least=10**6, most=10**12),
    Field("vf_slots", "device", "virtual functions", least=1, most=1024),
    Field("power_w", "device", "W"),
    Field("l1_bytes", "sip", "bytes", least=128),
    Field("scalar_issue_cycles", "sip", "cycles an instruction", least=1, most=1000),
    Field("queue_depth", "sip", "operations a unit", least=1, most=1024),
    Field(
        "vector_ops_per_cycle",
        "vector",
        "128-byte operations/cycle",
        whole=False,
        least=_SLOW,
        most=_FAST,
        keys=VECTOR_TYPES,
    ),
    Field("vector_startup_cycles", "vector", "cycles", most=_CYCLES),
    Field(
        "macs_per_cycle",
        "matrix",
        "multiply-accumulates/cycle",
        whole=False,
        least=_SLOW,
        most=_FAST,
        keys=MATRIX_TYPES,
    ),
    Field("matrix_startup_cycles", "matrix", "cycles", most=_CYCLES),
    # the timing counts what flows of one SIP in 5 bits a route
    Field("dte_channels", "dte", "channels a SIP", least=1, most=30),
    Field("dte_queue_depth", "dte", "transfers a channel", least=1, most=1024),
    Field("dte_latency_cycles", "dte", "cycles", most=_CYCLES, keys=MEMORIES),
    Field("port_bytes_per_cycle", "dte", "bytes/cycle a SIP", whole=False, least=_SLOW, most=_FAST),
    Field("l2_bytes", "memory", "bytes a cluster"),
    Field("l2_reserved_bytes", "memory", "bytes a cluster"),
    Field("l2_bytes_per_cycle", "memory", "bytes/cycle a cluster", whole=False, least=_SLOW, most=_FAST),
    Field(
        "cluster_l3_bytes_per_cycle", "memory", "bytes/cycle a cluster", whole=False, least=_SLOW, most=_FAST
    ),
    Field("l3_bytes", "memory", "bytes", least=1),
    Field("l3_bytes_per_s", "memory", "bytes/s", least=10**6),
    Field("barrier_cycles", "synchronisation", "cycles", most=_CYCLES),
    Field("grid_barrier_cycles", "synchronisation", "cycles", most=_CYCLES),
    Field("atomic_cycles", "synchronisation", "cycles", most=_CYCLES, keys=MEMORIES),
    Field("launch_cycles", "launch", "cycles", most=_CYCLES),
    Field("block_dispatch_cycles", "launch", "cycles a block", most=_CYCLES),
    Field("host_launch_ns", "host", "ns"),
    Field("host_api_ns", "host", "ns"),
    Field("pcie_bytes_per_s", "host", "bytes/s", least=1),
    Field("pcie_latency_ns", "host", "ns"),
    Field("link_bytes_per_s", "host", "bytes/s"),
    Field("link_latency_ns", "host", "ns"),
)
BY_NAME = {field.name: field for field in FIELDS}
SECTIONS = tuple(dict.fromkeys(field.section for field in FIELDS))
