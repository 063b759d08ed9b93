"""The corpus of kernels: tests/corpus/bad with the lines that are to be blamed, tests/corpus/good without.

A file has `kernel` and `launch(kernel)`, which launches it on small arguments. Comments mark what is
expected: `# fault: KIND` the line that a finding names (KIND as in isa/faults.py, or `compile` where the
compiler has to refuse it), `# other` a line that it names as the second access.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.findings import Report
from tops_kit.topscc.diagnostics import KernelError

CORPUS = Path(__file__).parent.parent / "corpus"
_FAULT = re.compile(r"# fault: ([\w-]+)")
_OTHER = re.compile(r"# other\b")

Marks = set[tuple[str, int]]  # kind and line


@dataclass(frozen=True)
class CorpusFile:
    """One kernel of the corpus, with what its comments expect."""

    path: Path
    faults: Marks
    others: set[int]

    @staticmethod
    def of(path: Path) -> CorpusFile:
        """Read the marks."""
        lines = list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
        faults = {(m[1], n) for n, line in lines for m in _FAULT.finditer(line)}
        return CorpusFile(path, faults, {n for n, line in lines if _OTHER.search(line)})

    def module(self) -> Any:
        """The file as a module."""
        name = f"corpus_{self.path.parent.name}_{self.path.stem}"
        spec = importlib.util.spec_from_file_location(name, self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def launch(self, **options: Any) -> tuple[Marks, Report]:
        """Launch it: what is blamed, and the report."""
        module = self.module()
        try:
            result = module.launch(module.kernel.options(mode="sanitized", quiet=True, **options))
        except KernelError as refused:
            return {("compile", refused.where.line)}, Report()
        except KernelFault as fault:
            assert fault.report is not None
            report = fault.report
        else:
            report = result.result.faults
        return {(finding.kind, finding.line) for finding in report}, report


def files(folder: str) -> list[CorpusFile]:
    """The files of "bad" or "good"."""
    return [CorpusFile.of(path) for path in sorted((CORPUS / folder).glob("*.py"))]
