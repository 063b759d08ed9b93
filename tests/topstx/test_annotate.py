"""annotate: as a context manager and as a decorator of every kind of function."""

from __future__ import annotations

from typing import Any

import pytest
from topstx.recorder import layout as L


def test_errors_close_and_mark_the_range(program: Any) -> None:
    process = program("""
        import topstx
        class Mine(Exception): pass
        for error in (ValueError("x"), Mine(), KeyboardInterrupt()):
            try:
                with topstx.annotate("block"): raise error
            except BaseException as caught:
                assert caught is error
        @topstx.annotate()
        def fails(): raise OSError(5, "no")
        try: fails()
        except OSError as caught: assert caught.errno == 5
        with topstx.annotate("fine"): pass
    """).only
    assert [(r.name, r.error, r.flags) for r in process.records] == [
        ("block", "ValueError", L.FLAG_ERROR),
        ("block", "Mine", L.FLAG_ERROR),
        ("block", "KeyboardInterrupt", L.FLAG_ERROR),
        ("fails", "OSError", L.FLAG_ERROR),
        ("fine", None, 0),
    ]


@pytest.mark.smoke
def test_every_kind_of_function(program: Any) -> None:
    process = program("""
        import asyncio, inspect, pickle, copy, functools, topstx

        @topstx.annotate()
        def plain(a, b=2, *, c=3) -> int:
            "Doc."
            return a + b + c
        assert plain(1) == 6 and plain(1, 1, c=1) == 3
        assert plain.__doc__ == "Doc." and plain.__name__ == "plain"
        assert str(inspect.signature(plain)) == "(a, b=2, *, c=3) -> int"
        assert plain.__wrapped__(1) == 6 and plain.__module__ == "__main__"
        plain.extra = 5
        assert plain.extra == 5 and copy.copy(plain) is plain
        try: plain()
        except TypeError: pass

        class K:
            @topstx.annotate()
            def method(self): return self
            @topstx.annotate()
            @staticmethod
            def outer_static(x): return x
            @staticmethod
            @topstx.annotate()
            def inner_static(x): return x
            @topstx.annotate()
            @classmethod
            def outer_class(cls): return cls
            @classmethod
            @topstx.annotate()
            def inner_class(cls): return cls
            @property
            @topstx.annotate()
            def value(self): return 7
        k = K()
        assert k.method() is k and K.method(k) is k and k.outer_static(1) == K.inner_static(1) == 1
        assert k.outer_class() is K.inner_class() is K and k.value == 7
        bound = k.method
        assert bound() is k and bound.__self__ is k

        @topstx.annotate("generator")
        def generator(n):
            got = []
            try:
                while n:
                    got.append((yield n)); n -= 1
            except KeyError:
                yield "thrown"
            return got
        assert inspect.isgeneratorfunction(generator)
        g = generator(2)
        assert next(g) == 2 and g.send("s") == 1
        try: next(g)
        except StopIteration as stop: assert stop.value == ["s", None]
        g = generator(5); next(g); assert g.throw(KeyError()) == "thrown"; g.close()
        generator(3).close()                     # never begun: no range

        @topstx.annotate("coroutine")
        async def coroutine(x):
            await asyncio.sleep(0)
            return x
        assert inspect.iscoroutinefunction(coroutine) and asyncio.iscoroutinefunction(coroutine)
        assert asyncio.run(coroutine(4)) == 4

        @topstx.annotate("async generator")
        async def agen(n):
            try:
                for i in range(n):
                    got = yield i
                    if got: yield ("got", got)
            except KeyError:
                yield "thrown"
        assert inspect.isasyncgenfunction(agen)
        async def use():
            assert [x async for x in agen(3)] == [0, 1, 2]
            a = agen(3); await a.asend(None); assert await a.asend("v") == ("got", "v"); await a.aclose()
            a = agen(3); await a.asend(None); assert await a.athrow(KeyError()) == "thrown"
            try: await a.asend(None)
            except StopAsyncIteration: pass
        asyncio.run(use())
        assert functools.reduce(topstx.annotate("partial")(lambda a, b: a + b), range(4)) == 6
        try: topstx.annotate()(3)
        except TypeError: pass
        else: raise AssertionError
    """).only
    names = process.names()
    assert [
        names.count(n) for n in ("plain", "K.method", "generator", "coroutine", "async generator", "partial")
    ] == [3, 3, 2, 1, 3, 3]
    for name in ("K.outer_static", "K.inner_static", "K.outer_class", "K.inner_class", "K.value"):
        assert name in names
    errors = {r.name: r.error for r in process.records if r.error}
    assert errors == {"plain": "TypeError"}
    assert not process.open


