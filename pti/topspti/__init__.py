"""TopsPTI: what tools hear of GCU programs: callbacks at runtime calls, and records of all activity.

    with topspti.Trace(topspti.ActivityKind.KERNEL) as trace:
        run()
    for kernel in trace.of(topspti.KernelRecord):
        print(kernel.name, kernel.duration_ns)

docs/topspti.md tells the rest. `topspti.vendor` has the vendor's spelling.
"""

from __future__ import annotations

from topspti import cbids as cbids
from topspti.activity import activity_disable as activity_disable
from topspti.activity import activity_enable as activity_enable
from topspti.activity import activity_flush_all as activity_flush_all
from topspti.activity import activity_flush_period as activity_flush_period
from topspti.activity import activity_get_next_record as activity_get_next_record
from topspti.activity import activity_get_num_dropped_records as activity_get_num_dropped_records
from topspti.activity import activity_pop_external_correlation_id as activity_pop_external_correlation_id
from topspti.activity import activity_push_external_correlation_id as activity_push_external_correlation_id
from topspti.activity import activity_register_callbacks as activity_register_callbacks
from topspti.activity import activity_set_kernel_filter as activity_set_kernel_filter
from topspti.activity import activity_unregister as activity_unregister
from topspti.activity import get_timestamp as get_timestamp
from topspti.activity import records as records
from topspti.callback import CallbackData as CallbackData
from topspti.callback import Subscriber as Subscriber
from topspti.callback import enable_all_domains as enable_all_domains
from topspti.callback import enable_callback as enable_callback
from topspti.callback import enable_domain as enable_domain
from topspti.callback import get_callback_name as get_callback_name
from topspti.callback import subscribe as subscribe
from topspti.callback import unsubscribe as unsubscribe
from topspti.cbids import cbid as cbid
from topspti.client import ActivityClient as ActivityClient
from topspti.errors import PtiError as PtiError
from topspti.kinds import ActivityKind as ActivityKind
from topspti.kinds import CallbackSite as CallbackSite
from topspti.kinds import Domain as Domain
from topspti.kinds import ExternalKind as ExternalKind
from topspti.metrics import METRICS as METRICS
from topspti.metrics import metric_values as metric_values
from topspti.records import ApiRecord as ApiRecord
from topspti.records import DeviceRecord as DeviceRecord
from topspti.records import ExternalCorrelationRecord as ExternalCorrelationRecord
from topspti.records import GcuEventRecord as GcuEventRecord
from topspti.records import GraphRecord as GraphRecord
from topspti.records import HostFunctionRecord as HostFunctionRecord
from topspti.records import KernelLineRecord as KernelLineRecord
from topspti.records import KernelMetricRecord as KernelMetricRecord
from topspti.records import KernelRecord as KernelRecord
from topspti.records import MarkerRecord as MarkerRecord
from topspti.records import MemcpyRecord as MemcpyRecord
from topspti.records import MemoryRecord as MemoryRecord
from topspti.records import MemsetRecord as MemsetRecord
from topspti.records import OverheadRecord as OverheadRecord
from topspti.records import PcSamplingRecord as PcSamplingRecord
from topspti.records import Record as Record
from topspti.records import StreamRaceRecord as StreamRaceRecord
from topspti.records import SynchronizationRecord as SynchronizationRecord
from topspti.running import run_program as run_program
from topspti.sampling import pc_samples as pc_samples
from topspti.trace import Trace as Trace
