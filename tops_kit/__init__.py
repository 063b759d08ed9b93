"""TopsKit's platform: what programs run on, and the session that every tool reads.

`import tops_kit as tops` gives the kernel language: `tops.kernel`, `tops.l1`, `tops.exp`, `tops.f32`, ...
(docs/kernel-language.md). It is loaded when it is first used: tools that only want a session pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tops_kit.engine.fault import KernelFault as KernelFault
    from tops_kit.runtime.errors import LaunchError as LaunchError
    from tops_kit.runtime.kernel import Kernel as Kernel
    from tops_kit.runtime.kernel import kernel as kernel
    from tops_kit.runtime.result import Launch as Launch
    from tops_kit.topscc.diagnostics import KernelError as KernelError
    from tops_kit.topscc.language import *  # noqa: F403
    from tops_kit.topscc.python.build import ArrayType as ArrayType

# what stands in other modules than the language
_ELSEWHERE = {
    "ArrayType": "tops_kit.topscc.python.build",
    "Kernel": "tops_kit.runtime.kernel",
    "KernelError": "tops_kit.topscc.diagnostics",
    "KernelFault": "tops_kit.engine.fault",
    "Launch": "tops_kit.runtime.result",
    "LaunchError": "tops_kit.runtime.errors",
    "kernel": "tops_kit.runtime.kernel",
}


def __getattr__(name: str) -> Any:
    """A name of the kernel language, loaded when it is first asked for (PEP 562)."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import importlib.util

    if name in _ELSEWHERE:
        value = getattr(importlib.import_module(_ELSEWHERE[name]), name)
    elif importlib.util.find_spec(f"{__name__}.{name}") is not None:
        # `from tops_kit import session` asks for the name first, and then loads the module
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} yet: import {__name__}.{name}")
    else:
        language = importlib.import_module("tops_kit.topscc.language")
        if name not in language.__all__:
            types = importlib.import_module("tops_kit.topscc.language.types")
            hint = f": the GCU has no 64-bit types, use {types.WIDE[name]}" if name in types.WIDE else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        value = getattr(language, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from tops_kit.topscc import language

    return sorted({*globals(), *_ELSEWHERE, *language.__all__})
