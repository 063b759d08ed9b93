"""A small program with annotations: words are read by threads, counted, ranked, and served by asyncio tasks.

    topsprof run --stats -- python first_profile.py

Run without topsprof (or without topstx installed) it does the same work, and prints the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections import Counter
from queue import Queue

try:
    import topstx
except ImportError:  # the program works without it: annotations that do nothing
    import types
    from contextlib import nullcontext

    class _Nothing(nullcontext):
        def __call__(self, function):
            return function

    topstx = types.SimpleNamespace(
        annotate=lambda *a, **k: _Nothing(),
        mark=lambda *a, **k: None,
        start_range=lambda *a, **k: 0,
        end_range=lambda *a: None,
        set_thread_name=lambda *a: None,
        counter=lambda *a, **k: types.SimpleNamespace(sample=lambda value: None),
        get_domain=lambda name: types.SimpleNamespace(
            annotate=lambda *a, **k: _Nothing(), push_range=lambda *a, **k: None, pop_range=lambda: None
        ),
    )

READERS = 3
DOCUMENTS = 36
WORDS = 40_000
REQUESTS = 12

text = topstx.get_domain("text")
waiting = topstx.counter("documents waiting", "documents")


@topstx.annotate()
def make_document(seed: int) -> list[str]:
    """A document of random words, the same for the same seed."""
    draw = random.Random(seed)
    return [f"w{int(draw.paretovariate(0.9)) % 997}" for _ in range(WORDS)]


def read(number: int, todo: Queue[int | None], done: Queue[Counter[str]]) -> None:
    """A thread: takes seeds until None comes, hands back each document's word counts."""
    topstx.set_thread_name(f"reader {number}")
    while (seed := todo.get()) is not None:
        with text.annotate("document", category="io", payload=seed):
            words = make_document(seed)
            text.push_range("count", color="orange")
            counts = Counter(words)
            text.pop_range()
        waiting.sample(todo.qsize())
        done.put(counts)


@topstx.annotate("merge", color="green")
def merge(parts: list[Counter[str]]) -> Counter[str]:
    """All counts together."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


@topstx.annotate()
def ranked(total: Counter[str]):
    """Words by frequency, one at a time."""
    yield from sorted(total.items(), key=lambda item: (-item[1], item[0]))


@topstx.annotate("request", color="purple")
async def answer(number: int, words: list[str]) -> str:
    """One request: looks, waits, looks again. Requests run side by side."""
    digest = hashlib.sha256()
    for word in words[number::REQUESTS]:
        with topstx.annotate("look up"):
            for _ in range(40):
                digest.update(word.encode())
        if len(word) % 4 == 0:
            await asyncio.sleep(0.001)
    if number == REQUESTS - 1:
        raise LookupError("no such request")  # its range is marked as left by an error
    return digest.hexdigest()


async def serve(words: list[str]) -> list[str | BaseException]:
    """All requests at once."""
    return await asyncio.gather(*(answer(n, words) for n in range(REQUESTS)), return_exceptions=True)


def main() -> None:
    topstx.set_thread_name("main")
    whole = topstx.start_range("whole program")
    todo: Queue[int | None] = Queue()
    done: Queue[Counter[str]] = Queue()
    with topstx.annotate("read", payload={"documents": DOCUMENTS, "threads": READERS}):
        for seed in [*range(DOCUMENTS), *[None] * READERS]:
            todo.put(seed)
        readers = [threading.Thread(target=read, args=(n, todo, done)) for n in range(READERS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    topstx.mark("all documents read", color="red")
    total = merge([done.get() for _ in range(DOCUMENTS)])
    words = [word for word, _ in ranked(total)]
    with topstx.annotate("serve"):
        answers = asyncio.run(serve(words[:240]))
    topstx.end_range(whole)
    failed = sum(isinstance(found, BaseException) for found in answers)
    print(f"{sum(total.values())} words, {len(total)} different")
    print(f"{REQUESTS - failed} requests answered, {failed} failed")


if __name__ == "__main__":
    main()
