"""The flight recorder as `topsprof run` sees it: its plan, its signal, and what it tells."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tops_kit.collect.compacting import compact_afterwards
from tops_kit.collect.flight import plan as plans
from tops_kit.collect.flight.plan import Request
from tops_kit.errors import UserError
from tops_kit.session.files import read_json
from topsprof.capture.options import FlightOptions

MANIFEST: Final = "session.json"


class Flight:
    """Of one recording in `folder`, whose collector is about to be started. Raises UserError."""

    def __init__(self, folder: Path, options: FlightOptions, pid: int) -> None:
        self.folder = folder
        self.made: list[Path] = []
        self.failed = 0
        self._read = 0
        try:
            options.plan(folder, pid).save(folder)
        except OSError as error:
            raise UserError(f"'{folder}' can't be recorded into: {error.strerror or error}") from error

    def on_signal(self) -> None:
        """Somebody sent us SIGUSR2."""
        with contextlib.suppress(OSError):  # a full disk: the collector says so
            plans.ask(self.folder, Request("signal", text="SIGUSR2"))

    def tell(self, say: Callable[[str], None]) -> None:
        """Say which snapshots there are since the last call."""
        try:
            with (self.folder / plans.FOLDER / plans.LOG).open(encoding="utf-8") as file:
                file.seek(self._read)
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole.encode())
        for line in whole.splitlines():
            self._tell(json.loads(line), say)

    def conclude(self, say: Callable[[str], None]) -> None:
        """Say which snapshots were made at the very end: session.json has them all."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # whoever inspects it says so
            for found in read_json(self.folder / MANIFEST)["attributes"].get("snapshots", []):
                if Path(found["path"]) not in self.made:
                    self._tell(found, say)

    def _tell(self, found: dict[str, Any], say: Callable[[str], None]) -> None:
        if "error" in found:
            self.failed += 1
            say(f"no snapshot: {found['error']}")
            return
        path = Path(found["path"])
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        self.made.append(path)
        # From here, not from the collector: starting a process holds up all its threads for a moment.
        compact_afterwards(path, int(found.get("rows", 0)))
        why = (
            found.get("why")
            or found.get("label")
            or {"program": "topstx.snapshot()"}.get(found["by"], "asked for")
        )
        say(f"snapshot: {shown} ({why})")
