"""Chrome trace JSON, the Trace Event Format: every phase of it. The mapping is in docs/import.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topsprof.importers.base import ImportOptions, Source
from topsprof.importers.chrome_events import Flavour, run

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

FLAVOUR: Final = Flavour("chrome", {}, kineto=False)
_EVENT: Final = re.compile(rb'"ph"\s*:|"traceEvents"\s*:')


class ChromeImporter:
    """Traces in the Trace Event Format, of whatever program wrote them."""

    name = "chrome"
    suffixes = (".json", ".trace", ".ctrace")

    def detects(self, head: bytes, path: Path) -> bool:
        """A JSON object or array that has events in it."""
        del path
        start = head.lstrip()[:1]
        return start in (b"{", b"[") and (_EVENT.search(head) is not None or head.strip() in (b"[]", b"{}"))

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        """See Importer.run."""
        run(source, writer, options, FLAVOUR)
