"""OpenTelemetry spans become ranges, with their attributes, events and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk.trace")

HEAD = """
import topstx
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode
from topstx.otel import TopsTXSpanProcessor
provider = TracerProvider()
"""


@pytest.fixture
def record(program: Any) -> Callable[[str], tuple[Any, str]]:
    """Runs code in a program of its own; returns what its process recorded, and its output."""

    def run(code: str) -> tuple[Any, str]:
        return program(HEAD + textwrap.dedent(code)).only, program.stdout

    return run


def test_spans_are_ranges_with_ids_attributes_and_kind(record: Any) -> None:
    process, output = record("""
        import json
        provider.add_span_processor(TopsTXSpanProcessor())
        tracer = provider.get_tracer("shop")
        with tracer.start_as_current_span("order", kind=SpanKind.SERVER, attributes={"id": 7}) as outer:
            with tracer.start_as_current_span("pay") as inner:
                pass
        ids = [(s.get_span_context().trace_id, s.get_span_context().span_id) for s in (outer, inner)]
        print(json.dumps([[f"{t:032x}", f"{s:016x}"] for t, s in ids]))
    """)
    (trace, order), (_, pay) = json.loads(output)
    inner, outer = process.of()
    assert (inner.name, inner.depth, inner.domain) == ("pay", 1, "opentelemetry")
    assert inner.payload == {"trace_id": trace, "span_id": pay, "parent_span_id": order}
    assert outer.payload == {"trace_id": trace, "span_id": order, "id": 7}
    assert outer.category[1] == "server" and inner.category is None
    assert outer.begin <= inner.begin <= inner.end <= outer.end
    assert outer.error is None


def test_late_attributes_and_events_are_marks(record: Any) -> None:
    process, _ = record("""
        provider.add_span_processor(TopsTXSpanProcessor(domain=None))
        with provider.get_tracer("scope").start_as_current_span("work", attributes={"a": 1}) as span:
            span.add_event("cache miss", {"key": "k"})
            with topstx.annotate("between"):
                pass
            span.add_event("plain")
            span.set_attribute("a", 2)
            span.set_attribute("rows", [1, 2])
    """)
    ranges = {record.name: record for record in process.of()}
    assert ranges["work"].domain == "scope" and ranges["between"].domain == ""
    miss, plain, late = process.of(2)
    assert (miss.name, miss.payload, miss.domain) == ("cache miss", {"key": "k"}, "scope")
    assert (plain.name, plain.payload) == ("plain", None)
    assert miss.begin <= ranges["between"].begin <= ranges["between"].end <= plain.begin
    assert late.name == "work: attributes"
    assert late.payload["a"] == 2 and "rows" in late.payload


def test_errors_mark_the_range(record: Any) -> None:
    process, _ = record("""
        provider.add_span_processor(TopsTXSpanProcessor(events=False))
        tracer = provider.get_tracer("t")
        try:
            with tracer.start_as_current_span("raises"):
                raise KeyError("x")
        except KeyError:
            pass
        with tracer.start_as_current_span("says so") as span:
            span.set_status(Status(StatusCode.ERROR, "bad"))
        with tracer.start_as_current_span("fine"):
            pass
    """)
    assert {r.name: r.error for r in process.of()} == {
        "raises": "KeyError",
        "says so": "SpanError",
        "fine": None,
    }
    assert not process.of(2)


def test_a_span_may_end_in_another_thread_and_tasks_do_not_mix(record: Any) -> None:
    process, _ = record("""
        import asyncio, threading
        provider.add_span_processor(TopsTXSpanProcessor())
        tracer = provider.get_tracer("t")
        span = tracer.start_span("far")
        thread = threading.Thread(target=span.end)
        thread.start()
        thread.join()
        async def work(number):
            with tracer.start_as_current_span(f"task {number}"):
                await asyncio.sleep(0.01)
        async def main():
            await asyncio.gather(work(1), work(2))
        asyncio.run(main())
    """)
    ranges = {record.name: record for record in process.of()}
    assert ranges["far"].end_tid not in (None, ranges["far"].tid)
    assert ranges["task 1"].task != ranges["task 2"].task
    assert ranges["task 1"].depth == ranges["task 2"].depth == 0


def test_without_a_session_spans_are_left_alone() -> None:
    code = HEAD + textwrap.dedent("""
        processor = TopsTXSpanProcessor()
        provider.add_span_processor(processor)
        with provider.get_tracer("t").start_as_current_span("s") as span:
            assert "add_event" not in vars(span)
        assert not processor._open
    """)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_topstx_itself_imports_no_opentelemetry() -> None:
    code = "import sys, topstx; assert not [m for m in sys.modules if 'opentelemetry' in m]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
