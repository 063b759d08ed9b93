"""What reports read: a session, or the part of it that filters leave.

Groupings come from the session's summaries and load neither DuckDB nor pandas. All else is SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tops_kit.errors import UserError
from tops_kit.session.schema import TABLES, Kind
from topsprof.reports.filters import Window, intersect, merge, parse_time_range, parse_tx
from topsprof.reports.model import Row
from topsprof.reports.shapes import Group

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa

    from tops_kit.session import Session, Windows

_FEW_WINDOWS = 4
_BATCH_ROWS = 10_000


@dataclass(frozen=True, order=True, slots=True)
class Device:
    """A simulated device. `slice` is empty for a whole one; `heading` says what its times are modelled on."""

    number: int
    name: str
    slice: str
    heading: str


class Data:
    """A session as reports see it. `windows` are disjoint, in order; None: everything."""

    def __init__(self, session: Session, windows: tuple[Window, ...] | None = None) -> None:
        self.session = session
        self.windows = windows

    @classmethod
    def filtered(cls, session: Session, time: str | None = None, tx: str | None = None) -> Data:
        """The part of a session that `--filter-time` and `--filter-tx` leave: what overlaps both. Raises
        UserError."""
        data = cls(session)
        if time is not None:
            data.windows = (parse_time_range(time, data.origin_ns),)
        if tx is not None:
            found = Data(session)._tx_windows(tx)
            data.windows = found if data.windows is None else intersect(data.windows, found)
        return data

    @property
    def origin_ns(self) -> int:
        """The session's start: what times of reports count from."""
        return int(self.session.start_ns or 0)

    @cached_property
    def tables(self) -> dict[str, int]:
        """Stored rows per table of the whole session, filters aside; tables without rows are left out."""
        # not Session.tables(): that reads the tables of processes and devices to merge their rows
        counts = {name: sum(segment.rows for segment in self.session.segments(name)) for name in TABLES}
        return {name: rows for name, rows in counts.items() if rows}

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The simulated devices that the session's programs used, in order of their numbers."""
        if not self.tables.get("device"):
            return ()
        import json

        names = ["device_id", "name", "part", "slice", "properties"]
        found = self.session.table("device", names)
        devices: dict[Device, None] = {}
        for number, name, part, slice_, text in zip(*(c.to_pylist() for c in found.columns), strict=True):
            if part is None:  # of another tool's trace
                continue
            try:
                properties = json.loads(text or "{}")
                heading = properties.get("heading", "")
            except (ValueError, AttributeError):
                heading = ""
            device = Device(-1 if number is None else number, name or part, slice_ or "", str(heading))
            devices[device] = None
        return tuple(sorted(devices))

    def groups(self, table: str, group: tuple[str, ...], value: str) -> Iterator[Group]:
        """Exact statistics of `value` per group of `table`; rows without a value do not count."""
        if not self.tables.get(table):
            return
        # no SQL here: without DuckDB the process starts in half the time
        stored = self.session.summary(table, group, value, self._selection())
        columns = [
            stored.column(name).to_pylist()
            for name in ("count", "total", "min", "max", "median", "stddev", *group)
        ]
        for count, total, low, high, median, deviation, *values in zip(*columns, strict=True):
            if count:
                yield Group(tuple(values), count, int(total), int(low), int(high), median, deviation or 0.0)

    def _selection(self) -> Windows | None:
        from tops_kit.session import Windows

        return None if self.windows is None else Windows(self.windows)

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """SQL over the whole session, read-only."""
        return self.session.sql_connection()

    def query(self, sql: str) -> Iterator[Row]:
        """Run a report's SQL: `{table}` is a filtered table, `{origin}` the session's start. Rows come in
        batches."""
        cursor = self.connection.execute(self.expand(sql))
        while rows := cursor.fetchmany(_BATCH_ROWS):
            yield from rows

    def arrays(self, sql: str) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        """The result of a report's SQL as numpy arrays; a column with nulls is a masked array."""
        result = self.connection.execute(self.expand(sql)).fetchnumpy()
        return cast("dict[str, np.ndarray[Any, np.dtype[Any]]]", result)

    def arrow(self, sql: str) -> pa.Table:
        """The result of a report's SQL as an Arrow table: for many rows with texts."""
        import warnings

        result: Any = self.connection.execute(self.expand(sql))
        # called fetch_arrow_table before DuckDB 1.4
        read = getattr(result, "to_arrow_table", None) or result.fetch_arrow_table
        with warnings.catch_warnings():
            # It advises `con.sql(...)`, whose plan for our joins takes minutes.
            warnings.simplefilter("ignore", UserWarning)
            return read()

    def expand(self, sql: str) -> str:
        """The SQL that DuckDB gets for a report's SQL."""

        def replacement(match: re.Match[str]) -> str:
            word = match.group(1)
            return str(self.origin_ns) if word == "origin" else self._relation(word)

        return re.sub(r"\{(\w+)\}", replacement, sql)

    def _relation(self, table: str) -> str:
        if self.windows is None or TABLES[table].kind is Kind.PLAIN:
            return table
        # what has no length takes part as if it lasted 1 ns: then overlap is one comparison
        end = "greatest(end_ns, start_ns + 1)" if TABLES[table].kind is Kind.INTERVAL else "start_ns + 1"
        if not self.windows:
            return f"(SELECT * FROM {table} WHERE false)"
        if len(self.windows) <= _FEW_WINDOWS:
            inside = " OR ".join(f"(start_ns < {t1} AND {end} > {t0})" for t0, t1 in self.windows)
            return f"(SELECT * FROM {table} WHERE {inside})"
        return f"(SELECT * FROM {table} WHERE {self._window_function}(start_ns, {end}))"

    @cached_property
    def _window_function(self) -> str:
        """The name of an SQL function: does [start, end) overlap a window? There may be 100,000 of them."""
        import numpy as np
        import pyarrow as pa

        begins, ends = (np.array(side, np.int64) for side in zip(*(self.windows or ()), strict=True))

        def overlaps(starts: Any, stops: Any) -> Any:  # arrow arrays; DuckDB evaluates the annotations
            # windows are disjoint: only the last one that begins before an event's end can overlap it
            last = np.searchsorted(begins, stops.to_numpy(), "left") - 1
            return pa.array((last >= 0) & (ends[last] > starts.to_numpy()))

        connection: Any = self.connection  # DuckDB's stub knows neither these names of types nor "arrow"
        connection.create_function("in_filter", overlaps, ["BIGINT", "BIGINT"], "BOOLEAN", type="arrow")
        return "in_filter"

    def _tx_windows(self, text: str) -> tuple[Window, ...]:
        name, domain, index = parse_tx(text)
        found = self._instances(text, None)
        if found:  # the whole text is a name, `@` and `/` included
            index = None
        else:
            found = self._instances(name, domain)
        if not found:
            where = f" in domain '{domain}'" if domain else ""
            raise UserError(
                f"--filter-tx {text}: the session has no range '{name}'{where}; "
                "reports tx_sum and step_sum list them"
            )
        if index is not None:
            if index >= len(found):
                raise UserError(f"--filter-tx {text}: '{name}' has {len(found)} instances, numbered from 0")
            found = found[index : index + 1]
        return merge(found)

    def _instances(self, name: str, domain: str | None) -> Sequence[Window]:
        """Of a range, and of the step of that name: importers put `ProfilerStep#4` into table step."""
        from tops_kit.session import Filter, Selection

        named = Selection(filters=(Filter("name", "=", name),))
        steps: list[Window] = []
        if domain is None and self.tables.get("step"):  # steps are of no domain
            step = self.session.table("step", ["start_ns", "end_ns"], named)
            steps = list(zip(*(column.to_pylist() for column in step.columns), strict=True))
        found = self.session.table("tx", ["start_ns", "end_ns", "domain", "style"], named)
        if domain == "default":
            domain = ""
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        return sorted(
            steps
            + [
                (start, end)
                for start, end, own, style in rows
                if style != "Mark" and (domain is None or (own or "") == domain)
            ]
        )