BARE = """
    import asyncio, functools, inspect, topstx
    io = topstx.get_domain("io")
    @topstx.annotate
    def plain(a, b=2):
        "Doc."
        return a + b
    @topstx.annotate
    def generator(n): yield from range(n)
    @topstx.annotate
    async def coroutine(): return 4
    @topstx.annotate
    async def agen():
        yield 1
    @topstx.annotate
    class Made:
        def __init__(self, x): self.x = x
        @topstx.annotate
        def method(self): return self.x
        @topstx.annotate
        @staticmethod
        def static(): return 5
        @topstx.annotate
        @classmethod
        def of_class(cls): return cls
    @topstx.annotate
    @topstx.annotate
    def twice(): pass
    @topstx.annotate
    @functools.cache
    def cached(): return 6
    @io.annotate
    def read(): return 7
    class Sub(topstx.annotate): pass
    @Sub
    def by_sub(): return 8
    assert plain(1) == 3 and plain.__doc__ == "Doc." and list(generator(2)) == [0, 1]
    assert inspect.isgeneratorfunction(generator) and inspect.iscoroutinefunction(coroutine)
    assert asyncio.run(coroutine()) == 4 and isinstance(Made, type)
    async def use():
        assert [x async for x in agen()] == [1]
    asyncio.run(use())
    assert Made(3).method() == 3 and Made.static() == 5 and Made.of_class() is Made
    twice()
    assert cached() == 6 and read() == 7 and by_sub() == 8
    class Model:
        def __call__(self): raise AssertionError
        def __repr__(self): return "a model"
    with topstx.annotate(Model()): pass
    with topstx.annotate(plain, color="red"): pass
    with io.annotate(functools.partial(plain, 1)): pass
    with topstx.annotate(5): pass
"""


def test_without_parentheses(program: Any) -> None:
    process = program(BARE).only
    names = process.names()
    named = ["plain", "generator", "coroutine", "agen", "Made.method", "Made.static", "Made.of_class"]
    for name in [*named, "Made", "cached", "read", "by_sub", "a model", "5"]:
        assert names.count(name) == 1, name
    assert names.count("twice") == 2 and len(names) == len(named) + 10
    assert {record.domain for record in process.records if record.name == "read"} == {"io"}
    assert not process.open and process.unbalanced == 0


def test_without_parentheses_while_off(program: Any) -> None:
    program.create()
    is_same = "\n    def f(): pass\n    assert topstx.annotate(f) is f and io.annotate(f) is f\n"
    with program.start(BARE + is_same, env={"TOPSTX_DISABLE": "1"}) as process:
        assert process.communicate(timeout=60)[1] == ""


def test_generators_interleave(program: Any) -> None:
    process = program("""
        import topstx
        @topstx.annotate()
        def numbers(label, n):
            with topstx.annotate(label):
                yield from range(n)
        a, b = numbers("a", 3), numbers("b", 2)
        topstx.push_range("outer")
        for pair in zip(a, b): topstx.mark("step")
        topstx.pop_range()                  # outer, while both generators are open
        del a, b
    """).only
    assert sorted(process.names()) == ["a", "b", "numbers", "numbers", "outer"]
    assert not process.open and process.unbalanced == 0


@pytest.mark.smoke
def test_objects_may_be_kept_reused_and_shared(program: Any) -> None:
    process = program("""
        import contextlib, pickle, copy, threading, topstx
        kept = topstx.annotate("kept", payload=1)
        for _ in range(3):
            with kept: pass
        def recursive(n):
            with kept:
                if n: recursive(n - 1)
        recursive(4)
        with contextlib.ExitStack() as stack:
            for n in range(5): stack.enter_context(topstx.annotate(f"stack {n}"))
        @contextlib.contextmanager
        def manager():
            with topstx.annotate("managed"): yield
        with manager(): pass
        twin = pickle.loads(pickle.dumps(topstx.annotate("p", "red", "d", "c", {"x": 1})))
        with twin: pass
        with copy.copy(kept): pass
        class Sub(topstx.annotate):
            def __enter__(self):
                topstx.mark("sub")
                return super().__enter__()
        with Sub("sub range", color="blue"): pass
        barrier = threading.Barrier(4)
        def shared():
            with kept:
                barrier.wait()
                with topstx.annotate("own"): pass
                barrier.wait()
        threads = [threading.Thread(target=shared) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert isinstance(topstx.annotate("x"), topstx.annotate)
        late = topstx.annotate("crossed"); late.__enter__()
        t = threading.Thread(target=late.__exit__, args=(None, None, None)); t.start(); t.join()
        late.__exit__(None, None, None)
        held = [topstx.annotate(f"held {n}") for n in range(600)]
        for h in held: h.__enter__()
        for h in held: h.__exit__(None, None, None)
    """).only
    names = process.names()
    assert names.count("kept") == 3 + 5 + 1 + 4 and names.count("own") == 4
    assert [n for n in names if n.startswith("stack")] == [f"stack {n}" for n in (4, 3, 2, 1, 0)]
    assert [n for n in names if n.startswith("held")] == [f"held {n}" for n in range(600)]
    (pickled,) = [r for r in process.records if r.name == "p"]
    assert (pickled.domain, pickled.category, pickled.payload, pickled.color) == (
        "d",
        (1, "c"),
        {"x": 1},
        0xFFFF0000,
    )
    (crossed,) = [r for r in process.records if r.name == "crossed"]
    assert crossed.tid == process.pid and crossed.end_tid not in (None, process.pid)
    own = [r for r in process.records if r.name == "own"]
    kept = [r for r in process.records if r.name == "kept" and r.tid != process.pid]
    assert {r.tid for r in own} == {r.tid for r in kept} and all(r.depth == 1 for r in own)
    assert "managed" in names and not process.open and process.unbalanced == 0


