"""Names in records: a number each, for the life of the process."""

from __future__ import annotations

import threading


class Strings:
    """Texts by number and numbers by text; number 0 is ""."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": 0}
        self._texts = [""]
        self._lock = threading.Lock()

    def intern(self, text: str) -> int:
        """The number of a text."""
        found = self._ids.get(text)
        if found is None:
            with self._lock:
                found = self._ids.get(text)
                if found is None:
                    found = len(self._texts)
                    self._texts.append(text)  # before its number is known, so that no reader comes too early
                    self._ids[text] = found
        return found

    def text(self, number: int) -> str:
        """The text of a number; `string<n>` for one of another process."""
        return self._texts[number] if number < len(self._texts) else f"string{number}"


STRINGS = Strings()  # like the numbers in buffers, of the process
