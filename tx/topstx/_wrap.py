"""Decorated generator, coroutine and async generator functions: one range from the first step to the end of
each call.

The wrappers are functions of the same kind, so `inspect` and frameworks see what they expect. Each call
enters a range object of its own, which closes what it opened however calls interleave.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from typing import Any

from topstx.recorder.interface import Annotate


def wrap(func: Callable[..., Any], make: Callable[[], Annotate]) -> Callable[..., Any]:
    """`func`, a generator, coroutine or async generator function; a range of `make()` is around each call."""
    flags = func.__code__.co_flags
    if flags & CO_ASYNC_GENERATOR:
        return _async_generator(func, make)
    if flags & CO_COROUTINE:
        return _coroutine(func, make)
    return _generator(func, make)


def _generator(func: Callable[..., Any], make: Callable[[], Annotate]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with make():
            return (yield from func(*args, **kwargs))

    made: Any = wrapper  # what types.coroutine decorated stays awaitable
    made.__code__ = made.__code__.replace(
        co_flags=made.__code__.co_flags | (func.__code__.co_flags & CO_ITERABLE_COROUTINE)
    )
    return wrapper


def _coroutine(func: Callable[..., Any], make: Callable[[], Annotate]) -> Callable[..., Any]:
    @functools.wraps(func)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with make():
            return await func(*args, **kwargs)

    return wrapper


def _async_generator(func: Callable[..., Any], make: Callable[[], Annotate]) -> Callable[..., Any]:
    @functools.wraps(func)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        source = func(*args, **kwargs)
        with make():
            try:
                item = await source.asend(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await source.aclose()
                        raise
                    except BaseException as error:  # thrown in by the caller: it is the source's to handle
                        item = await source.athrow(error)
                    else:
                        item = await source.asend(sent)
            except StopAsyncIteration:
                return

    return wrapper
