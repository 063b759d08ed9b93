"""Programs whose parts take known shares of their time: each says itself how long every part took.

A part reads the clock where it begins and where it ends, so its true share does not depend on how fast the
machine was. Which share it is to have is set by the lengths of its work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_PRELUDE = """
import asyncio, hashlib, json, random, sys, threading, time, zlib
clock, random = time.perf_counter_ns, random.Random(7)
until = time.perf_counter() + float(sys.argv[1])
spent = {}

def turns(ms):
    # how many turns of the parts' loops take so long, about
    return max(1, int(ms * PER_MS))

def calibrate():
    best = 0
    for _ in range(5):
        begin, i = clock(), 0
        while i < 20000: i += 1
        best = max(best, 20000 * 1e6 / (clock() - begin))
    return best
PER_MS = calibrate()

def part(name, taken):
    spent[name] = spent.get(name, 0) + taken
"""
_EPILOGUE = """
print("TRUTH", json.dumps(spent))
print("BENCH", time.process_time())
"""


def _function(name: str, now: str = "clock") -> str:
    return f"""
def {name}(n):
    begin, i = {now}(), 0
    while i < n: i += 1
    part("{name}", {now}() - begin)
"""


_FUNCTIONS = (
    "".join(map(_function, ("half", "third", "sixth", "rest")))
    + """
while time.perf_counter() < until:
    half(turns(random.uniform(0.5, 9.5)))
    third(turns(random.uniform(0.5, 5.5)))
    sixth(turns(random.uniform(0.2, 2.8)))
    rest(turns(random.uniform(0.1, 0.9)))
"""
)
_SHORT = (
    "".join(map(_function, ("long", "short")))
    + """
n, m = turns(0.06), turns(0.04)
while time.perf_counter() < until:
    for _ in range(200):
        long(n)
        short(m)
"""
)
_LINES = """
def lines():
    first, second, third, fourth = (turns(random.uniform(0, most)) for most in (8, 4, 3, 1))
    i, t0 = 0, clock()
    while i < first: i += 1  # LINE first
    i, t1 = 0, clock()
    while i < second: i += 1  # LINE second
    i, t2 = 0, clock()
    while i < third: i += 1  # LINE third
    i, t3 = 0, clock()
    while i < fourth: i += 1  # LINE fourth
    t4 = clock()
    part("first", t1 - t0), part("second", t2 - t1), part("third", t3 - t2), part("fourth", t4 - t3)

while time.perf_counter() < until:
    lines()
"""
# CPU time: how long a thread waits for the GIL is no part of what it ran.
_THREADS = (
    "".join(_function(name, "time.thread_time_ns") for name in ("one_a", "one_b", "two_a", "two_b"))
    + """
def one():
    rolled = __import__("random").Random(1)
    while time.perf_counter() < until:
        one_a(turns(rolled.uniform(1, 7)))
        one_b(turns(rolled.uniform(0.5, 3.5)))

def two():
    rolled = __import__("random").Random(2)
    while time.perf_counter() < until:
        two_a(turns(rolled.uniform(0.5, 2.5)))
        two_b(turns(rolled.uniform(1, 8)))

both = [threading.Thread(target=one), threading.Thread(target=two)]
for thread in both:
    thread.start()
for thread in both:
    thread.join()
"""
)
_NATIVE = (
    _function("python")
    + """
data = random.randbytes(1 << 20)
try:
    # one thread: those of a library are no Python threads
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    __import__("os").environ.update(one)
    import numpy
    matrix = numpy.random.default_rng(1).standard_normal((160, 160))
except ImportError:
    matrix = None

def digest(size):
    begin = clock()
    hashlib.sha256(memoryview(data)[:size])
    part("digest", clock() - begin)

def compress(size):
    begin = clock()
    zlib.compress(memoryview(data)[:size], 1)
    part("compress", clock() - begin)

def multiply(times):
    begin = clock()
    for _ in range(times):
        matrix @ matrix
    part("multiply", clock() - begin)

def pause(seconds):
    begin = clock()
    time.sleep(seconds)
    part("pause", clock() - begin)

while time.perf_counter() < until:
    python(turns(random.uniform(0.5, 4)))
    digest(random.randrange(1 << 18, 1 << 20))
    compress(random.randrange(1 << 14, 1 << 17))
    if matrix is not None:
        multiply(random.randrange(2, 12))
    pause(random.uniform(0.0005, 0.004))
"""
)
_ASYNC = """
def produce():
    while True:
        n = turns(random.uniform(0.5, 3.5))
        begin, i = clock(), 0
        while i < n: i += 1
        part("produce", clock() - begin)
        yield n

async def stream():
    while time.perf_counter() < until:
        n = turns(random.uniform(0.2, 2))
        begin, i = clock(), 0
        while i < n: i += 1
        part("stream", clock() - begin)
        yield n

async def fetch(source):
    while time.perf_counter() < until:
        next(source)
        n = turns(random.uniform(1, 6))
        begin, i = clock(), 0
        while i < n: i += 1
        part("fetch", clock() - begin)
        await asyncio.sleep(0)

async def parse():
    async for _ in stream():
        n = turns(random.uniform(0.5, 2.5))
        begin, i = clock(), 0
        while i < n: i += 1
        part("parse", clock() - begin)
        await asyncio.sleep(0)

async def main():
    await asyncio.gather(fetch(produce()), fetch(produce()), parse())

asyncio.run(main())
"""
# What begins each 10 ms is always at the same place when a sampler with a whole period looks.
_TIMER = (
    "".join(map(_function, ("early", "late")))
    + """
def pause(seconds):
    begin = clock()
    time.sleep(max(0, seconds))
    part("pause", clock() - begin)

n, m, at = turns(0.45), turns(0.7), time.perf_counter()
while time.perf_counter() < until:
    early(n)
    late(m)
    at += 0.01
    pause(at - time.perf_counter())
"""
)


@dataclass(frozen=True, slots=True)
class Mix:
    """A program. `lines`: its parts are lines, else functions. `waits`: waiting is one of the parts, so what
    counts is wall time. `tools`: the peers that can tell it."""

    name: str
    about: str
    body: str
    tools: tuple[str, ...]
    lines: bool = False
    waits: bool = False

    @property
    def source(self) -> str:
        """The whole program: `python FILE SECONDS`."""
        return _PRELUDE + self.body + _EPILOGUE

    def line_names(self) -> dict[int, str]:
        """Line -> the part that it is."""
        found = {}
        for number, text in enumerate(self.source.splitlines(), 1):
            _, mark, name = text.partition("# LINE ")
            if mark:
                found[number] = name
        return found


MIXES: Final = (
    Mix(
        "functions", "four functions, of 0.1 to 10 ms", _FUNCTIONS,
        ("py-spy", "austin", "pyinstrument", "scalene", "cProfile"),
    ),
    Mix("short", "two functions, of 60 and 40 us", _SHORT, ("cProfile", "viztracer")),
    Mix("lines", "four lines of one function", _LINES, ("py-spy", "austin", "scalene"), lines=True),
    Mix("threads", "two threads that share the GIL, by CPU time", _THREADS, ("py-spy", "austin")),
    Mix(
        "native", "Python, hashlib, zlib, numpy and sleep", _NATIVE, ("py-spy", "austin", "pyinstrument"),
        waits=True,
    ),
    Mix("async", "coroutines, a generator, an async generator", _ASYNC, ("py-spy", "austin", "pyinstrument")),
    Mix("timer", "a timer of 10 ms", _TIMER, ("py-spy", "austin", "pyinstrument"), waits=True),
)  # fmt: skip
