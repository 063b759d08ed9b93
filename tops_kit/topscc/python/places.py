"""Places in a source as diagnostics give them: characters, where Python's ast counts bytes."""

from __future__ import annotations

import ast
from typing import TypeAlias

from tops_kit.isa.program import SourceFile
from tops_kit.topscc.diagnostics import Where

Placed: TypeAlias = ast.expr | ast.stmt | ast.arg | ast.keyword | ast.ExceptHandler | ast.pattern


class Places:
    """Places of one function's nodes."""

    def __init__(self, file: SourceFile, function: str) -> None:
        self.file = file
        self.function = function
        # as Python's parser counts lines: a form feed or a Unicode line separator ends none
        self._lines = file.text.split("\n")

    def of(self, node: Placed, parent: Where | None) -> Where:
        """The whole of a node; `parent` is the call through which its function was inlined."""
        end_line = node.end_lineno or node.lineno
        end = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return self._where(node.lineno, node.col_offset, end_line, end, parent)

    def head(self, node: ast.stmt, last: Placed, parent: Where | None) -> Where:
        """A compound statement up to the end of `last`: `for i in range(n)` without its body."""
        return self._where(
            node.lineno, node.col_offset, last.end_lineno or last.lineno, last.end_col_offset or 0, parent
        )

    def _where(self, line: int, start: int, end_line: int, end: int, parent: Where | None) -> Where:
        return Where(
            self.file,
            line,
            self._characters(line, start),
            end_line,
            self._characters(end_line, end),
            parent,
            self.function,
        )

    def _characters(self, line: int, byte: int) -> int:
        index = line - self.file.first_line
        text = self._lines[index] if 0 <= index < len(self._lines) else ""
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))
