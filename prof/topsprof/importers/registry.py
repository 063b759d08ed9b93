"""The importers that exist, loaded when asked for. A new format is one file and one line here.

The order matters: the first importer that recognises a file gets it, so the strict ones stand before the
tolerant ones.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from tops_kit.errors import TraceError, UserError

if TYPE_CHECKING:
    from topsprof.importers.base import Importer, Source

IMPORTERS: dict[str, str] = {
    "nsys": "topsprof.importers.nsys:NsysImporter",
    "parquet": "topsprof.importers.tables:ParquetImporter",
    "perfetto": "topsprof.importers.perfetto:PerfettoImporter",
    "speedscope": "topsprof.importers.speedscope:SpeedscopeImporter",
    "viztracer": "topsprof.importers.viztracer:ViztracerImporter",
    "kineto": "topsprof.importers.kineto:KinetoImporter",
    "chrome": "topsprof.importers.chrome:ChromeImporter",
    "csv": "topsprof.importers.tables:CsvImporter",
    "collapsed": "topsprof.importers.collapsed:CollapsedImporter",
}


def load(name: str) -> Importer:
    """The importer called `name`. UserError when there is none."""
    module, _, attribute = IMPORTERS.get(name, "").partition(":")
    if not module:
        raise UserError(f"no importer is called {name!r}: use one of {', '.join(sorted(IMPORTERS))}")
    try:
        return cast("Importer", getattr(import_module(module), attribute)())
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(f"{name} is no part of this version of topsprof") from None


def choose(source: Source, name: str | None) -> Importer:
    """The importer called `name`, or without one that of the content. UserError when there is none."""
    chosen = None if name is None else load(name)
    if not source.head().strip() and source.head_damage:
        raise TraceError(
            f"{source.path}: {source.head_damage} before any of its content; get another copy of it"
        )
    return chosen or detect(source)


def detect(source: Source) -> Importer:
    """The importer of a file, by its content. TraceError when none recognises it."""
    head = source.head()
    if not head.strip():
        raise TraceError(f"{source.path}: the file is empty; give a trace with events in it")
    for name, place in IMPORTERS.items():
        if find_spec(place.partition(":")[0]) is None:
            continue
        importer = load(name)
        if importer.detects(head, source.path):
            return importer
    damage = f"{source.head_damage}, and what is left is " if source.head_damage else ""
    raise TraceError(
        f"{source.path}: {damage}not a trace format that is known ({', '.join(sorted(IMPORTERS))}); "
        "if you are sure of the format, name it: topsprof import -t FORMAT"
    )
