"""Conversions that both back ends share, for the slow path: colours and payloads. Nothing here raises."""

from __future__ import annotations

COLORS = {
    "black": 0x000000, "blue": 0x0000FF, "brown": 0xA52A2A, "coral": 0xFF7F50,
    "crimson": 0xDC143C, "cyan": 0x00FFFF, "darkblue": 0x00008B, "darkgreen": 0x006400,
    "darkorange": 0xFF8C00, "darkred": 0x8B0000, "deeppink": 0xFF1493, "dodgerblue": 0x1E90FF,
    "firebrick": 0xB22222, "forestgreen": 0x228B22, "fuchsia": 0xFF00FF, "gold": 0xFFD700,
    "gray": 0x808080, "green": 0x008000, "grey": 0x808080, "indigo": 0x4B0082,
    "khaki": 0xF0E68C, "lavender": 0xE6E6FA, "lightblue": 0xADD8E6, "lightgray": 0xD3D3D3,
    "lightgreen": 0x90EE90, "lime": 0x00FF00, "magenta": 0xFF00FF, "maroon": 0x800000,
    "navy": 0x000080, "olive": 0x808000, "orange": 0xFFA500, "orchid": 0xDA70D6,
    "pink": 0xFFC0CB, "plum": 0xDDA0DD, "purple": 0x800080, "rapids": 0x7400FF,
    "red": 0xFF0000, "royalblue": 0x4169E1, "salmon": 0xFA8072, "silver": 0xC0C0C0,
    "skyblue": 0x87CEEB, "slateblue": 0x6A5ACD, "slategray": 0x708090, "steelblue": 0x4682B4,
    "tan": 0xD2B48C, "teal": 0x008080, "tomato": 0xFF6347, "turquoise": 0x40E0D0,
    "violet": 0xEE82EE, "wheat": 0xF5DEB3, "white": 0xFFFFFF, "yellow": 0xFFFF00,
    "yellowgreen": 0x9ACD32,
}  # fmt: skip
"""0xRRGGBB by name: NVTX's names and common CSS ones."""

OPAQUE = 0xFF000000


def color_argb(color: object) -> int:
    """0xAARRGGBB of a name, "#rgb", "#rrggbb", "#aarrggbb" or an int; 0 when it is no colour."""
    if isinstance(color, int):
        value = int.__index__(color) & 0xFFFFFFFF  # whatever its class overrides
        return value if value > 0xFFFFFF else OPAQUE | value
    if not isinstance(color, str):
        return 0
    text = color.strip().lower()
    if text in COLORS:
        return OPAQUE | COLORS[text]
    digits = text[1:] if text.startswith("#") else text.removeprefix("0x")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    if (
        digits == text
        or len(digits) not in (6, 8)
        or any(digit not in "0123456789abcdef" for digit in digits)
    ):
        return 0
    value = int(digits, 16)
    return value if len(digits) == 8 else OPAQUE | value


def json_text(payload: dict[object, object]) -> str | None:
    """JSON text of a dict payload, foreign values as their repr; None when it has none (a cycle, for one)."""
    import json

    try:
        return json.dumps(payload, ensure_ascii=False, default=repr)
    except Exception:  # keys that are no str, a cycle, user code in __repr__: try again with less
        pass
    try:
        return json.dumps({str(key): repr(value) for key, value in payload.items()}, ensure_ascii=False)
    except Exception:  # user code again: a payload is never worth an exception in the program
        return None


def plain(payload: object) -> int | float | str | None:
    """A payload that is no int, float, str, bytes or dict: numpy's scalars as numbers, anything else as its
    repr.
    """
    try:
        if hasattr(type(payload), "dtype") and getattr(payload, "ndim", None) == 0:
            value = payload.item()  # type: ignore[attr-defined]
            return value if isinstance(value, int | float | str) else repr(value)
        return repr(payload)
    except Exception:  # user code in __repr__: a payload is never worth an exception in the program
        return None
