"""The C that is made from the instruction table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tops_kit.engine import generate, machine_bodies
from tops_kit.engine.c_engine import CEngine
from tops_kit.isa.table import INSTRUCTIONS, TABLE_VERSION, Instruction

pytestmark = pytest.mark.smoke


def test_every_instruction_has_a_body() -> None:
    text = generate.bodies()
    assert re.findall(r"^OP\((\w+)\) \{$", text, re.MULTILINE) == [x.name for x in INSTRUCTIONS]
    assert text.count("{") == text.count("}")


def test_a_body_reads_as_the_table_says() -> None:
    text = machine_bodies.body(next(x for x in INSTRUCTIONS if x.name == "tfma"))
    assert (
        text
        == """\
/* a * b + c by elements, rounded once */
OP(tfma) {
    tile *const d = T(0);
    const tile *a = T(1);
    const tile *b = T(2);
    const tile *c = T(3);
    SEPARATE(a, d);
    SEPARATE(b, d);
    SEPARATE(c, d);
    const tile *const sources[] = {a, b, c};
    CHECK_SOURCES(tk_shape_broadcast(d, 3, sources), SOURCES_ALIKE, d, a, b, c);
    HOOK_VIEW_READ(a);
    HOOK_VIEW_READ(b);
    HOOK_VIEW_READ(c);
    HOOK_VIEW_WRITE(d);
    CHECK_SOURCES(tk_fma(d, a, b, c), SOURCES_ALIKE, d, a, b, c);
    WORK(tile_bytes(d));
    HOOK_TILE_EVENT(EV_VECTOR, groups(d), 2 * elements(d), d, a, b, c);
    NEXT;
}"""
    )


def test_what_nothing_states_is_refused() -> None:
    with pytest.raises(ValueError, match="tnew has no body"):
        machine_bodies.body(Instruction("tnew", ">t d, <t a", "V", "new", group="tile"))


def test_files_that_stay_the_same_are_left_alone(tmp_path: Path) -> None:
    paths = generate.write(tmp_path / "new")
    before = [path.stat().st_mtime_ns for path in paths]
    paths[0].write_text("old", encoding="utf-8")
    assert generate.write(tmp_path / "new") == paths
    assert paths[1].stat().st_mtime_ns == before[1]
    assert paths[0].read_text(encoding="utf-8") == generate.bodies()


def test_the_machine_was_made_from_this_table(c_engine: CEngine) -> None:
    assert (TABLE_VERSION, len(INSTRUCTIONS)) == (c_engine.module.TABLE_VERSION, c_engine.module.OPCODES)
