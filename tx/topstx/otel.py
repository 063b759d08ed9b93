"""OpenTelemetry spans as TopsTX ranges: add a `TopsTXSpanProcessor` to the tracer provider.

    from opentelemetry.sdk.trace import TracerProvider
    from topstx.otel import TopsTXSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(TopsTXSpanProcessor())

A span is a range from its start to its end, of the thread and context that started it; it may end in any. The
range's payload is a dict of the span's ids and of the attributes that it had at its start. Attributes that
came later are a mark "NAME: attributes" at its end, events are marks at their time. A span of status ERROR is
a range that an error left, under the type of the exception that the span recorded last.

Importing this module imports OpenTelemetry; `topstx` itself never does.
"""

# OpenTelemetry is a namespace package, which mypy sees only in part, and may be absent.
# mypy: disable-error-code="attr-defined,misc"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.span import format_span_id, format_trace_id
from opentelemetry.trace.status import StatusCode

import topstx
from topstx.recorder.interface import Annotate


class SpanError(Exception):
    """The error of a span whose status is ERROR though it recorded no exception."""


class _Open:
    """The range of a span that has not ended, and the attributes that its payload already says."""

    __slots__ = ("attributes", "range")

    def __init__(self, entered: Annotate, attributes: dict[str, Any]) -> None:
        self.range, self.attributes = entered, attributes


class TopsTXSpanProcessor(SpanProcessor):
    """Records spans as ranges.

    `domain` is the domain they come under; None takes the name of each span's instrumentation scope.
    `events`: whether a span's events become marks.
    """

    def __init__(self, domain: str | None = "opentelemetry", *, events: bool = True) -> None:
        self._domain = domain
        self._events = events
        # A processor is handed a copy of the span at its end, so what belongs to it is found by its ids.
        self._open: dict[tuple[int, int], _Open] = {}

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        context = span.get_span_context()
        if context is None or not topstx.is_recording():
            return
        attributes = dict(span.attributes or {})
        ids = {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}
        if span.parent is not None:
            ids["parent_span_id"] = format_span_id(span.parent.span_id)
        domain = self._domain_of(span)
        kind = None if span.kind is SpanKind.INTERNAL else span.kind.name.lower()
        entered = topstx.annotate(span.name, domain=domain, category=kind, payload={**ids, **attributes})
        self._open[context.trace_id, context.span_id] = _Open(entered, attributes)
        if self._events:
            # The SDK has no call for events, and at the span's end it would be too late to mark their time.
            span.add_event = _marking(span, span.add_event, domain)
        entered.__enter__()

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        state = None if context is None else self._open.pop((context.trace_id, context.span_id), None)
        if state is None:
            return
        known = state.attributes
        late = {key: value for key, value in (span.attributes or {}).items() if known.get(key) != value}
        if late:
            topstx.mark(f"{span.name}: attributes", domain=self._domain_of(span), payload=late)
        state.range.__exit__(_error(span), None, None)

    def _domain_of(self, span: ReadableSpan) -> str:
        if self._domain is not None:
            return self._domain
        scope = span.instrumentation_scope
        return scope.name if scope is not None else ""


def _marking(span: Span, add_event: Callable[..., None], domain: str) -> Callable[..., None]:
    """`add_event`, which also marks the event."""

    def add(name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        if span.is_recording():
            topstx.mark(name, domain=domain, payload=dict(attributes) if attributes else None)
        add_event(name, attributes, timestamp)

    return add


def _error(span: ReadableSpan) -> type[BaseException] | None:
    """A type with the name of the span's error, None when it has none."""
    if span.status.status_code is not StatusCode.ERROR:
        return None
    for event in reversed(span.events):
        name = (event.attributes or {}).get("exception.type")
        if isinstance(name, str) and name:
            return type(name.rpartition(".")[2], (SpanError,), {})
    return SpanError
