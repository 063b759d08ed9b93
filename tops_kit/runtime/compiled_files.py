"""The kernels of a compiled file (.topsbin), as commands try them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from tops_kit.gcu import Specification
from tops_kit.isa.binary import load
from tops_kit.isa.program import SourceFile
from tops_kit.runtime.examples import Examples
from tops_kit.runtime.kernel_files import FileError
from tops_kit.runtime.module import Function, Module
from tops_kit.runtime.parts import PARTS
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.language.types import PointerType
from tops_kit.topscc.python.signature import MISSING, Parameter


class CompiledKernel:
    """A kernel of a compiled file: it has neither example nor reference, and its constexprs are given."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.examples = Examples()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._function.name

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What it takes: arrays and numbers of known types."""
        program = self._function.program
        where = Where(SourceFile(self._function.module.name, "", 1), 1, 0, 1, 0)
        return tuple(
            Parameter(
                p.name, PointerType(p.dtype, p.ndim) if p.kind == "pointer" else p.dtype, MISSING, where
            )
            for p in program.parameters
        )

    def on(self, part: Specification) -> Function:
        """It on a part. Raises FileError: the file does not have it for that part."""
        programs = self._function.programs
        if part.name not in programs:
            raise FileError(
                f"{self._function.module.name} has {self.name} for {', '.join(programs)}, not for {part.name}"
            )
        return self._function.on(part)

    def parts(self) -> list[Specification]:
        """The parts that it was compiled for."""
        return [PARTS.get(arch) for arch in self._function.programs]


def compiled_kernel(path: Path, name: str | None) -> CompiledKernel:
    """A kernel of a file that topscc wrote; its only one when none is named. Raises UserError."""
    load(path)  # what is wrong with a file is told as topscc tells it
    module = Module.load(path)
    if name is None and len(module.functions) > 1:
        raise FileError(
            f"{path} has kernels {', '.join(module.functions)}: name one: {path}:{module.functions[0]}"
        )
    chosen = module.functions[0] if name is None and module.functions else name
    if chosen not in module.functions:
        raise FileError(f"{path} has no kernel {chosen}: there are {', '.join(module.functions) or 'none'}")
    found: Any = module.function(chosen)
    return CompiledKernel(found)
