"""How ranges are called in reports: `domain:name`, and `name` in the default domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topsprof.reports.model import Source

RANGE_SQL = "CASE WHEN coalesce(domain, '') = '' THEN name ELSE domain || ':' || name END"


def range_name(domain: object, name: object) -> object:
    """What RANGE_SQL gives."""
    return f"{domain}:{name}" if domain else name


def _styled(keys: Sequence[object]) -> tuple[object, ...]:
    domain, name, style = keys
    return style, range_name(domain, name)


def _plain(keys: Sequence[object]) -> tuple[object, ...]:
    return (range_name(keys[0], keys[1]),)


def _of_style(style: str) -> Callable[[Sequence[object]], bool]:
    return lambda keys: keys[2] == style


GROUP = ("domain", "name", "style")
ALL = Source("tx", GROUP, _styled)
PUSH_POP = Source("tx", GROUP, _plain, keep=_of_style("PushPop"))
START_END = Source("tx", GROUP, _plain, keep=_of_style("StartEnd"))
