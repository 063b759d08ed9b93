from __future__ import annotations

import re
from pathlib import Path

import pytest

from tops_kit.session.describe import describe
from tops_kit.session.schema import TABLES, Kind

pytestmark = pytest.mark.smoke


def test_the_page_on_the_format_has_the_schema_of_the_code(repo_root: Path) -> None:
    page = (repo_root / "docs" / "session-format.md").read_text(encoding="utf-8")
    match = re.search(
        r"<!-- begin: python -m tops_kit\.session\.describe -->\n(.*)<!-- end -->", page, re.DOTALL
    )
    assert match
    assert match[1].strip() == describe().strip(), (
        "run python -m tops_kit.session.describe and paste what it prints"
    )


def test_the_schema_is_sound() -> None:
    for name, table in TABLES.items():
        assert name == table.name
        assert len(set(table.column_names)) == len(table.columns)
        for column in table.columns:
            assert column.type in ("int64", "int32", "uint32", "uint8", "float64", "bool", "text", "name")
            assert column.comment
            if column.name.endswith("_ns"):
                assert column.type == "int64"
        for used in (*table.track, *(column for group in table.summary for column in group)):
            assert table.column(used)
        if table.summary:
            assert all(table.column(value) for value in table.values)
        if table.kind is not Kind.PLAIN:
            assert table.column("start_ns")
            assert table.track
