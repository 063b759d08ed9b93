"""What the recorder benchmark runs in a process of its own: loops around one annotation, ns of CPU per pass.

`python -m benchmarks.recorder_child REPETITIONS PASSES WARM_UP MODE...` prints one JSON object: mode -> ns
of each repetition, in
turn with the other modes. A repetition is the least of short bursts, so that what else the machine does
falls out; the
empty loop is taken off. WARM_UP ranges are recorded first (0: none).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

Loop = Callable[[int], None]


def empty(n: int) -> None:
    for _ in range(n):
        pass


def call(n: int) -> None:
    def nothing() -> None: ...

    for _ in range(n):
        nothing()


def topstx_pushpop(n: int) -> None:
    from topstx import pop_range, push_range

    for _ in range(n):
        push_range("work")
        pop_range()


def topstx_domain(n: int) -> None:
    import topstx

    domain = topstx.get_domain("bench")
    push, pop = domain.push_range, domain.pop_range
    for _ in range(n):
        push("work")
        pop()


def topstx_with(n: int) -> None:
    from topstx import annotate

    work = annotate("work")
    for _ in range(n):
        with work:
            pass


def topstx_with_new(n: int) -> None:
    from topstx import annotate

    for _ in range(n):
        with annotate("work"):
            pass


def topstx_decorator(n: int) -> None:
    from topstx import annotate

    @annotate("work")
    def nothing() -> None: ...

    for _ in range(n):
        nothing()


def topstx_mark(n: int) -> None:
    from topstx import mark

    for _ in range(n):
        mark("work")


def nvtx_pushpop(n: int) -> None:
    from nvtx import pop_range, push_range

    for _ in range(n):
        push_range("work")
        pop_range()


def nvtx_domain(n: int) -> None:
    import nvtx

    domain = nvtx.get_domain("bench")
    attributes: Any = domain.get_event_attributes(message="work")
    push, pop = domain.push_range, domain.pop_range
    for _ in range(n):
        push(attributes)
        pop()


def nvtx_with(n: int) -> None:
    from nvtx import annotate

    for _ in range(n):
        with annotate("work"):
            pass


def nvtx_decorator(n: int) -> None:
    from nvtx import annotate

    @annotate("work")
    def nothing() -> None: ...

    for _ in range(n):
        nothing()


def viztracer_with(n: int) -> None:
    from viztracer import VizTracer

    tracer = VizTracer(tracer_entries=4 * n + 1000, log_gc=False, verbose=0, max_stack_depth=0)
    tracer.start()
    for _ in range(n):
        with tracer.log_event("work"):
            pass
    tracer.stop()
    tracer.clear()


def opentelemetry_with(n: int) -> None:
    tracer = _opentelemetry_tracer()
    for _ in range(n):
        with tracer.start_as_current_span("work"):
            pass


def _opentelemetry_tracer() -> Any:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider.get_tracer("bench")


def torch_with(n: int) -> None:
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]):
        for _ in range(n):
            with record_function("work"):
                pass


def _script(n: int, work: Callable[[int], int]) -> None:
    for _ in range(n // 100):
        work(100)


def script_plain(n: int) -> None:
    """A call-heavy script: n small calls."""

    def step(value: int) -> int:
        return value * value % 7

    _script(n, lambda count: sum(step(i) for i in range(count)))


def script_topstx(n: int) -> None:
    """The same, its small function annotated."""
    from topstx import annotate

    @annotate("step")
    def step(value: int) -> int:
        return value * value % 7

    _script(n, lambda count: sum(step(i) for i in range(count)))


def script_cprofile(n: int) -> None:
    """The same under cProfile."""
    import cProfile

    profiler = cProfile.Profile()
    profiler.enable()
    script_plain(n)
    profiler.disable()


_BURSTS = 10
SLOW = {"viztracer_with": 10, "opentelemetry_with": 20, "torch_with": 20}
"""mode -> how many times fewer passes"""


def main(arguments: list[str]) -> None:
    repetitions, passes, warm_up = map(int, arguments[:3])
    modes = arguments[3:]
    if warm_up:
        topstx_pushpop(warm_up)
    found: dict[str, list[float]] = {mode: [] for mode in modes}
    for mode in modes:
        _burst(mode, passes // 10)  # imports and caches
    bare = min(_burst("empty", passes // _BURSTS) for _ in range(20))
    for _ in range(repetitions):
        for mode in modes:
            found[mode].append(min(_burst(mode, passes // _BURSTS) for _ in range(_BURSTS)) - bare)
    backend = ""
    if any("topstx" in mode for mode in modes):
        backend = str(importlib.import_module("topstx").backend())
    print("BENCH " + json.dumps({"ns": found, "backend": backend}))


def _burst(mode: str, passes: int) -> float:
    count = max(passes // SLOW.get(mode, 1), 100)
    loop: Loop = globals()[mode]
    begin = time.process_time_ns()
    loop(count)
    return (time.process_time_ns() - begin) / count


if __name__ == "__main__":
    main(sys.argv[1:])
