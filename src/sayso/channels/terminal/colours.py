"""Style sheet of the terminal: legible on light and dark, and no meaning is carried by colour alone.

Tests: tests/channels/terminal/test_looking.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from prompt_toolkit.styles import Style

from sayso.channels.display.request_lines import Line

# All from the middle of the 256-colour cube: the contrast with white and with black is about the same.
_GREEN, _RED, _TEAL, _AMBER = "#008700", "#d70000", "#008787", "#af5f00"
STYLE = Style.from_dict(
    {
        "who": "bold", "tool": "bold underline", "name": "", "value": "", "heading": "italic", "status": "bold",
        "keys": "", "key": "bold", "folded": "italic", "number": "", "gutter": "", "said": "italic",
        "selected": "reverse",
        "added": _GREEN, "removed": _RED, "blocked": _RED, "hunk": _TEAL, "asks": _AMBER, "marked": f"bold {_AMBER}",
    }
)  # fmt: skip


_KEY = re.compile(r"(\[\S{1,3}\])")


def highlight_keys(row: str) -> Line:
    """Return a key legend with the keys styled."""
    return [("class:key" if _KEY.fullmatch(part) else "class:keys", part) for part in _KEY.split(row) if part]


def plain_text(lines: Iterable[Line]) -> str:
    """Render lines without style."""
    return "".join(f"{''.join(text for _, text in line)}\n" for line in lines)


def ansi_text(lines: Iterable[Line]) -> str:
    """Render lines with ANSI codes, for a pager."""
    return "".join(f"{''.join(_ansi_fragment(style, text) for style, text in line)}\n" for line in lines)


def _ansi_fragment(style: str, text: str) -> str:
    attrs = STYLE.get_attrs_for_style_str(style)
    codes = [
        code for code, wanted in (("1", attrs.bold), ("3", attrs.italic), ("4", attrs.underline)) if wanted and text
    ]
    if attrs.color and text:
        red, green, blue = bytes.fromhex(attrs.color)
        codes.append(f"38;2;{red};{green};{blue}")
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text
