"""The table and what is made from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tops_kit.isa import faults, reference
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.table import INSTRUCTIONS, MAX_OPERANDS, OPCODES


@pytest.mark.smoke
def test_the_committed_page_is_current(repo_root: Path):
    committed = (repo_root / "docs" / "gcu-instructions.md").read_text(encoding="utf-8")
    assert committed == reference.page(), "run: python -m tops_kit.isa.reference docs/gcu-instructions.md"


def test_every_instruction_is_on_the_page():
    page = reference.page()
    for instruction in INSTRUCTIONS:
        assert f"| {OPCODES[instruction.name]} | `{instruction.name}` |" in page


def test_the_command_writes_the_page(tmp_path):
    assert reference.main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == reference.page()


def test_operands_fit_an_instruction():
    assert len(OPCODES) == len(INSTRUCTIONS)
    for instruction in INSTRUCTIONS:
        operands = instruction.operands
        assert len(operands) <= MAX_OPERANDS
        assert len({operand.name for operand in operands}) == len(operands)
        for operand in operands:
            assert operand.role in "><+#" and operand.kind in "rtvilbgs"
            assert (operand.role == "#") == (operand.kind in "ilbgs")
        assert instruction.unit in "SVMDY"
        assert instruction.text and instruction.group


def test_fault_numbers_are_those_of_the_machine(repo_root: Path):
    text = (repo_root / "tops_kit" / "engine" / "machine.h").read_text(encoding="utf-8")
    block = re.sub(r"/\*.*?\*/", "", text[text.index("FAULT_NONE") :].split("}")[0], flags=re.S)
    numbers, number = {}, 0
    for entry in block.split(","):
        name, _, value = entry.partition("=")
        number = int(value) if value.strip() else number
        numbers[name.strip().removeprefix("FAULT_").lower().replace("_", "-")] = number
        number += 1
    assert numbers.pop("none") == 0
    assert numbers == {kind.name: kind.number for kind in faults.FAULTS}


def test_type_codes_are_those_of_the_machine(repo_root: Path):
    text = (repo_root / "tops_kit" / "engine" / "machine.h").read_text(encoding="utf-8")
    (names,) = re.findall(r"enum \{ (DT_F32.*?), DT_COUNT \}", text)
    assert [name.strip().removeprefix("DT_").lower() for name in names.split(",")] == [d.name for d in DTYPES]
    assert [dtype.code for dtype in DTYPES] == list(range(len(DTYPES)))
