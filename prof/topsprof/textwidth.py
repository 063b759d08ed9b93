"""How many cells of a terminal a text takes, and texts cut, wrapped and made harmless by that measure."""

from __future__ import annotations

import unicodedata

_ELLIPSIS = "..."
_VARIATION_SELECTORS = dict.fromkeys(range(0xFE00, 0xFE10))


def display_width(text: str) -> int:
    """Terminal cells that a text takes: wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0  # marks, and the vowels and finals that Hangul joins to the letter before them
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def truncate(text: str, width: int) -> str:
    """The text cut to `width` terminal cells, ending in `...` where something is missing."""
    if display_width(text) <= width:
        return text
    return _fitting(text, max(width - len(_ELLIPSIS), 0)) + _ELLIPSIS[: max(width, 0)]


def truncate_start(text: str, width: int) -> str:
    """The same, cut at its beginning: of a path with a line number the end tells most."""
    if display_width(text) <= width:
        return text
    if width <= len(_ELLIPSIS):
        return _ELLIPSIS[: max(width, 0)]
    return _ELLIPSIS + _fitting(text[::-1], width - len(_ELLIPSIS))[::-1]


def _fitting(text: str, width: int) -> str:
    """The longest beginning of the text that takes no more than `width` cells."""
    if text.isascii():
        return text[:width]
    for index, character in enumerate(text):
        width -= _cells(character)
        if width < 0:
            return text[:index]
    return text


def printable(text: str, encoding: str | None = None) -> str:
    """Control characters as escapes: a name must not break a table, nor command the terminal.

    So is what `encoding` has no bytes for. Variation selectors are left out: terminals disagree on the width
    of what they select.
    """
    if not text.isascii():
        text = text.translate(_VARIATION_SELECTORS)
        if encoding is not None:
            text = text.encode(encoding, "backslashreplace").decode(encoding)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, parted between words. A longer word has a line of its own,
    whole: it may be a path that somebody copies."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and display_width(line) + 1 + display_width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def chunks(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, parted anywhere; `width` must be 2 or more."""
    lines = []
    while display_width(text) > width:
        part = _fitting(text, width)
        lines.append(part)
        text = text[len(part) :]
    return [*lines, text]
