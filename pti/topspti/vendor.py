"""The vendor's spelling, for tools that are ported: what `from topspti.vendor import *` brings.

They do what the functions they stand for do. Other than in C, errors are exceptions, results are returned,
`topsptiSubscribe` takes a callback(userdata, domain, cbid, data), and a client's handle is optional.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topspti import activity, callback
from topspti.callback import CallbackData, Subscriber
from topspti.kinds import Domain

topsptiActivityRegisterCallbacks = activity.activity_register_callbacks  # noqa: N816
topsptiActivityEnable = activity.activity_enable  # noqa: N816
topsptiActivityDisable = activity.activity_disable  # noqa: N816
topsptiActivityFlushAll = activity.activity_flush_all  # noqa: N816
topsptiActivityFlushPeriod = activity.activity_flush_period  # noqa: N816
topsptiActivityGetNextRecord = activity.activity_get_next_record  # noqa: N816
topsptiActivityGetNumDroppedRecords = activity.activity_get_num_dropped_records  # noqa: N816
topsptiActivityPushExternalCorrelationId = activity.activity_push_external_correlation_id  # noqa: N816
topsptiActivityPopExternalCorrelationId = activity.activity_pop_external_correlation_id  # noqa: N816
topsptiUnsubscribe = callback.unsubscribe  # noqa: N816
topsptiEnableCallback = callback.enable_callback  # noqa: N816
topsptiEnableDomain = callback.enable_domain  # noqa: N816
topsptiEnableAllDomains = callback.enable_all_domains  # noqa: N816
topsptiGetCallbackName = callback.get_callback_name  # noqa: N816
topsptiGetTimestamp = activity.get_timestamp  # noqa: N816


def topsptiSubscribe(  # noqa: N802
    called: Callable[[Any, Domain, int, CallbackData], object], userdata: Any = None
) -> Subscriber:
    """`called(userdata, domain, cbid, data)` for what is enabled."""
    return callback.subscribe(lambda domain, cbid, data: called(userdata, domain, cbid, data))


__all__ = [name for name in dir() if name.startswith("topspti")]
