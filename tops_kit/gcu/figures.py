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

    `section` is its table there. `whole` numbers have no fraction; `least` is the least value that makes
    sense. `keys`: not one figure, but a table with one for each key.
    """

    name: str
    section: str
    unit: str
    whole: bool = True
    least: int = 0
    keys: tuple[str, ...] = ()


VECTOR_TYPES = ("f32", "i32", "f16", "bf16", "i16", "i8")  # u8 and bool are as fast as i8
MATRIX_TYPES = ("f32", "f16", "bf16", "i8")  # i32 and i16 are as fast as f32, u8 as i8
MEMORIES = ("l3", "l2", "l1")

MAX_CHANNELS = 14  # of the DTE, per SIP: the timing keeps counts of what flows in 4 bits

FIELDS = (
    Field("clusters", "device", "clusters", least=1),
    Field("sips_per_cluster", "device", "SIPs", least=1),
    Field("clock_hz", "device", "Hz", least=1),
    Field("vf_slots", "device", "virtual functions", least=1),
    Field("power_w", "device", "W"),
    Field("l1_bytes", "sip", "bytes", least=1),
    Field("scalar_issue_cycles", "sip", "cycles an instruction", least=1),
    Field("queue_depth", "sip", "operations a unit", least=1),
    Field("vector_ops_per_cycle", "vector", "128-byte operations/cycle", whole=False, keys=VECTOR_TYPES),
    Field("vector_startup_cycles", "vector", "cycles"),
    Field("macs_per_cycle", "matrix", "multiply-accumulates/cycle", whole=False, keys=MATRIX_TYPES),
    Field("matrix_startup_cycles", "matrix", "cycles"),
    Field("dte_channels", "dte", "channels a SIP", least=1),
    Field("dte_queue_depth", "dte", "transfers a channel", least=1),
    Field("dte_latency_cycles", "dte", "cycles", keys=MEMORIES),
    Field("port_bytes_per_cycle", "dte", "bytes/cycle a SIP", whole=False),
    Field("l2_bytes", "memory", "bytes a cluster"),
    Field("l2_reserved_bytes", "memory", "bytes a cluster"),
    Field("l2_bytes_per_cycle", "memory", "bytes/cycle a cluster", whole=False),
    Field("cluster_l3_bytes_per_cycle", "memory", "bytes/cycle a cluster", whole=False),
    Field("l3_bytes", "memory", "bytes", least=1),
    Field("l3_bytes_per_s", "memory", "bytes/s", least=1),
    Field("barrier_cycles", "synchronisation", "cycles"),
    Field("grid_barrier_cycles", "synchronisation", "cycles"),
    Field("atomic_cycles", "synchronisation", "cycles", keys=MEMORIES),
    Field("launch_cycles", "launch", "cycles"),
    Field("block_dispatch_cycles", "launch", "cycles a block"),
    Field("host_launch_ns", "host", "ns"),
    Field("host_api_ns", "host", "ns"),
    Field("pcie_bytes_per_s", "host", "bytes/s", least=1),
    Field("pcie_latency_ns", "host", "ns"),
    Field("link_bytes_per_s", "host", "bytes/s"),
    Field("link_latency_ns", "host", "ns"),
)
BY_NAME = {field.name: field for field in FIELDS}
SECTIONS = tuple(dict.fromkeys(field.section for field in FIELDS))
