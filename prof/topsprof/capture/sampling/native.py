"""Names of native code: which library an instruction pointer lies in, and the nearest symbol of it."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topsprof.capture.sampling import extension
from topsprof.capture.sampling.maps import Mapping, bias, openable, read_maps
from topsprof.capture.sampling.symbols import readable

_EVALUATION: Final = ("_PyEval_", "PyEval_", "_PyFunction_Vectorcall", "_PyFrame_", "_PyThreadState_")
"""Functions that run Python code themselves: to stand in one is to run Python, not native code."""


@dataclass(frozen=True, slots=True)
class NativeCode:
    """A place in machine code."""

    library: str
    """File name without its folder; "[anonymous]" for code that was made at run time."""
    file: str
    symbol: str
    """"" where the file names nothing there."""
    of_interpreter: bool = False
    """Whether it is Python's own program or library: built-in types and functions are."""

    @property
    def evaluates_python(self) -> bool:
        """Whether this is the interpreter's own loop."""
        return self.symbol.startswith(_EVALUATION)

    def __str__(self) -> str:
        return f"{self.library}!{readable(self.symbol)}" if self.symbol else self.library


class NativeNames:
    """Names pointers of one process, whose Python is in the file `interpreter`. What was named once stays
    named, also when it is unmapped or ends.
    """

    def __init__(self, pid: int, interpreter: str) -> None:
        self._pid = pid
        self._interpreter = interpreter
        self._mappings: list[Mapping] = []
        self._starts: list[int] = []
        self._biases: dict[str, int | None] = {}
        self._known: dict[int, NativeCode] = {}

    def name(self, pointers: Iterable[int]) -> list[NativeCode]:
        """The places of pointers, in their order."""
        wanted = list(pointers)
        unknown = [pointer for pointer in dict.fromkeys(wanted) if pointer not in self._known]
        if unknown:
            self._learn(unknown)
        return [self._known[pointer] for pointer in wanted]

    def _learn(self, pointers: list[int]) -> None:
        if any(self._mapping(pointer) is None for pointer in pointers):
            try:
                self._mappings = read_maps(self._pid)
            except OSError:
                self._mappings = self._mappings or []  # it ended: what we knew of it has to do
            self._starts = [mapping.start for mapping in self._mappings]
            self._biases.clear()
        of_file: dict[str, list[int]] = defaultdict(list)
        for pointer in pointers:
            mapping = self._mapping(pointer)
            if mapping is None or not mapping.path:
                self._known[pointer] = NativeCode("[anonymous]", "", "")
            elif not mapping.path.startswith("/"):
                self._known[pointer] = NativeCode(mapping.path, "", "")  # [vdso]
            else:
                of_file[mapping.path].append(pointer)
        for path, some in of_file.items():
            self._learn_file(path, some)

    def _mapping(self, pointer: int) -> Mapping | None:
        at = bisect.bisect_right(self._starts, pointer) - 1
        return self._mappings[at] if at >= 0 and pointer < self._mappings[at].end else None

    def _learn_file(self, path: str, pointers: list[int]) -> None:
        parts = [mapping for mapping in self._mappings if mapping.path == path]
        place = openable(self._pid, parts[0])
        tool = extension.load()
        symbols: dict[int, str] = {}
        shift = self._biases.get(path)
        try:
            if path not in self._biases:
                shift = self._biases[path] = bias(parts, tool.elf_symbols(place, ())[1])
            if shift is not None:
                symbols = tool.elf_nearest(place, [pointer - shift for pointer in pointers])
        except (OSError, ValueError):
            symbols = {}  # the library is named; it is only its symbols that can't be read
        clean = path.removesuffix(" (deleted)")
        for pointer in pointers:
            symbol = symbols.get(pointer - shift, "") if shift is not None else ""
            self._known[pointer] = NativeCode(Path(clean).name, clean, symbol, path == self._interpreter)
