"""What kernels are called in reports: by the name with parameters where the session has it, by the short one
with `:base`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topsprof.reports.model import Report, Source

NAME_SQL = "coalesce(kernel.full_name, kernel.name)::VARCHAR"
BASE_SQL = "kernel.name::VARCHAR"


def _full(keys: Sequence[object]) -> tuple[object, ...]:
    full, short, *rest = keys
    return (short if full is None else full, *rest)


FULL = Source("kernel", ("full_name", "name"), _full)
BASE = Source("kernel", ("name",))


def with_base(report: Report) -> Report:
    """A report whose SQL has NAME_SQL, with the variant `base`."""
    return replace(report, variants={"base": replace(report, sql=report.sql.replace(NAME_SQL, BASE_SQL))})
