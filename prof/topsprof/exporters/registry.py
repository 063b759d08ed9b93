"""The exporters that exist, loaded when asked for. A new format is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from tops_kit.errors import UserError

if TYPE_CHECKING:
    from topsprof.exporters.base import Exporter

EXPORTERS: dict[str, str] = {
    "chrome": "topsprof.exporters.chrome:ChromeExporter",
    "perfetto": "topsprof.exporters.perfetto:PerfettoExporter",
    "speedscope": "topsprof.exporters.speedscope:SpeedscopeExporter",
    "collapsed": "topsprof.exporters.collapsed:CollapsedExporter",
    "pprof": "topsprof.exporters.pprof:PprofExporter",
    "csv": "topsprof.exporters.tables:CsvExporter",
    "parquet": "topsprof.exporters.tables:ParquetExporter",
    "sqlite": "topsprof.exporters.sqlite:SqliteExporter",
}
"""Name -> "module:class", in the order in which help lists them."""

ALIASES: dict[str, str] = {
    "json": "chrome",
    "kineto": "chrome",
    "pftrace": "perfetto",
    "flamegraph": "collapsed",
    "parquetdir": "parquet",
    "csvdir": "csv",
}
"""Other spellings, among them nsys's."""


def load(name: str) -> Exporter:
    """The exporter called `name`. UserError, listing them all, when there is none."""
    try:
        module, _, attribute = EXPORTERS[ALIASES.get(name, name)].partition(":")
    except KeyError:
        raise UserError(f"export: unknown type '{name}'; one of {', '.join(EXPORTERS)}") from None
    return cast("Exporter", getattr(import_module(module), attribute)())
