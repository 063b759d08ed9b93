"""Threads: each has its ring, and rings of ended threads are used again."""

from __future__ import annotations

from typing import Any

import pytest
from topstx.recorder import layout as L


@pytest.mark.smoke
def test_threads_record_apart(program: Any) -> None:
    process = program("""
        import threading, topstx
        start = threading.Barrier(8)
        def work(n):
            topstx.set_thread_name(f"worker {n}")
            start.wait()
            for i in range(500):
                topstx.push_range(f"outer {n}")
                with topstx.annotate("inner", payload=i): pass
                topstx.pop_range()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
    """).only
    assert len(process.records) == 8000 and not process.open
    by_name = {name: {r.tid for r in process.records if r.name == name} for name in process.names()}
    tids = [tid for n in range(8) for tid in by_name[f"outer {n}"]]
    assert len(tids) == len(set(tids)) == 8 and process.pid not in tids
    assert {process.thread_names[tid] for tid in tids} == {f"worker {n}" for n in range(8)}
    assert all(ring["state"] in (L.RING_RETIRED, L.RING_SUPERSEDED) for ring in process.rings)


def test_many_short_threads(program: Any) -> None:
    """10,000 threads in turn: a few rings serve them all, and every record is under its own thread."""
    count = 10_000 if program.backend == "c" else 1_000
    process = program(
        """
        import sys, threading, topstx
        def work(n):
            topstx.mark("thread", payload=threading.get_native_id())
        for base in range(0, int(sys.argv[1]), 20):
            threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
            for t in threads: t.start()
            for t in threads: t.join()
        """,
        str(count),
        policy=L.POLICY_DROP,
    ).only
    marks = process.of(L.KIND_MARK)
    assert len(marks) + process.dropped == count and process.dropped == 0
    assert all(record.tid == record.payload for record in marks)
    assert len(process.rings) <= 60
    assert sum(ring["file_bytes"] for ring in process.rings) < 16 << 20


def test_more_threads_than_memory_allows(program: Any) -> None:
    process = program(
        """
        import threading, topstx
        together = threading.Barrier(40)
        def work():
            topstx.mark("thread")
            together.wait()
            with topstx.annotate("again"): pass
        threads = [threading.Thread(target=work) for _ in range(40)]
        for t in threads: t.start()
        for t in threads: t.join()
        """,
        process_max_bytes=10 * 65536,
    ).only
    assert 1 <= len(process.rings) <= 10
    assert process.header["lost_threads"] == 40 - process.names(L.KIND_MARK).count("thread")
    assert process.header["lost_records"] > 0


def test_ranges_left_open_by_ended_threads(program: Any) -> None:
    process = program("""
        import threading, topstx
        tids = []
        def leaves():
            tids.append(threading.get_native_id())
            topstx.push_range("left open")
        def clean():
            topstx.pop_range()
            topstx.push_range("closed"); topstx.pop_range()
        for f in (leaves, clean, leaves, clean):
            t = threading.Thread(target=f); t.start(); t.join()
        print(*tids)
    """).only
    assert [r.name for r in process.open] == ["left open"] * 2
    assert sorted(str(r.tid) for r in process.open) == sorted(program.stdout.split())
    assert process.names() == ["closed"] * 2 and process.unbalanced == 2
    assert all(r.depth == 0 for r in process.records)


def test_start_and_end_from_many_threads(program: Any) -> None:
    process = program("""
        import queue, threading, topstx
        todo = queue.Queue()
        def starts():
            for n in range(200): todo.put((topstx.start_range(f"r{n % 7}"), threading.get_native_id()))
        def ends():
            for n in range(200): topstx.end_range(todo.get()[0])
        threads = [threading.Thread(target=f) for f in (starts, ends) * 4]
        for t in threads: t.start()
        for t in threads: t.join()
    """).only
    ranges = process.of()
    assert len(ranges) == 800 and not process.open and process.unbalanced == 0
    starters = {r.tid for r in ranges}
    assert len(starters) == 4 and all(r.end_tid not in starters and r.end_tid for r in ranges)