def test_payloads_are_not_kept_alive(c_program: Any) -> None:
    c_program("""
        import gc, weakref, topstx
        class Value(dict): pass
        value = Value(a=1)
        gone = weakref.ref(value)
        with topstx.annotate("a", payload=value): pass
        with topstx.annotate("b"): pass
        del value
        assert gone() is None
        @topstx.annotate()
        def f(): pass
        f.me = f
        gone = weakref.ref(f)
        del f
        gc.collect()
        assert gone() is None
    """)


def test_a_stacked_decorator_and_recursion(program: Any) -> None:
    process = program("""
        import topstx
        @topstx.annotate("outer")
        @topstx.annotate("inner", domain="d", payload=2)
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        assert fib(10) == 55
    """).only
    assert process.names().count("outer") == process.names().count("inner") == 177
    assert max(r.depth for r in process.records) == 19


def test_a_decorated_class_stays_the_class(program: Any) -> None:
    """The making of its objects is the range; isinstance, subclasses and pickle see the class itself."""
    process = program("""
        import pickle, topstx
        class Init:
            def __init__(self, x): self.x = x
        original = Init
        Init = topstx.annotate(color="red")(Init)
        assert Init is original and Init(3).x == 3 and pickle.loads(pickle.dumps(Init(4))).x == 4
        @topstx.annotate("new")
        class New:
            def __new__(cls, *args): return super().__new__(cls)
        @topstx.annotate()
        class Sub(Init): pass
        assert isinstance(Sub(5), Init) and Sub(6).x == 6 and isinstance(New(1, 2), New)
        @topstx.annotate()
        class Bare: pass
        Bare()
        assert topstx.annotate("builtin")(list)("ab") == ["a", "b"]
    """).only
    names = [r.name for r in process.records]
    assert names == ["Init", "Init", *["Init", "Sub"] * 2, "new", "builtin"]


def test_methods_and_partials_of_coroutine_functions(program: Any) -> None:
    """The range lasts as long as the coroutine runs, not as long as it takes to make it."""
    process = program("""
        import asyncio, functools, inspect, topstx
        class K:
            async def work(self, n):
                topstx.mark("within")
                return n
            def steps(self): yield topstx.mark("within")
        bound = topstx.annotate("bound")(K().work)
        part = topstx.annotate("part")(functools.partial(K().work, 2))
        assert inspect.iscoroutinefunction(bound)
        assert asyncio.run(bound(1)) == 1 and asyncio.run(part()) == 2
        assert list(topstx.annotate("steps")(K().steps)()) == [None]
    """).only
    kinds = [(r.name, r.depth) for r in process.records if r.kind in {L.KIND_RANGE, L.KIND_MARK}]
    assert kinds == [(n, d) for name in ("bound", "part", "steps") for n, d in (("within", 1), (name, 0))]


def test_objects_whose_own_methods_raise(program: Any) -> None:
    process = program("""
        import topstx
        class Hash:
            def __hash__(self): raise ValueError
            def __str__(self): return "name"
        class Equal:
            def __hash__(self): return hash("name")
            def __eq__(self, other): raise RuntimeError
            def __str__(self): return "name"
        class Text:
            def __str__(self): raise OSError
            __repr__ = __str__
        for bad in Hash(), Equal():
            topstx.push_range(bad); topstx.pop_range()
            topstx.mark(bad, color=bad, category=bad, domain=bad)
            with topstx.annotate(bad): pass
            topstx.counter("c").sample(bad)
        topstx.mark(Text(), payload={1: Text()}, domain=Text())
    """).only
    assert [r.name for r in process.records] == ["name"] * 6 + ["<unprintable Text>"]


INTERRUPTED = """
        import signal, topstx
        class Slow:
            def __repr__(self):
                signal.raise_signal(signal.SIGTERM)
                return "slow"
        def handler(*_): raise SystemExit(7)
        signal.signal(signal.SIGTERM, handler)
        slow, payload = Slow(), {"x": Slow()}
        @topstx.annotate(payload=payload)
        def decorated(): raise AssertionError("called")
        def block():
            with topstx.annotate("with", payload=payload): raise AssertionError("entered")
        calls = [
            lambda: topstx.push_range("push", payload=payload), lambda: topstx.mark("mark", payload=slow),
            lambda: topstx.start_range("start", payload=payload), decorated, block,
        ]
        for call in calls:
            try: call()
            except SystemExit as error: assert error.code == 7
            else: raise AssertionError("the exit was swallowed")
        topstx.mark("after")
        topstx.mark(payload=payload)
"""


def test_what_interrupts_a_call_reaches_the_program(program: Any) -> None:
    """Ctrl-C, or the SystemExit of a SIGTERM handler, may come while we look at a payload."""
    process = program(INTERRUPTED, expect=7).only
    assert "after" in process.names(L.KIND_MARK) and {r.name for r in process.open} <= {"push"}
