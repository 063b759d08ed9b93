"""What `annotate` decorates that is no plain function: generator, coroutine and async generator functions,
with one range from the first step to the end of each call; methods and partials of them; classes.

The wrappers are functions of the same kind, so `inspect` and frameworks see what they expect. Each call
enters a range object of its own, which closes what it opened however calls interleave.
"""

from __future__ import annotations

import functools

TYPE_CHECKING = False  # `typing` and `inspect` are too heavy for what decorates at import
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any

    from topstx.recorder.interface import Annotate

# Of code objects; `inspect` has them too.
CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200


def wrap(func: Callable[..., Any], make: Callable[[], Annotate], each: Annotate) -> Callable[..., Any] | None:
    """`func` with a range around each call, of its own by `make()`; None: it is to be wrapped as a plain
    function is. `each` decorates, under the same message, what belongs to a class.
    """
    if isinstance(func, type):
        return _class(func, each)
    flags = _code_flags(func)
    if flags & CO_ASYNC_GENERATOR:
        return _async_generator(func, make)
    if flags & CO_COROUTINE:
        return _coroutine(func, make)
    if flags & CO_GENERATOR:
        return _generator(func, make, flags & CO_ITERABLE_COROUTINE)
    return None


def _code_flags(func: Any) -> int:
    """`co_flags` of the function that a call of `func` ends in; 0 when that is none of Python's."""
    while True:
        if isinstance(func, functools.partial):
            func = func.func
        elif type(func).__name__ == "method":
            func = func.__func__
        else:
            break
    return func.__code__.co_flags if type(func).__name__ == "function" else 0


def _class(cls: type[Any], each: Annotate) -> type[Any] | None:
    """The class itself, with a range around the making of its objects: its __init__, else its __new__.

    A class without either runs no code that could be measured. None: it can't be changed.
    """
    made: Any = cls
    try:
        if made.__init__ is not object.__init__:
            made.__init__ = each(made.__init__)
        elif made.__new__ is not object.__new__:
            made.__new__ = staticmethod(each(made.__new__))
    except TypeError:  # a class of the interpreter
        return None
    return cls


def _generator(func: Callable[..., Any], make: Callable[[], Annotate], iterable: int) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with make():
            return (yield from func(*args, **kwargs))

    made: Any = wrapper  # what types.coroutine decorated stays awaitable
    made.__code__ = made.__code__.replace(co_flags=made.__code__.co_flags | iterable)
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
