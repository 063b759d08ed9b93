"""PyTorch profiler traces (Kineto): Chrome trace JSON whose categories and args say what the slices are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topsprof.importers.base import ImportOptions, Source
from topsprof.importers.chrome import ChromeImporter
from topsprof.importers.chrome_events import Flavour, run
from topsprof.importers.kineto_tables import KEYS

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

FLAVOUR: Final = Flavour("kineto", KEYS, kineto=True)
_MARKS: Final = re.compile(
    rb'"(?:deviceProperties|distributedInfo|record_shapes|with_stack|profile_memory)"\s*:|PyTorch Profiler'
)
_CATEGORY: Final = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|operator|python_function|(?:gpu_)?user_annotation|(?:concurrent_)?kernel|gpu_mem(?:cpy|set)|'
    rb"(?:cuda|hip|roc|rocm|gcu|tops|xpu|mtia|hpu|npu|mlu|musa|privateuse1|glow)_"
    rb'(?:runtime|driver|kernel|memcpy|memset|sync|ccp_events|op))"',
    re.IGNORECASE,
)
"""Categories that hardly any other program writes. What a slice becomes is told more freely: `table_of`."""


class KinetoImporter:
    """Traces of PyTorch's profiler, of any accelerator."""

    name = "kineto"
    suffixes = (".pt.trace.json", ".json")

    def detects(self, head: bytes, path: Path) -> bool:
        """A Chrome trace with what only PyTorch writes."""
        if not ChromeImporter().detects(head, path) and not _MARKS.search(head):
            return False
        if head.lstrip()[:1] not in (b"{", b"["):
            return False
        return _MARKS.search(head) is not None or _CATEGORY.search(head) is not None

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        """See Importer.run."""
        run(source, writer, options, FLAVOUR)
